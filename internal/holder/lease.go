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
	mark     mark
}

// Rest is what a Lease needs when it is asked about, runs dry or ends. There are many of them:
// what most keys have none of at most times is behind pointers.
type Rest struct {
	// Of requests, without the lock.
	denial atomic.Pointer[denial] // nil: nothing was ever refused
	past   atomic.Int64           // spent of leases that ended, reservations included, less what Admitted and More told

	// Under the caller's lock.
	id      uint64
	granted int64 // G, as last heard
	told    int64 // the largest S that an ask of this lease reported
	over    int64 // end of the lease
	dues    *dues // nil: there are none
	open    int64 // the tick whose first spend waits to be folded into the mark; 0: none; see Turn for one below 0
	heard   heard
	demand  demand

	edge    uint16 // µs before the end from which on no more is spent by a coarse clock
	returns bool   // the last ask gave everything back
	long    bool   // the lease lives longer than its terms say
}

// New returns a lease that holds nothing.
func New() *Lease { return &Lease{Rest: &Rest{}} }

// sent is the last ask, and what those before it reported that no answer has confirmed.
type sent struct {
	seq    uint64 // 0: it is not on its way any more
	at     int64
	again  int64  // from when on another may be answered, if it was lost
	sized  int64  // when the last ask was sent that took in the demand
	lease  uint64 // that it names
	ended  uint64
	before point // over the spends that were reported since the last answer
	base   int64 // S of that answer, which before is relative to
	ahead  bool
	late   bool // that lease has ended here since
	early  bool // or has begun here since
}

// dues are what the ledger has yet to answer, what it is to hear of beside S, and what it granted ahead.
type dues struct {
	sent   *sent  // nil: every ask was answered
	struck int64  // of G, given back in an ask that was not answered yet
	debt   int64  // D to report
	acked  int64  // D that the ledger confirmed
	local  *local // nil: the coordinator decides
	ended  *ended // nil: none that the ledger should hear of
	next   *next  // nil: none was asked for
	credit bool   // an ask that named this lease asked for a refund, and no answer came yet
}

// sent returns the last ask, nil if every ask was answered.
func (l *Lease) sent() *sent {
	if l.dues == nil {
		return nil
	}

	return l.dues.sent
}

// owed returns the dues, to be read.
func (l *Lease) owed() *dues {
	if l.dues == nil {
		return &dues{}
	}

	return l.dues
}

// owe returns the dues, to be written.
func (l *Lease) owe() *dues {
	if l.dues == nil {
		l.dues = &dues{}
	}

	return l.dues
}

// settle lets go of dues that there are none of any more.
func (l *Lease) settle() {
	if l.dues != nil && *l.dues == (dues{}) {
		l.dues = nil
	}
}

// ended is a lease that ended in its window, or with it if that is a sliding one,
// with some of it left. The ledger should hear its final S, since the window goes on counting.
type ended struct {
	id    uint64
	spent int64
	until int64 // the ledger listens until then
}

// Spent returns S, the total spent of the present lease. A request that is
// half-way counts as not having spent yet.
func (l *Lease) Spent() int64 {
	balance := l.balance.Load() // before reserved: see Reserve

	return max(l.told, l.held()-balance-l.reserved.Load())
}

// held returns what of G was not given back.
func (l *Lease) held() int64 { return l.granted - l.owed().struck }

// Admitted returns how many requests have spent from leases of the key since it last did: tokens, less those
// that More told. Under the lock.
func (l *Lease) Admitted() int64 {
	n := l.past.Load() + l.Spent()
	l.past.Add(-n)

	return n
}

// More notes n tokens that a request spent beside its first one. Without the lock.
func (l *Lease) More(n int64) { l.past.Add(-n) }

// Balance returns the tokens that may be spent now.
func (l *Lease) Balance() int64 { return l.balance.Load() }

// Holds reports whether the ledger may have something on record for this holder.
func (l *Lease) Holds() bool { return l.id != 0 || l.awaits() }

// awaits reports whether an ask is on its way.
func (l *Lease) awaits() bool { return l.sent() != nil && l.sent().seq != 0 }

