package table

import (
	"runtime"

	"github.com/leaseway/leaseway/internal/holder"
)

// quickLoan decides a request for n tokens by a loan of the rule, if that takes no look at the real clock. For most requests the loan is
// ready, and they call nothing: what tell says of these is said here, too.
func (r *Rule) quickLoan(l *loan, n int64) (told Told, charge Charge) {
	v, c := l.limits, r.table.clock
	tick := c.tick.Load()

	if v.version != r.version.Load() || !l.Ready(tick, n, &v.bucket) {
		return r.readyLoan(l, tick, n)
	}

	var (
		tat     int64
		verdict holder.Verdict
	)

	if v.bucket.Stripes == nil {
		tat, verdict = l.Try(tick, n, &v.bucket)
	} else {
		tat, verdict = l.SpendStriped(tick, n, &v.bucket, stripe())
	}

	switch {
	case verdict == holder.Spent && n == 1 && c.tick.Load() == tick: // as pass says it
		level, soon := v.level(tick, tat), c.coarse()

		return Told{by: v, Remaining: v.left(level, soon), Reset: v.whole(level, soon)}, l.charge(1)
	case verdict == holder.Dry && n == 1 && tick > 0:
		return l.quickRefusal(tick, tat, c.coarse()), Charge{}
	case verdict == holder.Turned:
		return r.readyLoan(l, tick, n)
	case verdict == holder.Missed:
		tat, verdict = l.SpendLate(tick, n, &v.bucket)

		return l.tell(tick, n, tat, verdict)
	default:
		return l.tell(tick, n, tat, verdict)
	}
}

// readyLoan is quickLoan for a loan that may be under older limits, or has to be turned first.
func (r *Rule) readyLoan(l *loan, tick, n int64) (told Told, charge Charge) {
	v, c := l.limits, r.table.clock

	if v.version != r.version.Load() && l.outdated() {
		return told, charge
	}

	var (
		tat     int64
		verdict holder.Verdict
	)

	if v.bucket.Stripes == nil {
		tat, verdict = l.Spend(tick, n, &v.bucket)
	} else {
		tat, verdict = l.SpendStriped(tick, n, &v.bucket, stripe())
	}

	if verdict == holder.Turned && c.trusted(tick) {
		tat, verdict = l.Turn(&holder.When{Tick: tick, Coarse: true, Clock: c}, n, &v.bucket)
	}

	return l.tell(tick, n, tat, verdict)
}

// tell says what is to be told of a request for n tokens in a tick, after which the cell is tat.
func (l *loan) tell(tick, n, tat int64, verdict holder.Verdict) (told Told, charge Charge) {
	v := l.limits
	c := v.rule.table.clock

	switch {
	case verdict.Passed():
		if verdict == holder.SpentLate {
			v.rule.stripe(l)
		}

		if c.tick.Load() != tick {
			l.redate(n, tat) // the request was held up, and is dated too early
		}

		return l.pass(n, v.level(tick, tat), c.coarse())
	case verdict == holder.Dry && n == 1 && tick > 0:
		return l.quickRefusal(tick, tat, c.coarse()), charge
	default:
		return told, charge
	}
}

// decide is quick with a look at the real clock. It reports false if the loan is over.
func (l *loan) decide(n int64, out *Outcome) bool {
	v := l.limits
	c := v.rule.table.clock

	for {
		when := holder.When{Tick: c.Turn(c.Now()), Clock: c}

		switch tat, verdict := l.Turn(&when, n, &v.bucket); verdict {
		case holder.Spent:
			out.told(l.pass(n, v.level(when.At, tat), 0))

			return true
		case holder.Dry:
			l.refuse(n, v.level(when.At, tat), out)

			return true
		case holder.Closed:
			return false
		case holder.Turned, holder.SpentLow, holder.SpentLate, holder.Missed:
			runtime.Gosched()
		}
	}
}

// redate dates n tokens, after which the cell was tat, at the present time: they were taken by a tick that is over.
func (l *loan) redate(n, tat int64) {
	c := l.limits.rule.table.clock

	for l.Redate(c.Now(), n, tat, &l.limits.bucket) == holder.Turned {
		runtime.Gosched()
	}
}

// level returns the time of the tokens that are used at now, in units of 1/Q µs, when the bucket is full at tat.
func (l *limits) level(now, tat int64) int64 { return max(0, tat-now*l.bucket.Q) }

// left returns how many tokens a level leaves, one that comes back within soon µs included.
func (l *limits) left(level, soon int64) int64 {
	b := &l.bucket

	room := b.Burst*b.P - level
	if b.P != 1 { // as of few limits; the others save a division
		room = min(b.Burst*b.P, room+min(soon*b.Q, b.P-1)) / b.P
	}

	return max(0, room)
}

// micros returns a span of units of 1/Q µs in µs, rounded up.
func (l *limits) micros(units int64) int64 {
	if l.bucket.Q == 1 {
		return units
	}

	return (units + l.bucket.Q - 1) / l.bucket.Q
}

// whole returns the µs until a level is none, by a clock that is soon µs late at most.
func (l *limits) whole(level, soon int64) int64 {
	if level <= soon*l.bucket.Q { // as under large limits, which so take no division
		return 0
	}

	return l.micros(level) - soon
}

