package holder

import (
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/rate"
)

// quick is what the first requests of ticks write down while a bucket's lease
// goes on: the mark of those ticks, told relative to what was left of the lease
// instead of what was spent, since G and what was struck stay as they are. So
// such a request needs nothing of Rest. Whatever does need the mark gathers it
// first, and ends this; Note begins it again.
//
//	Note ──► armed ──► QuickTurn, tick after tick ──► gather ──► Rest's mark
type quick struct {
	first  int64         // left of the lease, reservations included, when the tick began
	others int64         // tokens that other holders lease, as last heard, whether it is armed or not
	left   int64         // of the latest of the ticks before: left then, below 0 if there is none,
	over   uint32        // and when that tick was over, the lower half of the instant
	until  atomic.Uint32 // when the lease ends, in units of 2^untilShift µs, the lower half; 0: not armed
}

// The bounds within which halves of instants, and products with them, are exact.
const (
	untilShift = 10
	quickTTL   = 1 << 30 // µs
	quickQ     = 1 << 30
)

// arm has the next ticks turn quickly, if the lease is one of a bucket like b.
func (l *Lease) arm(b *rate.Bucket) {
	t, tick := l.heard.terms(), l.tick.Load()
	if tick <= 0 || l.mark.tick != tick || !l.GoesOn(tick) {
		return
	}

	if *b != t.Bucket || t.TTL > quickTTL || b.Q > quickQ {
		return
	}

	q := &l.quick
	q.first, q.left = l.held()-l.mark.first, -1
	q.until.Store(uint32(l.until() >> untilShift))
}

// gather ends what arm began.
func (l *Lease) gather() {
	q := &l.quick
	if q.until.Load() == 0 {
		return
	}

	m, held := &l.mark, l.held()
	m.begin(l.tick.Load(), held-q.first)

	if q.left >= 0 {
		m.now.raise(&l.heard.terms().Bucket, q.overAt(m.tick), l.told-(held-q.left))
	}

	q.until.Store(0)
}

// Disarm has the next tick turn by Turn: the rule has changed. Under the lock.
func (l *Lease) Disarm() { l.gather() }

// QuickTurn is Turn and Note for a lease that goes on as it was when Note last
// ran. It reports false, having done nothing, if that must run again. after is
// when the tick that ends was over, as Ticks say, and b the bucket that Note was told. Under the lock.
func (l *Lease) QuickTurn(tick, after int64, b *rate.Bucket) bool {
	q := &l.quick

	until := q.until.Load()
	if until == 0 || int32(until-uint32(tick>>untilShift)) <= 0 {
		return false
	}

	balance := l.balance.Load() // before reserved: see Reserve
	reserved := l.reserved.Load()
	left := balance + reserved

	if max(left, q.first)+q.others > b.Burst {
		return false
	}

	was := l.full.Load()
	full := max(was, tick+span(b, left+q.others)) // what is leased occupies the bucket

	// A reservation may hide what was spent.
	if left < q.first || reserved != 0 {
		if q.left < 0 || (after-q.overAt(tick))*b.Q > (q.left-q.first)*b.P {
			q.over, q.left = uint32(after), q.first
		}

		full = max(full, after+span(b, q.first+q.others))
	}

	q.first = left

	if full != was {
		l.full.Store(full)
	}

	l.tick.Store(tick)

	return true
}

// overAt returns the instant of over, which is near tick.
func (q *quick) overAt(tick int64) int64 { return tick + int64(int32(q.over-uint32(tick))) }

// Touch has the processor fetch the balance, and what QuickTurn needs, while it still looks at the tick.
func (l *Lease) Touch() { _ = l.quick.until.Load() }

// span returns the time of n tokens, µs, rounded up.
func span(b *rate.Bucket, n int64) int64 {
	if b.Q == 1 { // as for most limits: it saves a division
		return n * b.P
	}

	return (n*b.P + b.Q - 1) / b.Q
}
