package table

import (
	"math"
	"time"
)

// Kind says how a request came out.
type Kind uint8

// The kinds.
const (
	Allowed Kind = iota
	OverLimit
	CostExceeds // above the capacity: waiting never helps
	Blocked
	Unavailable // no coordinator, and the rule says deny
	TooMany     // as many are in flight as may be
)

// Origin says what decided. Its values are those of the SDK's Origin.
type Origin uint8

// The origins.
const (
	FromNone Origin = iota
	FromLease
	FromStore
	FromLocal
	FromOpen
	FromClosed
	origins
)

// Outcome is the answer of one rule to one request.
type Outcome struct {
	Kind       Kind
	Origin     Origin
	Burst      int64
	Remaining  int64
	Reset      int64 // µs until the bucket is full
	RetryAfter int64 // µs; 0 when allowed or when waiting does not help
	Delay      int64 // µs that an allowed request is to be held back: of a leaky bucket
	Quota      int64
	Window     time.Duration
	Charge     Charge

	// Until is told, not answered: when to stop waiting for the source, µs. 0 is the deadline from now.
	Until int64
}

// Charge is what a request took, so that it can be given back.
type Charge struct {
	of    *name // of the loan, where epoch says so, or else of the Entry
	epoch uint32
	cost  int64
	end   int64 // when it stops to count, on the holder's clock
}

// forever is the end of a charge that always counts.
const forever = math.MaxInt64

// Taken reports whether the store took the tokens for this very request, when it
// answered the ask that the request waited for. Otherwise they were spent by the decision.
func (c Charge) Taken() bool { return c.epoch == storeEpoch }

// None reports whether nothing was charged.
func (c Charge) None() bool { return c.of == nil }

// Told is what a decision from memory says of its key, beside its charge, which is of nothing if the request is refused.
// Both are small enough to be returned in registers: to write an Outcome and read it again takes as long as to find the key.
type Told struct {
	by         *limits // nil: nothing was decided
	Remaining  int64
	Reset      int64 // as in an Outcome
	RetryAfter int64
}

// None reports whether nothing was decided.
func (t Told) None() bool { return t.by == nil }

// Rule returns the id of the rule that decided.
func (t Told) Rule() string { return t.by.rule.id }

// Limits returns what the rule gives the key: room for burst tokens, and quota of them per window.
func (t Told) Limits() (burst, quota int64, window time.Duration) {
	return t.by.burst, t.by.quota, t.by.window
}

// told fills in o with what memory said. It reports false if that was nothing.
func (o *Outcome) told(t Told, c Charge) bool {
	if t.None() {
		return false
	}

	o.Kind, o.Origin, o.Charge = Allowed, FromLease, c
	if c.None() {
		o.Kind = OverLimit
	}

	o.Burst, o.Quota, o.Window = t.Limits()
	o.Remaining, o.Reset, o.RetryAfter = t.Remaining, t.Reset, t.RetryAfter

	return true
}

// standing is how a key stands at now: left tokens remain, balance of them in this holder's lease.
type standing struct{ now, left, balance int64 }

// admit fills in out for a request that passed.
func (e *Entry) admit(out *Outcome, origin Origin, s standing) {
	v := e.limits.Load()
	out.Kind, out.Origin = Allowed, origin
	out.Burst, out.Quota, out.Window = v.burst, v.quota, v.window
	out.Remaining = s.left
	out.RetryAfter = 0

	out.Reset = v.reset(e.Whole()-s.now, s.balance)
}

// beyond returns what is left beside the balance, as far as is known without the lock.
func (e *Entry) beyond(now int64) int64 {
	if l := e.limits.Load(); l.drains {
		return l.bucket.Free(e.Whole() - now)
	}

	return e.Beyond()
}

// reset returns the µs until everything is whole again if it were in full once
// all that is leased is spent, balance of which is not: each token of it brings the end of a bucket nearer.
func (l *limits) reset(full, balance int64) int64 {
	switch {
	case !l.drains:
	case l.bucket.Q == 1: // as for most limits: it saves a division
		full -= balance * l.bucket.P
	default:
		full -= balance * l.bucket.P / max(1, l.bucket.Q)
	}

	return max(0, full)
}

// refuse fills in out for a request that did not pass; under the lock.
func (e *Entry) refuse(out *Outcome, now, n int64, kind Kind) {
	v := e.limits.Load()
	out.Kind, out.Origin = kind, FromLease
	out.Burst, out.Quota, out.Window = v.burst, v.quota, v.window
	out.Remaining, out.Reset, out.RetryAfter = 0, 0, 0

	if e.Known() {
		out.Remaining, out.Reset = e.Remaining(now), e.Full(now)
	} else {
		out.Remaining = v.burst
	}

	if kind != OverLimit {
		return
	}

	out.RetryAfter = max(1, e.Wait(now, n))
	if till, denied := e.Denied(now, n); denied {
		out.RetryAfter = max(out.RetryAfter, till-now)
	}
}
