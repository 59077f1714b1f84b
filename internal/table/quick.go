package table

import (
	"time"

	"github.com/leaseway/leaseway/internal/holder"
)

// Quick is the answer to a request that memory decides at once: by a lease, or
// by a refusal that still holds. It has no more parts than there are registers to return it in.
type Quick struct {
	entry  *Entry // nil: memory cannot decide
	limits *limits
	epoch  uint64
	full   int64 // when what is charged is whole again, on the holder's clock

	Remaining  int64
	Reset      int64 // µs, as in Outcome
	RetryAfter int64 // µs; 0: allowed
}

// Decided reports whether memory could decide the request. The rest is valid only if so.
func (q *Quick) Decided() bool { return q.entry != nil }

// Allowed reports whether the request passes.
func (q *Quick) Allowed() bool { return q.RetryAfter == 0 }

// Burst is the capacity for the key, tokens.
func (q *Quick) Burst() int64 { return q.limits.burst }

// Quota is how many tokens come back in a Window.
func (q *Quick) Quota() int64 { return q.limits.quota }

// Window is the time in which Quota tokens come back.
func (q *Quick) Window() time.Duration { return q.limits.window }

// Charge returns what the request took, if it was for n tokens and passes.
func (q *Quick) Charge(n int64) Charge {
	return Charge{entry: q.entry, epoch: q.epoch, cost: n, end: q.limits.countsUntil(q.full)}
}

// fill puts the answer to a request for n tokens into out.
func (q *Quick) fill(out *Outcome, n int64) {
	out.Kind, out.Origin = OverLimit, FromLease
	out.Burst, out.Quota, out.Window = q.limits.burst, q.limits.quota, q.limits.window
	out.Remaining, out.Reset, out.RetryAfter = q.Remaining, q.Reset, q.RetryAfter

	if q.Allowed() {
		out.Kind, out.Charge = Allowed, q.Charge(n)
	}
}

// Quick decides a request for n tokens of key, at least 1, if that takes no
// lock, no look at the real clock and no call.
func (r *Rule) Quick(key string, n int64) (q Quick) {
	e := r.known(key)
	if e == nil {
		return q
	}

	t := r.table
	epoch, tick := e.Epoch(), t.clock.tick.Load()

	left, verdict, look := e.Spend(tick, n)
	if verdict == holder.Turned && e.quickTurn(tick) {
		left, verdict, look = e.Spend(tick, n)
	}

	if !verdict.Passed() {
		if n == 1 && tick > 0 {
			return e.quickRefusal(tick)
		}

		return q
	}

	if n != 1 {
		e.extra.Add(n - 1)
	}

	q = Quick{entry: e, limits: e.limits.Load(), epoch: epoch, full: e.full.Load()}
	q.Remaining = left + e.avail.Load()
	q.Reset = q.limits.reset(q.full-tick, left)

	if look || verdict == holder.SpentLow {
		t.afterSpend(e, verdict == holder.SpentLow, look)
	}

	return q
}

// quickRefusal refuses a request for one token without the lock, if it is clear
// even by a coarse clock that none is to be had.
func (e *Entry) quickRefusal(tick int64) (q Quick) {
	till, denied := e.Denied(tick, 1)

	// Nor may the coarse clock add a second to a wait that is told in whole ones.
	wait := till - tick
	if !denied || wait < coarse || (wait-1)/second != (wait-coarse-1)/second {
		return q
	}

	l := e.limits.Load()
	if l.version != e.rule.version.Load() && e.outdated(l) { // other rules may have enough
		return q
	}

	e.quick.Add(1)

	return Quick{entry: e, limits: l, Reset: max(0, e.full.Load()-tick), RetryAfter: wait}
}

// coarse is by how much a coarse clock may be wrong for a refusal that goes by it, µs.
const (
	coarse = 2_000
	second = 1_000_000
)
