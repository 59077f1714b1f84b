package table

import (
	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// land tells the waiters of a flight what the answer was; under the lock.
func (e *Entry) land(now int64, a *ledger.Answer) {
	q := e.line
	if q == nil {
		return
	}

	take, after := 0, q.takenCost(a)

	for _, w := range q.flying {
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

	clear(q.flying)
	q.flying = q.flying[:0]

	// Those that came later are served from a refill, or refused with the rest.
	rest := q.waiting[:0]

	for _, w := range q.waiting {
		if w.by == byTake && w.held == 0 && (e.landSpend(now, w) || e.landDeny(now, w)) {
			continue
		}

		rest = append(rest, w)
	}

	clear(q.waiting[len(rest):])
	q.waiting = rest
	e.disperse()
}

// takenCost returns the tokens of the takes that were given.
func (q *line) takenCost(a *ledger.Answer) (n int64) {
	take := 0

	for _, w := range q.flying {
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
		e.Refuse(0)
		e.refuse(&w.out, now, w.n, OverLimit)
		w.out.Origin = FromStore
		e.tell(w, given)

		return
	}

	if w.held > 0 {
		e.Commit(w.held)
		e.More(w.held) // the request is counted by itself
		w.held = 0
	}

	if w.left {
		// The store took it and nobody used it: it is owed back.
		e.Refund(now, holder.Payment{Epoch: storeEpoch, N: w.n, End: e.CountsUntil(now)})

		return
	}

	e.admit(&w.out, FromStore, standing{now, e.Remaining(now), e.Balance()})
	w.out.Charge = Charge{of: &e.name, epoch: storeEpoch, cost: w.n, end: e.CountsUntil(now)}
	e.count(&w.out, 1)
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

	w.out.told(e.spent(now, left, w.n, epoch))
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

		if e.rule().now.Load().Algorithm == rule.LeakyBucket {
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
	q := e.line
	if q == nil {
		return
	}

	for _, w := range q.flying {
		e.tell(w, failed)
	}

	for _, w := range q.waiting {
		e.tell(w, failed)
	}

	clear(q.flying)
	clear(q.waiting)
	q.flying, q.waiting = q.flying[:0], q.waiting[:0]
	e.disperse()
}
