package holder

import "github.com/leaseway/leaseway/internal/rate"

// The bounds within which halves of instants, and products with them, are exact.
const (
	untilShift = 10
	mostTTL    = 1 << 30 // µs that a lease lives at most
	quickQ     = 1 << 30
)

// arm has the next ticks turn quickly, if the lease is one of a bucket like b.
func (l *Lease) arm(b *rate.Bucket) {
	t, tick := l.heard.terms(), l.tick.Load()
	if tick <= 0 || l.open != tick || !l.GoesOn(tick) {
		return
	}

	if *b == t.Bucket && b.Q <= quickQ {
		l.mark.until.Store(uint32(l.until() >> untilShift))
	}
}

// gather ends what arm began.
func (l *Lease) gather() {
	if l.mark.until.Load() != 0 {
		l.open = l.tick.Load()
		l.mark.until.Store(0)
	}
}

// Disarm has the next tick turn by Turn: the rule has changed. Under the lock.
func (l *Lease) Disarm() { l.gather() }

// QuickTurn is Turn and Note for a lease that goes on as it was when Note last
// ran. It reports false, having done nothing, if that must run again. after is
// when the tick that ends was over, as Ticks say, and b the bucket that Note was told. Under the lock.
func (l *Lease) QuickTurn(tick, after int64, b *rate.Bucket) bool {
	m := &l.mark

	until := m.until.Load()
	if until == 0 || int32(until-uint32(tick>>untilShift)) <= 0 {
		return false
	}

	balance := l.balance.Load() // before reserved: see Reserve
	reserved := l.reserved.Load()
	left := balance + reserved

	if max(left, m.first)+m.others > b.Burst {
		return false
	}

	was := l.full.Load()
	full := max(was, tick+span(b, left+m.others)) // what is leased occupies the bucket

	// A reservation may hide what was spent.
	if left < m.first || reserved != 0 {
		if m.over == 0 || (after-m.overAt(tick))*b.Q > (m.left-m.first)*b.P {
			m.note(after, m.first)
		}

		full = max(full, after+span(b, m.first+m.others))
	}

	m.first = left

	if full != was {
		l.full.Store(full)
	}

	l.tick.Store(tick)

	return true
}

// Touch has the processor fetch the balance, and what QuickTurn needs, while it still looks at the tick.
func (l *Lease) Touch() { _ = l.mark.until.Load() }

// span returns the time of n tokens, µs, rounded up.
func span(b *rate.Bucket, n int64) int64 {
	if b.Q == 1 { // as for most limits: it saves a division
		return n * b.P
	}

	return (n*b.P + b.Q - 1) / b.Q
}