// pass says what is to be told of a request for n tokens, after which the level is level, by a clock that is soon µs late at most.
func (l *loan) pass(n, level, soon int64) (Told, Charge) {
	v := l.limits

	if n != 1 {
		v.admitted(1 - n) // it is one request, of as many tokens
	}

	return Told{by: v, Remaining: v.left(level, soon), Reset: v.whole(level, soon)}, l.charge(n)
}

// charge is that of a request for n tokens.
func (l *loan) charge(n int64) Charge {
	return Charge{of: &l.name, epoch: loanEpoch, cost: n, end: forever}
}

// refuse fills in out for a request for n tokens, for which the level is too high.
func (l *loan) refuse(n, level int64, out *Outcome) {
	v := l.limits

	out.Kind, out.Origin = OverLimit, FromLease
	out.Burst, out.Quota, out.Window = v.burst, v.quota, v.window
	out.Remaining, out.Reset, out.RetryAfter = v.left(level, 0), v.micros(level), 0

	if n > v.bucket.Burst {
		out.Kind = CostExceeds
	} else {
		out.RetryAfter = max(1, v.wait(level, n))
	}

	v.counts.byLoans().add()
	v.tally.fold(0, 1)
}

// wait returns the µs until n tokens are to be had, of which at the level there are too few.
func (l *limits) wait(level, n int64) int64 { return l.micros(level - (l.bucket.Burst-n)*l.bucket.P) }

// quickRefusal refuses a request for one token if it is clear even by a clock that is soon µs late at most that none is to be had.
func (l *loan) quickRefusal(tick, tat, soon int64) (told Told) {
	v := l.limits
	level := v.level(tick, tat)

	wait := v.wait(level, 1)
	late := wait + soon // what was spent in this tick may have been spent at its end

	// Nor may the coarse clock add a second to a wait that is told in whole ones.
	refused := v.counts.loans.Load()
	if wait < coarse || (late-1)/second != (wait-coarse-1)/second || refused == nil {
		return told
	}

	refused.add()
	v.tally.fold(0, 1)

	return Told{by: v, Reset: v.micros(level) - soon, RetryAfter: late}
}

// takeLoan decides a request for n tokens of key by a loan, borrowed if need be, and with a look at the real clock. It
// reports false if the key has to be leased.
func (r *Rule) takeLoan(key string, n int64, out *Outcome) bool {
	for range borrowTries {
		l, fresh := r.borrow(key)
		if l == nil {
			return false
		}

		if l.decide(n, out) {
			if fresh {
				l.fresh(out)
			}

			return true
		}
	}

	return false
}

// borrowTries is how often a request borrows a bucket that others recall at once, until it asks for tokens.
const borrowTries = 3

// fresh has the answer to the request that the bucket was borrowed for tell that the store was asked.
func (l *loan) fresh(out *Outcome) {
	l.limits.count(out, -1) // as which it counts itself

	out.Origin = FromStore
	l.limits.count(out, 1)
}

// peekLoan is takeLoan for a look.
func (r *Rule) peekLoan(key string, out *Outcome) bool {
	for range borrowTries {
		l, fresh := r.borrow(key)
		if l == nil {
			return false
		}

		if l.look(out) {
			if fresh {
				out.Origin = FromStore
			}

			return true
		}
	}

	return false
}

// look says what a request for one token would get. It reports false if the loan is over.
func (l *loan) look(out *Outcome) bool {
	tat, verdict := l.At(&l.limits.bucket)
	for ; verdict == holder.Turned; tat, verdict = l.At(&l.limits.bucket) {
		runtime.Gosched()
	}

	if verdict == holder.Closed {
		return false
	}

	v, now := l.limits, l.limits.rule.table.clock.Now()
	level := v.level(now, tat)

	*out = Outcome{
		Kind: Allowed, Origin: FromLease, Burst: v.burst, Quota: v.quota, Window: v.window,
		Remaining: v.left(level, 0), Reset: v.micros(level), Until: out.Until,
	}

	if out.Remaining == 0 {
		out.Kind, out.RetryAfter = OverLimit, max(1, v.wait(level, 1))
	}

	return true
}

// credit gives back n tokens, and reports false if the loan is over. counted says that their request counts all the same.
func (l *loan) credit(n int64, counted bool) bool {
	now := l.limits.rule.table.clock.Now()

	for {
		switch l.Credit(now, n, &l.limits.bucket, counted) {
		case holder.Spent:
			if !counted && n != 1 {
				l.limits.admitted(n - 1)
			}

			return true
		case holder.Closed:
			return false
		case holder.Turned, holder.SpentLow, holder.SpentLate, holder.Missed, holder.Dry:
			runtime.Gosched()
		}
	}
}

// stats says what is known of the key.
func (l *loan) stats() KeyStats {
	tat, _ := l.At(&l.limits.bucket)
	left := l.limits.left(l.limits.level(l.limits.rule.table.clock.Now(), tat), 0)

	return KeyStats{Asks: 1, Balance: left, Remaining: left}
}
