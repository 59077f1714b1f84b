package holder

import (
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// What an exploration of every order of events needs of a Lease: to branch off
// at one, and to know whether two are alike.

// Clone returns a copy of l that goes its own way.
func (l *Lease) Clone() *Lease {
	c := &Lease{Rest: &Rest{
		id: l.id, until: l.until, granted: l.granted, struck: l.struck, told: l.told, next: l.next, mark: l.mark, heard: l.heard,
		over: l.over, sent: l.sent, demand: l.demand, debt: l.debt, acked: l.acked, past: l.past, ended: l.ended, credit: l.credit,
		returns: l.returns, long: l.long,
	}}
	c.quick.first, c.quick.others, c.quick.left, c.quick.over = l.quick.first, l.quick.others, l.quick.left, l.quick.over
	c.quick.until.Store(l.quick.until.Load())
	c.balance.Store(l.balance.Load())
	c.tick.Store(l.tick.Load())
	c.low.Store(l.low.Load())
	c.full.Store(l.full.Load())
	c.epoch.Store(l.epoch.Load())
	c.reserved.Store(l.reserved.Load())

	return c
}

// Pin makes the demand that of a busy key that wants n tokens. Where a burst
// is too small to be leased by demand, nothing but an ask ahead depends on it.
func (l *Lease) Pin(n int64) { l.demand = demand{cost: 1, want: n} }

// AskLong is Ask for a lease that is to live long, whatever the demand says.
func (l *Lease) AskLong(now int64, ticks Ticks, need Need) ledger.Ask {
	ask := l.Ask(now, ticks, need)
	ask.Long = true

	return ask
}

// Waits returns the ask whose answer is awaited, 0 for none, and whether it is about the next window.
func (l *Lease) Waits() (seq uint64, ahead bool) { return l.sent.seq, l.sent.ahead }

// Writer takes down what makes a Lease behave as it does. Instants are told
// relative to now and names by the order in which they come, so that two leases
// write the same if they differ in nothing else.
type Writer interface {
	Num(nums ...int64)
	Flag(flags ...bool)
	Instant(at int64)
	Name(id uint64)
	Seq(seq uint64)
}

// Write tells w of l at now. What only tells callers when to ask, or what is left, is
// left out: whoever explores asks at any time.
func (l *Lease) Write(w Writer, now int64) {
	w.Flag(l.Armed())

	if l.Armed() { // else there is nothing to gather
		l = l.Clone()
		l.gather()
	}

	w.Name(l.id)
	w.Num(l.balance.Load(), l.granted, l.struck, l.told, l.debt, l.acked)
	w.Flag(l.credit, l.Known(), l.tick.Load() == now, l.long)
	w.Instant(l.over)
	w.Instant(l.until)
	l.mark.write(w, l.Spent())

	w.Seq(l.sent.seq)

	if l.sent.seq != 0 {
		w.Instant(l.sent.at)
		w.Name(l.sent.lease)
		w.Name(l.sent.ended)
		w.Flag(l.sent.ahead, l.sent.late)
	}

	if l.Known() && l.heard.under.Algorithm != rate.TokenBucket {
		w.Instant(l.heard.end)
		w.Num(l.heard.late)
	}

	w.Flag(l.next != nil, l.ended != nil, l.returns && l.next != nil)

	if n := l.next; n != nil {
		w.Name(n.id)
		w.Num(n.granted)
		w.Instant(n.from)
		w.Instant(n.until)
		w.Instant(n.end)
		w.Num(n.late)
	}

	if e := l.ended; e != nil {
		w.Name(e.id)
		w.Num(e.spent)
		w.Instant(e.until)
	}
}

func (m *mark) write(w Writer, spent int64) {
	w.Num(m.base, m.sentBase)

	if open := m.open && spent > m.first; open {
		w.Instant(max(m.tick, -m.tick))
		w.Num(m.first)
	} else {
		w.Instant(0)
	}

	for _, p := range []point{m.now, m.before} {
		w.Flag(p.ok)

		if p.ok {
			w.Instant(p.at)
			w.Num(p.n)
		}
	}
}

// Armed reports whether the next tick may turn the quick way.
func (l *Lease) Armed() bool { return l.quick.until.Load() != 0 }
