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
		id: l.id, granted: l.granted, told: l.told, over: l.over, open: l.open,
		demand: l.demand, edge: l.edge, returns: l.returns, long: l.long,
	}}

	if l.dues != nil {
		*c.owe() = *l.dues
	}

	if s := l.sent(); s != nil {
		own := *s
		c.dues.sent = &own
	}

	c.heard.under, c.heard.tat, c.heard.at = l.heard.under, l.heard.tat, l.heard.at

	if w := l.heard.window.Load(); w != nil {
		c.heard.turnTo(&window{used: w.used, prev: w.prev, wait: w.wait, end: w.end, late: w.late, asked: w.asked})
	}

	c.mark.first, c.mark.others, c.mark.left, c.mark.over = l.mark.first, l.mark.others, l.mark.left, l.mark.over
	c.mark.until.Store(l.mark.until.Load())
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
func (l *Lease) Pin(n int64) { l.demand = demand{cost: 1, want: float32(n)} }

// AskLong is Ask for a lease that is to live long, whatever the demand says.
func (l *Lease) AskLong(now int64, ticks Ticks, need Need) ledger.Ask {
	ask := l.Ask(now, ticks, need)
	ask.Long = true

	return ask
}

// Waits returns the ask whose answer is awaited, 0 for none, and whether it is about the next window.
func (l *Lease) Waits() (seq uint64, ahead bool) {
	s := l.sent()
	if s == nil {
		return 0, false
	}

	return s.seq, s.ahead
}

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
	w.Num(l.balance.Load(), l.granted, l.owed().struck, l.told, l.owed().debt, l.owed().acked)
	w.Flag(l.owed().credit, l.Known(), l.tick.Load() == now, l.long)
	w.Instant(l.over)
	w.Instant(l.until())
	l.writeMark(w)

	seq, _ := l.Waits()
	w.Seq(seq)

	if seq != 0 {
		s := l.sent()
		w.Instant(s.at)
		w.Name(s.lease)
		w.Name(s.ended)
		w.Flag(s.ahead, s.late)
	}

	if l.Known() && l.heard.under.Algorithm != rate.TokenBucket {
		w.Instant(l.heard.counted().end)
		w.Num(l.heard.counted().late)
	}

	d := l.owed()
	w.Flag(d.next != nil, d.ended != nil, l.returns && d.next != nil)

	if n := d.next; n != nil {
		w.Name(n.id)
		w.Num(n.granted)
		w.Instant(n.from)
		w.Instant(n.until)
		w.Instant(n.end)
		w.Num(n.late)
	}

	if e := d.ended; e != nil {
		w.Name(e.id)
		w.Num(e.spent)
		w.Instant(e.until)
	}
}

func (l *Lease) writeMark(w Writer) {
	w.Num(l.base())

	if open := l.open != 0 && l.Spent() > l.first(); open {
		w.Instant(max(l.open, -l.open))
		w.Num(l.first())
	} else {
		w.Instant(0)
	}

	var before point
	if s := l.sent(); s != nil {
		before = s.before
	}

	for _, p := range []point{l.marked(), before} {
		w.Flag(p.ok())

		if p.ok() {
			w.Instant(p.at)
			w.Num(p.n)
		}
	}
}

// Armed reports whether the next tick may turn the quick way.
func (l *Lease) Armed() bool { return l.mark.until.Load() != 0 }
