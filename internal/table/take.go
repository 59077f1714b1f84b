package table

import (
	"context"

	"github.com/leaseway/leaseway/internal/holder"
)

// Take decides a request for n tokens of key, at least 1, under this rule alone.
func (r *Rule) Take(ctx context.Context, key string, n int64, out *Outcome) {
	if out.told(r.Quick(key, n)) {
		return
	}

	r.slow(ctx, key, n, out)
}

// spent says what is told of n tokens that were taken of the lease in epoch, in which left are left.
func (e *Entry) spent(now, left, n int64, epoch uint32) (Told, Charge) {
	if n != 1 {
		e.More(n - 1)
	}

	v, whole := e.limits.Load(), e.Whole()
	full := whole - now
	told := Told{by: v, Reset: v.reset(full, left)}
	c := Charge{of: &e.name, epoch: epoch, cost: n}

	if v.drains {
		told.Remaining, c.end = left+v.bucket.Free(full), forever
	} else {
		told.Remaining, c.end = left+e.Beyond(), whole
	}

	return told, c
}

// countsUntil is CountsUntil of a lease's tokens, without the lock: to the end of the window, if there is one.
func (e *Entry) countsUntil() int64 {
	if e.limits.Load().drains {
		return forever
	}

	return e.Whole()
}

// afterSpend sends for a refill, and catches a coarse clock that came to a stop.
func (t *Table) afterSpend(e *Entry, low, look bool) {
	if look {
		t.clock.Turn(t.clock.Now())
	}

	if low && !e.asking.Load() {
		now := t.clock.Now()
		if !e.Scarce(now) {
			t.enqueue(e, false)
		}
	}
}

// slow decides under the lock, and waits for a flight if the lease cannot say.
func (r *Rule) slow(ctx context.Context, key string, n int64, out *Outcome) {
	t := r.table
	until := t.until(out)

	if r.retired.Load() {
		*out = Outcome{}

		return
	}

	if r.takeLoan(key, n, out) {
		return
	}

	e := r.entry(key)

	for {
		w, next := e.decide(n, out)

		switch next {
		case retry:
			e = r.entry(key)

			continue
		case refill:
			t.enqueue(e, false)
		case wait:
			t.enqueue(e, true)

			switch t.await(ctx, e, w, until) {
			case given:
				*out = w.out
				t.waiters.Put(w)

				return
			case again:
				t.waiters.Put(w)

				continue
			case failed:
				e.decideLocal(n, out)
			case quit:
				e.quit(n, out)
			}
		case done:
		}

		return
	}
}

// until returns when the request of out stops waiting.
func (t *Table) until(out *Outcome) int64 {
	if out.Until != 0 {
		return out.Until
	}

	return t.Until()
}

// Until returns the deadline of a request that comes now, µs on the table's clock.
func (t *Table) Until() int64 { return t.clock.Now() + t.deadline }

// quit refuses a request whose caller did not wait for the answer: it must not
// pass for free, and the local limit is for when there is no coordinator.
func (e *Entry) quit(n int64, out *Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.refuse(out, e.now(), n, Unavailable)
	out.Origin, out.RetryAfter = FromClosed, retryClosed
	e.count(out, 1)
}

// next is what remains to be done after a look under the lock.
type next uint8

const (
	done   next = iota
	retry       // the entry left the table meanwhile
	refill      // decided; an ask should go out in the background
	wait        // for the next flight
)

// decide answers from memory if it can, and otherwise queues a waiter for the next flight.
func (e *Entry) decide(n int64, out *Outcome) (*waiter, next) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.gone {
		return nil, retry
	}

	now := e.now()

	e.refresh()
	e.use(now)
	epoch := e.Epoch()
	tick := e.turn(now)

	left, verdict, _ := e.Spend(tick, n)
	if verdict.Passed() {
		out.told(e.spent(now, left, n, epoch))
		out.Remaining = e.Remaining(now)

		if verdict == holder.SpentLow && !e.asking.Load() && !e.Scarce(now) {
			return nil, refill
		}

		return nil, done
	}

	if e.deny(now, n, out) {
		return nil, done
	}

	down, probe := e.down(now)
	if down {
		e.local(now, n, out)

		if probe {
			return nil, refill
		}

		return nil, done
	}

	if slack := e.def().Slack; slack > 0 && e.limits.Load().leases && e.Borrow(n, slack) {
		left := max(0, e.limits.Load().burst-n)
		e.admit(out, FromLease, standing{now, left, 0})
		out.Charge = Charge{of: &e.name, epoch: storeEpoch, cost: n, end: e.CountsUntil(now)}
		e.count(out, 1)

		return nil, refill
	}

	return e.queue(n, byTake), wait
}

// deny refuses what is known to be too much; under the lock.
func (e *Entry) deny(now, n int64, out *Outcome) bool {
	kind, unmet := OverLimit, int64(0)

	switch _, denied := e.Denied(now, n); {
	case e.limits.Load().bucket.Burst == 0:
		kind = Blocked
	case n > e.limits.Load().bucket.Burst:
		kind = CostExceeds
	case !denied:
		return false
	default:
		unmet = n
	}

	e.Refuse(unmet)
	e.refuse(out, now, n, kind)

	return true
}

// down reports whether no store can be asked for this key now, and whether
// this request should find out if that still holds; under the lock.
func (e *Entry) down(now int64) (down, probe bool) {
	t := e.rule().table

	if down, probe = t.out.ask(now); down {
		return down, probe
	}

	if at, ok := e.Asked(); ok && now-at > t.deadline {
		return true, false // a flight is under way and late: nobody waits for it any more
	}

	return now < e.Again(), false
}
