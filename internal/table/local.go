package table

import (
	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/rule"
)

// TakeWithout is Take as if no coordinator could be asked: for a request that a bug
// kept from being decided in the usual way.
func (r *Rule) TakeWithout(key string, n int64, out *Outcome) {
	if r.retired.Load() {
		*out = Outcome{}

		return
	}

	r.entry(key).decideLocal(n, out)
}

// decideLocal decides without a coordinator.
func (e *Entry) decideLocal(n int64, out *Outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()

	now := e.now()
	tick := e.turn(now)
	epoch := e.Epoch()

	if left, v, _ := e.Spend(tick, n); v.Passed() {
		out.told(e.spent(now, left, n, epoch))

		return
	}

	e.local(now, n, out)
}

// local is what the rule says for an outage; under the lock.
func (e *Entry) local(now, n int64, out *Outcome) {
	if e.stray {
		e = e.rule().spareEntry()

		e.mu.Lock()
		defer e.mu.Unlock()

		now = e.now()

		e.refresh()
	}

	def := e.def()

	switch def.OnUnavailable {
	case rule.Allow:
		e.admit(out, FromOpen, standing{now, 0, 0})
	case rule.Deny:
		e.refuse(out, now, n, Unavailable)
		out.Origin, out.Remaining = FromClosed, 0
		out.RetryAfter = retryClosed
	case rule.Local:
		e.beginLocal(now, def)
		delay := e.LocalDelay(now)

		ok, left, after := e.TakeLocal(now, n)
		if ok {
			e.admit(out, FromLocal, standing{now, left, 0})

			if def.Algorithm == rule.LeakyBucket {
				out.Delay = delay
			}

			out.Charge = Charge{of: &e.name, epoch: localEpoch, cost: n, end: e.CountsUntil(now)}
		} else {
			e.refuse(out, now, n, OverLimit)
			out.Origin, out.Remaining, out.RetryAfter = FromLocal, left, max(1, after)

			if after < 0 {
				out.RetryAfter = retryClosed // above this share, but not above the limit
			}
		}
	}

	e.count(out, 1)
}

// retryClosed is the wait that a refusal for want of a coordinator names: 1 s.
const retryClosed = 1_000_000

// Epochs of charges that no lease paid.
const (
	localEpoch = ^uint32(0)     // the local bucket
	storeEpoch = ^uint32(0) - 1 // a take
	loanEpoch  = ^uint32(0) - 2 // a loan
)

// beginLocal has the local bucket be in force, as the rule and the fleet are now; under the lock.
func (e *Entry) beginLocal(now int64, def *rule.Rule) {
	a := holder.Alone{Whole: e.limits.Load().bucket.Bucket, Holders: e.rule().table.live.Load(), Version: def.Version}
	if e.LocalUnder(a) {
		return
	}

	if f := def.Fallback; f != nil {
		if b, err := newBucket(f); err == nil {
			e.BeginLocal(now, a, &b)

			return
		}
	}

	e.BeginLocal(now, a, nil)
}
