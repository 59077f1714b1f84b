// Package holder is the server's side of a lease: spend, size, refill, deny
// until, fall back.
//
// A Lease is what one process knows of one (rule, key). Requests spend its
// balance without a lock; everything else is under the caller's.
//
//	         Spend (no lock)
//	request ─────────────────► balance ── dry ──► Ask ──► ledger
//	                             ▲                          │
//	                             └──────── Hear ◄───────────┘
//
// Four instants bound a lease, all on the holder's own monotonic clock, in µs:
// when its ask was first sent (the TTL counts from there), when it should be
// refreshed (0.6 of the TTL), when it ends, and, if the bucket was empty, until
// when asking again is useless.
//
// The package is pure: time comes in, nothing is logged, nobody waits. Its
// neighbours are ledger (the other side of the conversation) and table (the
// goroutines, timers and calls around it).
package holder

import (
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// Ticks tells how long requests went on that saw a tick of a coarse clock.
type Ticks interface {
	// After returns the instant by which every request that saw tick had spent.
	After(tick int64) int64
}

// Exact is the Ticks of a clock that is read for every request: a tick ends when it begins.
type Exact struct{}

// After returns tick.
func (Exact) After(tick int64) int64 { return tick }

// Lease is the holder's side of one (rule, key): what requests spend and what
// the first request of a tick needs, and a pointer to the rest. Made with Rest
// set, it holds nothing. Who has many of them can so keep what is read for
// every request close together: the first 32 bytes of Lease are only read by most
// requests, so that processors share them; the other 48 have the balance, which each
// request writes, and what the first one of a tick does.
type Lease struct {
	// Read by requests, without the lock.
	tick  atomic.Int64  // for which Turn last ran
	full  atomic.Int64  // when everything would be whole again if all that is leased were spent; see Note
	low   atomic.Int32  // a balance below it wants a refill; see refillBelow
	epoch atomic.Uint32 // raised when a lease ends: what was taken from it before cannot come back

	*Rest //nolint:embeddedstructfieldcheck // requests only read the pointer

	// Spent by them, without the lock.
	balance  atomic.Int64
	reserved atomic.Int64 // taken from the balance, not yet committed
	quick    quick
}

// Rest is what a Lease needs when it is asked about, runs dry or ends.
type Rest struct {
	// Under the caller's lock.
	id      uint64
	until   int64 // by a coarse clock no more is spent from then on
	granted int64 // G, as last heard
	struck  int64 // of it, given back in an ask that was not answered yet
	told    int64 // the largest S that an ask of this lease reported
	next    *next // nil: none was asked for
	mark    mark
	heard   heard

	// Of requests, without the lock.
	beyond   atomic.Int64 // what a window had left when Note last ran
	denyTill atomic.Int64 // until then a cost above what is here is denied
	denyAsk  atomic.Int64 // from then on it is asked about, since others may have given something back
	denyOver atomic.Int64 // what the store had left when it said so
	denyOnly atomic.Int64 // the one cost that is denied, 0 for all above denyOver
	refused  atomic.Int64 // tokens that were asked for and not given since the last ask

	// Under the lock, of asks and answers.
	over    int64 // end of the lease
	sent    sent
	demand  demand
	debt    int64  // D to report
	acked   int64  // D that the ledger confirmed
	past    int64  // spent of leases that ended
	local   *local // nil: the coordinator decides
	ended   *ended // nil: none that the ledger should hear of
	credit  bool   // an ask that named this lease asked for a refund, and no answer came yet
	returns bool   // the last ask gave everything back
	long    bool   // the lease lives longer than its terms say
}

// New returns a lease that holds nothing.
func New() *Lease { return &Lease{Rest: &Rest{}} }

// sent is the ask that is on its way.
type sent struct {
	seq   uint64 // 0: none
	at    int64
	spent int64
	lease uint64 // that it names
	ended uint64
	ahead bool
	late  bool // that lease has ended here since
}

// ended is a lease that ended with its sliding window, whose final S the ledger
// should hear, since the window goes on counting.
type ended struct {
	id    uint64
	spent int64
	until int64 // the ledger listens until then
}

// Spent returns S, the total spent of the present lease. A request that is
// half-way counts as not having spent yet.
func (l *Lease) Spent() int64 {
	balance := l.balance.Load() // before reserved: see Reserve

	return max(l.told, l.granted-l.struck-balance-l.reserved.Load())
}

// TotalSpent returns the tokens spent from all leases of the key so far.
func (l *Lease) TotalSpent() int64 { return l.past + l.Spent() }

// Balance returns the tokens that may be spent now.
func (l *Lease) Balance() int64 { return l.balance.Load() }

// Holds reports whether the ledger may have something on record for this holder.
func (l *Lease) Holds() bool { return l.id != 0 || l.sent.seq != 0 }

// Owes reports whether there is debt or a refund to report, or a lease of the next window to give back.
func (l *Lease) Owes() bool {
	return l.debt != l.acked || l.local != nil || l.ended != nil || l.returns && l.id == 0 && l.next != nil && l.next.granted > 0
}

// Known reports whether an answer was ever heard, and with it the key's terms.
func (l *Lease) Known() bool { return l.heard.at != 0 }

// Terms returns the key's terms as last heard; see Known.
func (l *Lease) Terms() ledger.Terms { return *l.heard.terms() }

// Until returns when the lease ends, 0 without one.
func (l *Lease) Until() int64 { return l.over }

// Turn must run before the first spending of every tick: it ends a lease whose
// time is over and notes when spending went on. now is an instant within the
// tick. It returns the tick to spend under: the margin at a window's end is only
// for those who have just turned, by the real clock, so there it is one that no coarse clock has.
func (l *Lease) Turn(tick, now int64, ticks Ticks) int64 {
	l.gather()
	l.stop(now)
	l.begin(now)

	if l.until != 0 && now >= l.until {
		tick = -now
	}

	l.mark.turn(l, ticks)
	l.mark.tick, l.mark.first, l.mark.open = tick, l.Spent(), true
	l.tick.Store(tick)

	return tick
}

// GoesOn reports whether at now Turn has nothing to end and nothing to begin.
func (l *Lease) GoesOn(now int64) bool {
	return l.id != 0 && now < l.until && (l.next == nil || now < l.next.from)
}

// stop ends a lease whose time is over, and strikes what is left of one that
// must not be spent any more, so that the next ask gives it back.
func (l *Lease) stop(now int64) {
	switch {
	case l.over != 0 && now >= l.over:
		l.expire(now)
	case l.until < l.over && now >= l.over-exactMargin: // of a window
		l.struck += l.balance.Swap(0)
	}
}

// expire ends a lease whose time is over. The ledger takes what was left as
// spent, but for a sliding window that it was told of.
func (l *Lease) expire(now int64) {
	t := l.heard.terms()
	id, granted := l.id, l.granted
	gone := l.end()

	if t.Algorithm == rate.SlidingWindow && granted > gone && now >= l.heard.end && now < l.heard.end+t.TTL {
		l.ended = &ended{id: id, spent: gone, until: l.heard.end + t.TTL}
	}
}

// Forget gives up the lease and all that the ledger should hear of, since it will
// not: it takes what was left as spent. Under the lock.
func (l *Lease) Forget() {
	l.end()

	l.debt, l.local, l.ended, l.next = l.acked, nil, nil, nil
}

// end gives up the lease: the ledger takes what was left as spent. It returns
// what left the balance, reservations included, which may yet be committed.
func (l *Lease) end() (gone int64) {
	l.gather()
	l.epoch.Add(1)

	if l.credit {
		l.debt, l.credit = l.acked, false // it may have been credited: never again
	}

	gone = l.granted - l.struck - l.balance.Swap(0)
	spent := max(l.told, gone-l.reserved.Load())
	l.past += spent
	l.demand.spent -= spent
	l.refillBelow(0)
	l.id, l.granted, l.struck, l.told = 0, 0, 0, 0
	l.until, l.over, l.long = 0, 0, false
	l.sent.late = true
	l.heard.spent = 0
	l.mark = mark{}

	return gone
}
