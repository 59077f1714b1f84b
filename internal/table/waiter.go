package table

import (
	"context"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// by says how a waiter's tokens are asked for.
type by uint8

const (
	byTake by = iota // taken by the store, for a request under one rule
	byNeed           // leased, for a request under several
	byLook           // not at all
)

// fate is what became of a waiter.
type fate uint8

const (
	given  fate = iota // out has the answer
	again              // things have changed: decide anew
	failed             // no answer in time
)

// waiter is a request that waits for a flight.
type waiter struct {
	n     int64 // tokens
	held  int64 // of them, those reserved from the balance
	epoch uint64
	by    by
	left  bool // its request went away; under the entry's lock
	out   Outcome
	ch    chan fate
}

func newWaiter() any { return &waiter{ch: make(chan fate, 1)} }

// queue adds a waiter for n tokens; under the lock. The balance goes into a
// take first, so that a cost above it is paid by both or by neither.
func (e *Entry) queue(n int64, how by) *waiter {
	w, _ := e.rule.table.waiters.Get().(*waiter)
	*w = waiter{n: n, by: how, epoch: e.Epoch(), ch: w.ch}

	if how == byTake && e.missed {
		w.by = byNeed // after a missed deadline a lease is asked for: its grant can be heard later
	}

	if b := e.Balance(); w.by == byTake && b > 0 && b < n {
		if e.hold(b) {
			w.held = b
		}
	}

	e.waiting = append(e.waiting, w)

	return w
}

// hold reserves n tokens of the balance; under the lock.
func (e *Entry) hold(n int64) bool {
	_, v, _ := e.Reserve(e.Tick(), n)

	return v.Passed()
}

// await waits for w's fate until the deadline or the end of ctx.
func (t *Table) await(ctx context.Context, e *Entry, w *waiter, until int64) fate {
	select {
	case f := <-w.ch: // the flight was flown by this very goroutine
		return f
	default:
	}

	timer := time.NewTimer(time.Duration(until-t.clock.Now()) * time.Microsecond)
	defer timer.Stop()

	select {
	case f := <-w.ch:
		return f
	case <-timer.C:
		t.counts.late.Add(1)
	case <-ctx.Done():
	}

	return e.abandon(w)
}

// abandon takes w out of the queue, or leaves it to its flight. Its fate may have come meanwhile.
func (e *Entry) abandon(w *waiter) fate {
	e.mu.Lock()
	defer e.mu.Unlock()

	select {
	case f := <-w.ch:
		return f
	default:
	}

	w.left = true

	for i, o := range e.waiting {
		if o == w {
			e.waiting = append(e.waiting[:i], e.waiting[i+1:]...)
			e.release(w)

			break
		}
	}

	return failed
}

// release gives back what w holds; under the lock.
func (e *Entry) release(w *waiter) {
	if w.held > 0 {
		e.Cancel(w.epoch, w.held)
		w.held = 0
	}
}

// tell tells w its fate; under the lock.
func (e *Entry) tell(w *waiter, f fate) {
	e.release(w)

	if !w.left {
		w.ch <- f
	}
}

// board takes up to ledger.MaxTakes waiters of each kind onto the flight; under the lock.
func (e *Entry) board(c *flight) (takes, needs []int64) {
	rest := e.waiting[:0]
	e.flying = e.flying[:0]
	start, n := len(c.costs), 0

	for _, w := range e.waiting {
		switch {
		case w.by == byTake && len(c.costs)-start < ledger.MaxTakes:
			c.costs = append(c.costs, w.n-w.held)
		case w.by == byNeed && n < ledger.MaxTakes:
			n++
		case w.by == byLook:
		default:
			rest = append(rest, w)

			continue
		}

		e.flying = append(e.flying, w)
	}

	clear(e.waiting[len(rest):])
	e.waiting = rest
	takes = c.costs[start:len(c.costs):len(c.costs)]
	start = len(c.costs)

	for _, w := range e.flying {
		if w.by == byNeed {
			c.costs = append(c.costs, w.n)
		}
	}

	return takes, c.costs[start:len(c.costs):len(c.costs)]
}

// land tells the waiters of a flight what the answer was; under the lock.
func (e *Entry) land(now int64, a *ledger.Answer) {
	take, after := 0, e.takenCost(a)

	for _, w := range e.flying {
		switch w.by {
		case byTake:
			taken := a.Taken&(1<<take) != 0
			take++

			if taken && a.Terms.Algorithm == rate.LeakyBucket {
				w.out.Delay = delay(a, after)
				after -= w.n
			}

			e.landTake(now, w, taken)
		case byNeed:
			e.tell(w, again)
		case byLook:
			e.landLook(now, w)
		}
	}

	clear(e.flying)
	e.flying = e.flying[:0]

	// Those that came later are served from a refill, or refused with the rest.
	rest := e.waiting[:0]

	for _, w := range e.waiting {
		if w.by == byTake && w.held == 0 && (e.landSpend(now, w) || e.landDeny(now, w)) {
			continue
		}

		rest = append(rest, w)
	}

	clear(e.waiting[len(rest):])
	e.waiting = rest
}

// takenCost returns the tokens of the takes that were given.
func (e *Entry) takenCost(a *ledger.Answer) (n int64) {
	take := 0

	for _, w := range e.flying {
		if w.by == byTake {
			if a.Taken&(1<<take) != 0 {
				n += w.n
			}

			take++
		}
	}

	return n
}

// delay returns how long a take has to wait for its turn in a leaky bucket: the
// level at the answer without its own tokens and those of the takes after it, n in all.
func delay(a *ledger.Answer, n int64) int64 {
	at := a.Terms.Bucket.Add(a.Level, -n)
	if at.Frac > 0 {
		at.Micros++
	}

	return max(0, at.Micros)
}

func (e *Entry) landTake(now int64, w *waiter, taken bool) {
	if !taken {
		e.release(w)

		if e.landSpend(now, w) || e.landDeny(now, w) {
			return
		}

		// The store had less than this cost, though something: asking again at once would bring the same.
		e.denied.Add(1)
		e.refuse(&w.out, now, w.n, OverLimit)
		w.out.Origin = FromStore
		e.tell(w, given)

		return
	}

	if w.held > 0 {
		e.Commit(w.held)
		w.held = 0
	}

	if w.left {
		return // the store took it and nobody used it: it refills
	}

	e.admit(&w.out, FromStore, standing{now, e.Remaining(now), e.Balance()})
	w.out.Charge = Charge{entry: e, epoch: storeEpoch, cost: w.n, end: e.CountsUntil(now)}
	e.rule.counts.count(&w.out)
	e.tell(w, given)
}

// landSpend serves w from the balance if that covers it.
func (e *Entry) landSpend(now int64, w *waiter) bool {
	if w.left {
		return true
	}

	epoch := e.Epoch()

	left, v, _ := e.Spend(e.turn(now), w.n)
	if !v.Passed() {
		return false
	}

	e.spent(&w.out, now, left, Charge{entry: e, epoch: epoch, cost: w.n})
	w.out.Origin, w.out.Remaining = FromStore, e.Remaining(now)
	e.tell(w, given)

	return true
}

func (e *Entry) landDeny(now int64, w *waiter) bool {
	if !e.deny(now, w.n, &w.out) {
		return false
	}

	w.out.Origin = FromStore
	e.tell(w, given)

	return true
}

func (e *Entry) landLook(now int64, w *waiter) {
	if left := e.Remaining(now); left > 0 {
		e.admit(&w.out, FromStore, standing{now, left, e.Balance()})

		if e.rule.now.Load().Algorithm == rule.LeakyBucket {
			w.out.Delay = e.Full(now) // all that is before it
		}
	} else {
		e.refuse(&w.out, now, 1, OverLimit)
		w.out.Origin = FromStore
	}

	e.tell(w, given)
}

// crash tells every waiter that there is no answer; under the lock.
func (e *Entry) crash() {
	for _, w := range e.flying {
		e.tell(w, failed)
	}

	for _, w := range e.waiting {
		e.tell(w, failed)
	}

	clear(e.flying)
	clear(e.waiting)
	e.flying, e.waiting = e.flying[:0], e.waiting[:0]
}
