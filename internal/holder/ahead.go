package holder

import (
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// next is a lease of a fixed window that has not begun.
type next struct {
	id      uint64
	granted int64
	from    int64 // when its window has surely begun
	until   int64
	end     int64 // of its window: told late rather than early,
	late    int64 // by this at most
}

// WantsAhead returns when to ask for the next window, and whether it is worth
// it: for a fixed window of which a lease is held, with no such ask made yet. lead
// is how long before the window's end, drawn by the caller so that holders differ.
func (l *Lease) WantsAhead(lead int64) (at int64, ok bool) {
	h := &l.heard
	if h.terms().Algorithm != rate.FixedWindow || l.id == 0 || l.owed().next != nil || l.demand.want == 0 {
		return 0, false
	}

	return h.counted().end - lead, true
}

// Begins returns when a lease of the next window may be spent from, 0 without one.
func (l *Lease) Begins() int64 {
	if next := l.owed().next; next != nil {
		return next.from
	}

	return 0
}

// AskAhead builds the ask for the next window, and remembers it as the one on its way.
func (l *Lease) AskAhead(now int64, need Need) ledger.Ask {
	l.send(sent{seq: need.Seq, at: now, sized: l.sized(), ahead: true})

	return ledger.Ask{
		Holder: need.Holder, Seq: need.Seq, Ahead: true, RaiseTo: int64(l.demand.want), DebtAcked: l.owed().acked,
	}
}

// hearAhead takes in a lease of the next window. It may be spent from when that
// window has begun by the slowest reckoning, until its TTL ends by the fastest.
func (l *Lease) hearAhead(now int64, a *ledger.Answer) {
	d := l.dues
	sent := d.sent
	from := now + a.Window.Left
	d.next = &next{
		id: a.Lease, granted: a.Granted, from: from, until: sent.at + a.Window.Left + min(a.TTL, mostTTL),
		end: from + a.Terms.After(), late: now - sent.at,
	}

	if a.Lease == 0 || a.Granted == 0 {
		d.next = &next{id: ^uint64(0), from: from} // none is to be had: do not ask again
	}

	l.heard.counted().asked = sent.at

	if sent.base == l.told && !sent.before.ok() {
		d.sent = nil // no ask before it was lost
	}
}

// forgetRefunds drops the refunds that no ledger has heard of: they are of a
// window that is over, and the next one is not charged less for them.
func (l *Lease) forgetRefunds() {
	if d := l.dues; d != nil {
		d.debt = max(d.debt, d.acked)
	}
}

// begin starts the lease of the window that has begun, if there is one.
func (l *Lease) begin(now int64) {
	n := l.owed().next
	if n == nil || now < n.from {
		return
	}

	l.dues.next = nil
	l.forgetRefunds()

	if n.granted == 0 || now >= n.until {
		return
	}

	l.expire(now)
	l.id, l.granted, l.over, l.edge = n.id, n.granted, n.until, margin(l.heard.terms())
	l.balance.Store(n.granted)
	l.refillBelow(min(l.demand.low(), n.granted))
	l.Forgive()

	l.heard.turnTo(&window{used: n.granted, end: n.end, late: n.late, asked: l.heard.counted().asked, looks: lookedAt(now, 0)})

	if s := l.sent(); s != nil && s.lease == n.id {
		s.late, s.early = false, true
	}
}
