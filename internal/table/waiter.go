package table

import (
	"context"
	"slices"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
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
	quit               // the caller went away
)

// waiter is a request that waits for a flight.
type waiter struct {
	n     int64 // tokens
	held  int64 // of them, those reserved from the balance
	epoch uint32
	by    by
	left  bool // its request went away; under the entry's lock
	out   Outcome
	ch    chan fate
}

// line is who waits for a key. Most keys have none at most times: it goes back when nobody is left in it.
type line struct {
	waiting []*waiter // for the next flight
	flying  []*waiter // for the answer to the one under way
}

func newLine() any { return &line{} }

// waits returns those that wait for the next flight; under the lock, as all of a line.
func (e *Entry) waits() []*waiter {
	if e.line == nil {
		return nil
	}

	return e.line.waiting
}

// disperse gives back a line that nobody is left in.
func (e *Entry) disperse() {
	if q := e.line; q != nil && len(q.waiting)+len(q.flying) == 0 {
		e.line = nil
		e.rule().table.lines.Put(q)
	}
}

func newWaiter() any { return &waiter{ch: make(chan fate, 1)} }

// queue adds a waiter for n tokens; under the lock. The balance goes into a
// take first, so that a cost above it is paid by both or by neither.
func (e *Entry) queue(n int64, how by) *waiter {
	w, _ := e.rule().table.waiters.Get().(*waiter)
	*w = waiter{n: n, by: how, epoch: e.Epoch(), ch: w.ch}

	if how == byTake && e.Missed() {
		w.by = byNeed // after a missed deadline a lease is asked for: its grant can be heard later
	}

	if b := e.Balance(); w.by == byTake && b > 0 && b < n {
		if e.hold(b) {
			w.held = b
		}
	}

	if e.line == nil {
		e.line, _ = e.rule().table.lines.Get().(*line)
	}

	e.line.waiting = append(e.line.waiting, w)

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

	if t.steps != nil {
		return t.steps.await(e, w, until)
	}

	timer := time.NewTimer(time.Duration(until-t.clock.Now()) * time.Microsecond)
	defer timer.Stop()

	whole := false

	defer func() {
		if !whole { // a panic, such as of a context that is not ours
			t.forsake(e, w)
		}
	}()

	gone := ctx.Done()
	whole = true

	select {
	case f := <-w.ch:
		return f
	case <-timer.C:
		t.counts.late.Add(1)

		return e.abandon(w, failed)
	case <-gone:
		return e.abandon(w, quit)
	}
}

// forsake abandons w, and gives back what it got meanwhile.
func (t *Table) forsake(e *Entry, w *waiter) {
	if e.abandon(w, quit) == given {
		t.Refund(w.out.Charge)
	}
}

// abandon takes w out of the queue, or leaves it to its flight. Its fate may have
// come meanwhile; otherwise it is why.
func (e *Entry) abandon(w *waiter, why fate) fate {
	e.mu.Lock()
	defer e.mu.Unlock()

	select {
	case f := <-w.ch:
		return f
	default:
	}

	w.left = true

	for i, o := range e.waits() {
		if o == w {
			e.line.waiting = slices.Delete(e.line.waiting, i, i+1)
			e.release(w)
			e.disperse()

			break
		}
	}

	return why
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
	q := e.line
	if q == nil {
		return nil, nil
	}

	rest := q.waiting[:0]
	q.flying = q.flying[:0]
	start, n := len(c.costs), 0

	for _, w := range q.waiting {
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

		q.flying = append(q.flying, w)
	}

	clear(q.waiting[len(rest):])
	q.waiting = rest
	takes = c.costs[start:len(c.costs):len(c.costs)]
	start = len(c.costs)

	for _, w := range q.flying {
		if w.by == byNeed {
			c.costs = append(c.costs, w.n)
		}
	}

	return takes, c.costs[start:len(c.costs):len(c.costs)]
}
