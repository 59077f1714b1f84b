package holder

import "github.com/leaseway/leaseway/internal/rate"

// mark remembers when spending could have begun to refill: the latest, over the
// spends since the last answer, of (time of the spend − S before it · T), told
// relative to the S of that answer so that it stays small. Of the spends in one
// tick the first counts, since those after it have a larger S.
//
// before covers the spends that the ask on its way reports, now those after it.
type mark struct {
	tick     int64 // the tick whose first spend waits to be folded in; see Turn for one below 0
	first    int64 // S before it
	sentBase int64 // S that `now` is relative to
	now      point
	open     bool
	before   point
	base     int64 // S that `before` is relative to
}

// point is the instant at + n·T, where T is the time of a token. It is kept in
// two parts because it is compared in each tick, and needed as one with each ask.
type point struct {
	at int64 // µs
	n  int64 // tokens, at most a burst of them either way
	ok bool
}

// raise makes p the later of p and at + n·T.
func (p *point) raise(b *rate.Bucket, at, n int64) {
	n = max(-b.Burst, min(b.Burst, n))

	if !p.ok || b.Longer(at-p.at, p.n-n) {
		*p = point{at: at, n: n, ok: true}
	}
}

// time returns p moved by n tokens.
func (p *point) time(b rate.Bucket, n int64) rate.Time { return add(b, b.Add(rate.At(p.at), p.n), n) }

// turn folds in the tick that ends, if anything was spent in it.
func (m *mark) turn(l *Lease, ticks Ticks) {
	if !m.open {
		return
	}

	m.open = false

	if b := &l.heard.terms().Bucket; b.Burst > 0 && l.Spent() > m.first {
		m.now.raise(b, m.over(ticks), m.sentBase-m.first)
	}
}

// over returns when the tick was over: at once if it was no tick of a coarse clock.
func (m *mark) over(ticks Ticks) int64 {
	if m.tick < 0 {
		return -m.tick
	}

	return ticks.After(m.tick)
}

// send closes the spends that an ask of S = spent reports.
func (m *mark) send(b *rate.Bucket, spent int64) {
	if m.now.ok {
		m.before.raise(b, m.now.at, m.now.n+m.base-m.sentBase)
	}

	m.now = point{}
	m.sentBase = spent
}

// answered forgets the spends that the answered ask reported.
func (m *mark) answered() {
	m.before = point{}
	m.base = m.sentBase
}

// latest returns the point over all spends since the last answer, relative to
// base; spent is S now. A tick that is still open counts from when it began.
func (m *mark) latest(b *rate.Bucket, spent int64) point {
	p := m.before
	if m.open && spent > m.first {
		p.raise(b, max(m.tick, -m.tick), m.base-m.first)
	}

	if m.now.ok {
		p.raise(b, m.now.at, m.now.n+m.base-m.sentBase)
	}

	return p
}

// add moves t by the time of n tokens, at most a burst of them either way.
func add(b rate.Bucket, t rate.Time, n int64) rate.Time {
	return b.Add(t, max(-b.Burst, min(b.Burst, n)))
}