// Owes reports whether there is debt or a refund to report, or a lease of the next window to give back.
func (l *Lease) Owes() bool {
	d := l.owed()

	return d.debt != d.acked || d.local != nil || d.ended != nil || l.returns && l.id == 0 && d.next != nil && d.next.granted > 0
}

// Known reports whether an answer was ever heard, and with it the key's terms.
func (l *Lease) Known() bool { return l.heard.at != 0 }

// Terms returns the key's terms as last heard; see Known.
func (l *Lease) Terms() ledger.Terms { return *l.heard.terms() }

// Until returns when the lease ends, 0 without one.
func (l *Lease) Until() int64 { return l.over }

// until returns from when on no more is spent by a coarse clock, 0 without a lease.
func (l *Lease) until() int64 { return l.over - int64(l.edge) }

// Turn must run before the first spending of every tick: it ends a lease whose
// time is over and notes when spending went on. now is an instant within the
// tick. It returns the tick to spend under: the margin at a window's end is only
// for those who have just turned, by the real clock, so there it is one that no coarse clock has.
func (l *Lease) Turn(tick, now int64, ticks Ticks) int64 {
	l.gather()
	l.stop(now)
	l.begin(now)

	if l.over != 0 && now >= l.until() {
		tick = -now
	}

	l.closeTick(ticks)
	l.openTick(tick)
	l.tick.Store(tick)

	return tick
}

// GoesOn reports whether at now Turn has nothing to end and nothing to begin.
func (l *Lease) GoesOn(now int64) bool {
	next := l.owed().next

	return l.id != 0 && now < l.until() && (next == nil || now < next.from)
}

// stop ends a lease whose time is over, and strikes what is left of one that
// must not be spent any more, so that the next ask gives it back.
func (l *Lease) stop(now int64) {
	switch {
	case l.over != 0 && now >= l.over:
		l.expire(now)
	case l.edge > 0 && now >= l.over-exactMargin: // of a window
		l.giveBack(l.balance.Swap(0))
	}
}

// mostOwed is for how long at most the final S of a lease waits for a ledger that can be reached, µs.
const mostOwed = 3_600_000_000

// expire ends a lease whose time is over. The ledger takes what was left as
// spent, but for a window's that it will be told of.
func (l *Lease) expire(now int64) {
	id, granted := l.id, l.granted
	gone := l.end()

	if until := l.tells(now); granted > gone && now < until {
		l.owe().ended = &ended{id: id, spent: gone, until: min(until, now+mostOwed)}
	}
}

// tells returns until when the final S of a lease that ends at now is worth telling. In the last lifetime of a lease before its window
// turns it is not: who asks first then would get what comes back, and lose it again.
func (l *Lease) tells(now int64) int64 {
	t := l.heard.terms()

	end := l.heard.counted().end
	turned := t.Algorithm == rate.SlidingWindow && now >= end

	switch {
	case !t.Algorithm.Windowed() || now >= end-t.TTL && !turned:
		return 0
	case t.Algorithm == rate.SlidingWindow:
		return end + t.TTL
	default:
		return end
	}
}

// Forget gives up the lease and all that the ledger should hear of, since it will
// not: it takes what was left as spent. Under the lock.
func (l *Lease) Forget() {
	l.end()

	if d := l.dues; d != nil {
		*d = dues{sent: d.sent, debt: d.acked, acked: d.acked}
	}
}

// end gives up the lease: the ledger takes what was left as spent. It returns
// what left the balance, reservations included, which may yet be committed.
func (l *Lease) end() (gone int64) {
	l.gather()
	l.epoch.Add(1)

	if d := l.dues; d != nil && d.credit {
		d.debt, d.credit = d.acked, false // it may have been credited: never again
	}

	gone = l.held() - l.balance.Swap(0)
	l.past.Add(gone)
	l.demand.later(gone - l.reserved.Load() - l.told)
	l.refillBelow(0)
	l.id, l.granted, l.told = 0, 0, 0
	l.over, l.edge, l.long = 0, 0, false
	l.open, l.mark.over = 0, 0

	if l.dues != nil {
		l.dues.struck = 0
	}

	if s := l.sent(); s != nil {
		s.late, s.before, s.base = true, point{}, 0
	}

	return gone
}
