package holder

import "github.com/leaseway/leaseway/internal/rate"

// mark remembers when spending could have begun to refill: the latest, over the
// spends since the last answer, of (time of the spend − S before it · T), told
// relative to the S of that answer so that it stays small. Of the spends in one
// tick the first counts, since those after it have a larger S.
//
// before covers the spends that the ask on its way reports, now those after it.
type mark struct {
	before, now point
	base        int64 // S that `before` is relative to
	sentBase    int64 // S that `now` is relative to

	tick  int64 // the tick whose first spend waits to be folded in
	first int64 // S before it
	open  bool
}

type point struct {
	t  rate.Time
	ok bool
}

func (p *point) raise(t rate.Time) {
	if !p.ok || p.t.Less(t) {
		*p = point{t: t, ok: true}
	}
}

// turn folds in the tick that ends, if anything was spent in it.
func (m *mark) turn(l *Lease, ticks Ticks) {
	if !m.open {
		return
	}

	m.open = false

	if l.heard.terms.Bucket.Burst > 0 && l.Spent() > m.first {
		m.now.raise(span(l.heard.terms.Bucket, ticks.After(m.tick), m.sentBase-m.first))
	}
}

// send closes the spends that an ask of S = spent reports.
func (m *mark) send(b rate.Bucket, spent int64) {
	if m.now.ok {
		m.before.raise(m.rebased(b))
	}

	m.now = point{}
	m.sentBase = spent
}

// rebased returns the point of `now`, told relative to base.
func (m *mark) rebased(b rate.Bucket) rate.Time {
	return add(b, m.now.t, m.base-m.sentBase)
}

// answered forgets the spends that the answered ask reported.
func (m *mark) answered() {
	m.before = point{}
	m.base = m.sentBase
}

// latest returns the point over all spends since the last answer, relative to
// base; spent is S now. A tick that is still open counts from when it began.
func (m *mark) latest(b rate.Bucket, spent int64) point {
	p := m.before
	if m.open && spent > m.first {
		p.raise(span(b, m.tick, m.base-m.first))
	}

	if m.now.ok {
		p.raise(m.rebased(b))
	}

	return p
}

func span(b rate.Bucket, at, n int64) rate.Time { return add(b, rate.At(at), n) }

// add moves t by the time of n tokens, at most a burst of them either way.
func add(b rate.Bucket, t rate.Time, n int64) rate.Time {
	return b.Add(t, max(-b.Burst, min(b.Burst, n)))
}
