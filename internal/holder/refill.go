package holder

import (
	"math"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// What follows is when a lease asks: when it is low, when asking is useless, and
// when it must be renewed.

// scarce notes until when asking again is useless.
func (l *Lease) scarce(a *ledger.Answer, sentAt int64) {
	balance := l.balance.Load()
	low := min(l.demand.low(), max(1, balance/lowPart), a.Granted)

	if a.Terms.Algorithm == rate.SlidingWindow {
		low = min(low, max(1, balance/slidingLowPart, int64(l.demand.rate*roundTrip))) // what is here others lack
	}

	if a.Terms.Algorithm.Windowed() && balance >= int64(float64(l.demand.rate)*float64(a.Window.Left)) {
		low = min(low, 1) // it will do until the window ends
	}

	l.refillBelow(low)
	l.Forgive()

	if a.AskAgain <= 0 {
		return
	}

	d := l.deny()
	d.over.Store(l.spare())
	d.only.Store(0)

	if a.Terms.Algorithm == rate.SlidingLog {
		d.only.Store(a.Window.Refused) // when another cost can pass, only the log knows
	}

	till := sentAt + a.AskAgain
	d.ask.Store(till)

	if a.Terms.Algorithm == rate.FixedWindow {
		till = max(till, l.heard.counted().end) // what others give back comes earlier, if it comes
	}

	d.till.Store(till)
}

// Refresh returns when the lease should be renewed, or what is idle of it
// returned: at 0.6 of its TTL. 0 without a lease.
func (l *Lease) Refresh() int64 {
	if l.over == 0 {
		return 0
	}

	ttl := l.heard.terms().TTL
	if l.heard.terms().Algorithm.Windowed() {
		short := l.until() - l.heard.counted().asked
		if short < ttl/2 && float64(l.balance.Load()) <= idlePart*float64(l.demand.rate)*float64(short) {
			return l.over // it ends with its window, and will be spent until then
		}

		ttl = min(ttl, short)
	}

	return l.until() - int64((1-refreshPart)*float64(ttl))
}

// shorten has a lease that lives long live no longer than others, until an answer
// says that it does: it may be the last one that is heard, and the ledger may
// have said that it does not.
func (l *Lease) shorten(now int64) {
	l.over = min(l.over, now+l.heard.terms().TTL)
	l.long = false
}

// Hasten has a lease that lives long renewed with the next request: its terms
// have changed, or may have. Others are renewed soon anyway. Under the lock.
func (l *Lease) Hasten() {
	if l.long {
		l.hasten()
	}
}

// hasten has the lease ask with the next request, or when it is looked after, whatever it has.
func (l *Lease) hasten() { l.refillBelow(math.MaxInt32) }

// Suffices reports whether at now the lease will do for a while, so that there is
// nothing to ask: it is not low, it need not be renewed, and nothing is owed.
func (l *Lease) Suffices(now int64) bool {
	return l.id != 0 && !l.Low() && !l.Owes() && now < l.Refresh()
}
