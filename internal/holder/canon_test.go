package holder_test

import (
	"encoding/binary"
	"hash/maphash"
	"slices"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// fingerprint tells worlds apart: two worlds that differ only in the time
// of day, in what things are called, or in which holder is which, have the same.
type fingerprint [2]uint64

// canon writes worlds so that like ones read the same. It is a holder.Writer.
type canon struct {
	alone bool // the other side of all worlds does nothing
	seeds [2]maphash.Seed
	buf   []byte
	now   int64
	ids   []uint64 // of leases, in the order in which they came
	seqs  []uint64 // of the incarnation at hand, in use
	order [2]int   // which side comes first
	world *world
	incs  []uint64 // in use, oldest first
	found []uint64
}

func newCanon(alone bool) *canon {
	return &canon{alone: alone, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// print returns the fingerprint of w.
func (c *canon) print(w *world) fingerprint {
	a := c.ordered(w, [2]int{0, 1})
	if c.alone {
		return a
	}

	b := c.ordered(w, [2]int{1, 0})
	if slices.Compare(a[:], b[:]) < 0 {
		return a
	}

	return b
}

func (c *canon) ordered(w *world, order [2]int) fingerprint {
	c.buf, c.now, c.ids, c.order, c.world = c.buf[:0], w.now, c.ids[:0], order, w
	c.incarnations()

	for _, i := range order {
		s := &w.sides[i]
		c.collect(s.incarnation)
		s.lease.Write(c, w.now)
		c.Flag(s.paid != nil)

		if p := s.paid; p != nil {
			c.Flag(p.Epoch == s.lease.Epoch())
			c.Num(p.N)
			c.Instant(min(p.End, w.now+1<<40))
			c.Instant(p.window)
		}

		c.messages(i)
	}

	if len(w.asks) > 0 {
		c.Flag(w.asks[0].side == order[0]) // which is lost next
	}

	c.ledger(w.ledger)
	c.twin(&w.twin)

	for _, inc := range c.incs {
		if i := slices.IndexFunc(w.tabs, func(t tab) bool { return t.incarnation == inc }); i >= 0 {
			c.Num(w.tabs[i].pending, w.tabs[i].debt)
			c.Instant(w.tabs[i].window)
		}
	}

	return fingerprint{maphash.Bytes(c.seeds[0], c.buf), maphash.Bytes(c.seeds[1], c.buf)}
}

// messages writes what is under way to and from side i.
func (c *canon) messages(i int) {
	for _, m := range c.world.asks {
		if m.side != i {
			continue
		}

		a := &m.ask
		c.collect(m.incarnation)
		c.holder(m.incarnation)
		c.Seq(a.Seq)
		c.Name(a.Lease)
		c.Name(a.Ended)
		c.Num(a.Spent, a.Lag, a.LagFrac, a.Debt, a.DebtAcked, a.RaiseTo, a.EndedSpent, int64(len(a.Takes)), int64(len(a.Needs)))
		c.Num(a.Takes...)
		c.Num(a.Needs...)
		c.Flag(a.Ahead, a.Keep, m.counted)
	}

	for _, m := range c.world.answers {
		if m.side != i {
			continue
		}

		a := &m.answer
		c.Name(a.Lease)
		c.Num(int64(a.Taken), a.Granted, a.Debt, a.TTL, a.Window.Left, m.cost)
		c.Instant(m.window)
	}

	c.Flag(true) // an end, so that lists of two kinds cannot be taken for each other
}

func (c *canon) ledger(s *ledger.State) {
	c.Flag(s.Terms.Bucket.Burst != 0)
	c.level(s.TAT)

	if s.Terms.Algorithm.Windowed() {
		c.Instant(s.Window.Start)
		c.Num(s.Window.Used, s.Window.Prev, s.Ahead.Used)
		c.Instant(s.Ahead.Start)
	}

	c.leases(s.Leases)
	c.leases(s.Old)
	c.leases(s.Ahead.Leases)
}

// leases writes those of each incarnation, in the order of the holders.
func (c *canon) leases(leases []ledger.Lease) {
	for _, inc := range c.incs {
		i := slices.IndexFunc(leases, func(l ledger.Lease) bool { return l.Holder == inc })
		if i < 0 {
			continue
		}

		l := &leases[i]
		c.collect(inc)
		c.holder(inc)
		c.Seq(l.Seq)
		c.Name(l.ID)
		c.Num(l.Granted, l.Spent, l.Debt, int64(l.Taken), max(0, l.Due-c.now))
		c.Instant(l.Exp)
	}

	c.Flag(true)
}

func (c *canon) twin(w *twin) {
	if w.kind == rate.TokenBucket {
		c.level(w.level)

		return
	}

	at := w.window.Roll(rate.Aligned(c.now, w.length))
	c.Instant(at.Start) // where in the window now is
	c.Num(at.Used, at.Prev)
}

// level writes what a bucket holds: once empty, it does not matter for how long.
func (c *canon) level(t rate.Time) {
	t = t.Max(rate.At(c.now))
	c.Num(t.Micros-c.now, t.Frac)
}

// incarnations finds those that are or may come to be known to the ledger, side by side.
func (c *canon) incarnations() {
	c.incs = c.incs[:0]

	for _, i := range c.order {
		from := len(c.incs)
		c.incs = append(c.incs, c.world.sides[i].incarnation)

		for _, m := range c.world.asks {
			if m.side == i {
				c.incs = append(c.incs, m.incarnation)
			}
		}

		for _, leases := range [][]ledger.Lease{c.world.ledger.Leases, c.world.ledger.Old, c.world.ledger.Ahead.Leases} {
			for _, l := range leases {
				if sideOf(l.Holder) == i {
					c.incs = append(c.incs, l.Holder)
				}
			}
		}

		slices.Sort(c.incs[from:])
		c.incs = c.incs[:from+len(slices.Compact(c.incs[from:]))]
	}
}

// holder writes whose incarnation inc is, and how many newer ones of the same side are in use: 0 for one that lives.
func (c *canon) holder(inc uint64) {
	newer := int64(0)

	for _, other := range c.incs {
		if other > inc && sideOf(other) == sideOf(inc) {
			newer++
		}
	}

	c.Num(int64(slices.Index(c.order[:], sideOf(inc))), newer)
}

// collect finds the seqs of inc that are in use: only their order matters.
func (c *canon) collect(inc uint64) {
	c.seqs = c.seqs[:0]

	for i := range c.world.sides {
		if s := &c.world.sides[i]; s.incarnation == inc {
			seq, _ := s.lease.Waits()
			c.seqs = append(c.seqs, seq)
		}
	}

	for i := range c.world.asks {
		if m := &c.world.asks[i]; m.incarnation == inc {
			c.seqs = append(c.seqs, m.ask.Seq)
		}
	}

	for _, leases := range [][]ledger.Lease{c.world.ledger.Leases, c.world.ledger.Ahead.Leases} {
		for i := range leases {
			if leases[i].Holder == inc {
				c.seqs = append(c.seqs, leases[i].Seq)
			}
		}
	}
}

func (c *canon) Num(nums ...int64) {
	for _, n := range nums {
		c.buf = binary.AppendVarint(c.buf, n)
	}
}

func (c *canon) Flag(flags ...bool) {
	for _, f := range flags {
		b := byte(0)
		if f {
			b = 1
		}

		c.buf = append(c.buf, b)
	}
}

// Instant writes at relative to now; 0 stands for none.
func (c *canon) Instant(at int64) {
	c.Flag(at != 0)

	if at != 0 {
		c.Num(at - c.now)
	}
}

func (c *canon) Name(id uint64) {
	i := -1
	if id != 0 {
		i = slices.Index(c.ids, id)
		if i < 0 {
			i = len(c.ids)
			c.ids = append(c.ids, id)
		}
	}

	c.Num(int64(i))
}

// Seq writes how many of the seqs in use are below seq; 0 stands for none.
func (c *canon) Seq(seq uint64) {
	if seq == 0 {
		c.Num(-1)

		return
	}

	c.found = c.found[:0]

	for _, s := range c.seqs {
		if s != 0 && s < seq && !slices.Contains(c.found, s) {
			c.found = append(c.found, s)
		}
	}

	c.Num(int64(len(c.found)))
}
