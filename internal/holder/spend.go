package holder

import (
	"math"

	"github.com/leaseway/leaseway/internal/rate"
)

// Verdict is what the balance says to one request.
type Verdict uint8

const (
	// Turned: a new tick has begun; take the lock, call Turn, and spend again.
	Turned Verdict = iota
	// Spent: the request is admitted.
	Spent
	// SpentLow: it is admitted, and a refill should be on its way.
	SpentLow
	// SpentLate: it is admitted, of a loan for which others were quicker: several processors are busy with it.
	SpentLate
	// Missed: others were quicker with a loan; spend again.
	Missed
	// Dry: the balance does not cover it.
	Dry
	// Closed: the loan is over; the ledger has the bucket.
	Closed
)

// Passed reports whether the request is admitted.
func (v Verdict) Passed() bool { return v == Spent || v == SpentLow || v == SpentLate }

// clockShift: 64 tokens are spent between two looks at the real clock.
const clockShift = 6

// Spend takes n tokens from the balance if it covers them, and returns what is
// then left. It takes no lock and reads no clock: tick is that of a coarse one.
// look asks the caller to read the real one now and then. It is small enough to be
// made part of its caller.
func (l *Lease) Spend(tick, n int64) (left int64, v Verdict, look bool) {
	if l.tick.Load() != tick {
		return 0, Turned, false
	}

	for {
		b := l.balance.Load()
		if b < n {
			return 0, Dry, false
		}

		left = b - n
		if l.balance.CompareAndSwap(b, left) {
			v = Spent
			if left < int64(l.low.Load()) {
				v = SpentLow
			}

			return left, v, (b^left)>>clockShift != 0
		}
	}
}

// Epoch returns what Cancel and Refund must be told: read it before spending.
func (l *Lease) Epoch() uint32 { return l.epoch.Load() }

// Reserve is Spend for a request that needs several rules to agree: the tokens
// leave the balance but count as spent only after Commit. Spent reads the
// balance first, so it can miss a reservation that begins, never count one as spent.
func (l *Lease) Reserve(tick, n int64) (left int64, v Verdict, look bool) {
	l.reserved.Add(n)

	left, v, look = l.Spend(tick, n)
	if !v.Passed() {
		l.reserved.Add(-n)
	}

	return left, v, look
}

// Commit makes a reservation of n tokens a spending.
func (l *Lease) Commit(n int64) { l.reserved.Add(-n) }

// Cancel puts a reservation of n tokens back, under the lock. If the lease has
// ended since epoch, its tokens are gone.
func (l *Lease) Cancel(epoch uint32, n int64) {
	l.reserved.Add(-n)

	if epoch == l.epoch.Load() {
		l.balance.Add(n)
	} else {
		l.past.Add(-n) // with the lease it was taken for spent
	}
}

// Tick returns the tick for which Turn last ran.
func (l *Lease) Tick() int64 { return l.tick.Load() }

// Payment is what a request took from a lease, or the store took for it.
type Payment struct {
	Epoch uint32
	N     int64 // tokens
	End   int64 // when it stops to count; see CountsUntil
}

// CountsUntil returns until when what is taken at now counts: to the end of its
// window, told early rather than late, or as long as a log remembers it. Under the lock.
func (l *Lease) CountsUntil(now int64) int64 {
	switch h := &l.heard; {
	case h.bucket():
		return math.MaxInt64
	case h.terms().Algorithm == rate.SlidingLog:
		return now + h.terms().Length
	default:
		return now + h.left(now) - h.counted().late
	}
}

// Refund takes back a payment, under the lock. What no ask reported yet goes
// back into the balance; the rest is credited by the ledger with the next ask.
// What does not count any more is not given back. It reports whether an ask is needed.
func (l *Lease) Refund(now int64, p Payment) (ask bool) {
	if now >= p.End {
		return false
	}

	l.gather()

	if p.Epoch == l.epoch.Load() && l.id != 0 && l.Spent()-l.told >= p.N {
		l.balance.Add(p.N)
		l.mark.first = max(l.mark.first, l.held()-l.Spent()) // they may be spent again within this tick

		return false
	}

	d := l.owe()
	d.debt -= p.N

	if d.local != nil {
		d.local.base -= p.N
	}

	l.Forgive()

	return true
}

// Low reports whether the balance is so low that a refill should be on its way. Without the lock.
func (l *Lease) Low() bool { return l.balance.Load() < int64(l.low.Load()) }

// refillBelow has a balance below n want a refill. Above 2^31 it wants one a little late.
func (l *Lease) refillBelow(n int64) { l.low.Store(int32(max(0, min(math.MaxInt32, n)))) }
