package holder

import (
	"cmp"

	"github.com/leaseway/leaseway/internal/rate"
)

// mark remembers when spending could have begun to refill: the latest, over the
// spends since the last answer, of (time of the spend − S before it · T), told
// relative to an S so that it stays small. Of the spends in one tick the first
// counts, since those after it have a larger S.
//
// It covers those after the last ask, relative to the S that this reported. What asks reported
// that no answer has confirmed is in sent.
type mark struct {
	tick  int64 // whose first spend waits to be folded in; see Turn for one below 0; 0: none
	first int64 // S before it
	now   point
}

// begin opens a tick, before which S is spent. The tick 0, which is a virtual clock's first, is told as 1.
func (m *mark) begin(tick, spent int64) { m.tick, m.first = cmp.Or(tick, 1), spent }

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

// turn folds in the tick that ends, if anything was spent in it.
func (m *mark) turn(l *Lease, ticks Ticks) {
	if m.tick == 0 {
		return
	}

	if b := &l.heard.terms().Bucket; b.Burst > 0 && l.Spent() > m.first {
		m.now.raise(b, m.over(ticks), l.told-m.first)
	}

	m.tick = 0
}

// over returns when the tick was over: at once if it was no tick of a coarse clock.
func (m *mark) over(ticks Ticks) int64 {
	if m.tick < 0 {
		return -m.tick
	}

	return ticks.After(m.tick)
}

// report closes the spends that the ask on its way reports, of S = spent.
func (l *Lease) report(b *rate.Bucket, spent int64) {
	if p := l.mark.now; p.ok() {
		l.sent.before.raise(b, p.at, p.n+l.sent.base-l.told)
	}

	l.mark.now = point{}
	l.told = spent
}

// base returns the S of the last answer.
func (l *Lease) base() int64 {
	if l.sent != nil {
		return l.sent.base
	}

	return l.told
}

// latest returns the point over all spends since the last answer, relative to
// base; spent is S now. A tick that is still open counts from when it began.
func (l *Lease) latest(b *rate.Bucket, spent int64) (p point) {
	if l.sent != nil {
		p = l.sent.before
	}

	m, base := &l.mark, l.base()
	if m.tick != 0 && spent > m.first {
		p.raise(b, max(m.tick, -m.tick), base-m.first)
	}

	if m.now.ok() {
		p.raise(b, m.now.at, m.now.n+base-l.told)
	}

	return p
}

// add moves t by the time of n tokens, at most a burst of them either way.
func add(b rate.Bucket, t rate.Time, n int64) rate.Time {
	return b.Add(t, max(-b.Burst, min(b.Burst, n)))
}
