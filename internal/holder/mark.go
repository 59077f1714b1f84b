package holder

import (
	"cmp"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/rate"
)

// mark remembers when spending could have begun to refill: the latest, over the
// spends since the last ask, of (time of the spend − S before it · T). Of the spends in one
// tick the first counts, since those after it have a larger S. What asks reported that no answer has confirmed is in sent.
//
// S is told by what was then left of the lease: so the first request of a tick needs nothing of
// Rest while the lease goes on, see QuickTurn. Where what is held changes, S does not: see shift.
type mark struct {
	first  int64         // left of the lease, reservations included, when the open tick began
	others int64         // tokens that other holders lease, as last heard
	left   int64         // at the latest of the spends in ticks that are over: left then,
	over   uint32        // and when that tick was over, the lower half of the instant; 0: there is none
	until  atomic.Uint32 // when the lease ends, in units of 2^untilShift µs, the lower half; 0: not armed
}

// shift is for n tokens more that are held.
func (m *mark) shift(n int64) {
	m.first += n
	m.left += n
}

// note has spends with so much left, in a tick that was over at the instant at, be the latest.
func (m *mark) note(at, left int64) { m.over, m.left = max(1, uint32(at)), left }

// overAt returns the instant of over, which is near another one: less than mostTTL away.
func (m *mark) overAt(near int64) int64 { return near + int64(int32(m.over-uint32(near))) }

// point is the instant at + n·T, where T is the time of a token. It is kept in
// two parts because it is compared in each tick, and needed as one with each ask.
type point struct {
	at int64 // µs; 0: there is none
	n  int64 // tokens, at most a burst of them either way
}

func (p *point) ok() bool { return p.at != 0 }

// raise makes p the later of p and at + n·T. The instant 0, which is a virtual clock's first, is told as 1.
func (p *point) raise(b *rate.Bucket, at, n int64) {
	n = max(-b.Burst, min(b.Burst, n))

	if !p.ok() || b.Longer(at-p.at, p.n-n) {
		*p = point{at: max(1, at), n: n}
	}
}

// time returns p moved by n tokens.
func (p *point) time(b rate.Bucket, n int64) rate.Time { return add(b, b.Add(rate.At(p.at), p.n), n) }

// openTick begins a tick. The tick 0, which is a virtual clock's first, is told as 1.
func (l *Lease) openTick(tick int64) { l.open, l.mark.first = cmp.Or(tick, 1), l.held()-l.Spent() }

// closeTick folds in the tick that ends, if anything was spent in it.
func (l *Lease) closeTick(ticks Ticks) {
	if l.open == 0 {
		return
	}

	if b, first := &l.heard.terms().Bucket, l.first(); b.Burst > 0 && l.Spent() > first {
		p := l.marked()
		p.raise(b, l.tickOver(ticks), l.told-first)
		l.mark.note(p.at, l.held()-l.told+p.n)
	}

	l.open = 0
}

// first returns S before the spends of the open tick.
func (l *Lease) first() int64 { return l.held() - l.mark.first }

// marked returns the point over the spends since the last ask in ticks that are over, relative to the S that this told.
func (l *Lease) marked() (p point) {
	if m := &l.mark; m.over != 0 {
		p = point{at: m.overAt(l.over), n: l.told - (l.held() - m.left)}
	}

	return p
}

// tickOver returns when the open tick was over: at once if it is no tick of a coarse clock.
func (l *Lease) tickOver(ticks Ticks) int64 {
	if l.open < 0 {
		return -l.open
	}

	return ticks.After(l.open)
}

// report closes the spends that the ask on its way reports, of S = spent.
func (l *Lease) report(b *rate.Bucket, spent int64) {
	if p := l.marked(); p.ok() {
		s := l.sent()
		s.before.raise(b, p.at, p.n+s.base-l.told)
	}

	l.mark.over = 0
	l.told = spent
}

// base returns the S of the last answer.
func (l *Lease) base() int64 {
	if s := l.sent(); s != nil {
		return s.base
	}

	return l.told
}

// latest returns the point over all spends since the last answer, relative to
// base; spent is S now. A tick that is still open counts from when it began.
func (l *Lease) latest(b *rate.Bucket, spent int64) (p point) {
	if s := l.sent(); s != nil {
		p = s.before
	}

	base := l.base()
	if l.open != 0 && spent > l.first() {
		p.raise(b, max(l.open, -l.open), base-l.first())
	}

	if q := l.marked(); q.ok() {
		p.raise(b, q.at, q.n+base-l.told)
	}

	return p
}

// add moves t by the time of n tokens, at most a burst of them either way.
func add(b rate.Bucket, t rate.Time, n int64) rate.Time {
	return b.Add(t, max(-b.Burst, min(b.Burst, n)))
}
