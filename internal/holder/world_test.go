package holder_test

import (
	"slices"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// tick is the time between two instants of a world, µs: as long as the guard of a lease.
const tick = ledger.Guard

// inFlight is how many asks the network keeps: those before are lost.
const inFlight = 2

// bounds are the small numbers within which every order of events is tried.
type bounds struct {
	name    string
	holders int64
	kind    rate.Algorithm
	burst   int64
	token   int64 // ticks that one takes to refill, in a bucket
	length  int64 // ticks, of a window
	ttl     int64 // ticks
	events  int   // how many, one after the other
	steps   []int64
	needs   []int64
	refunds bool
	long    bool  // asks to have two tokens are for long leases, others are not
	slack   int64 // tokens that a holder may borrow before it has heard of the key
}

func (b *bounds) terms() ledger.Terms {
	length := b.length
	if b.kind == rate.TokenBucket {
		length = b.token * b.burst
	}

	bucket, _ := rate.NewBucket(b.burst, length*tick, b.burst)
	t := ledger.Terms{Algorithm: b.kind, Bucket: bucket, Version: 1, TTL: b.ttl * tick}

	if b.kind != rate.TokenBucket {
		t.Length = length * tick
	}

	return t
}

// world is two holders, one ledger and a network at one instant. What a world
// points to never changes: an event makes a new world that shares the rest.
type world struct {
	now     int64
	sides   [2]side
	ledger  *ledger.State
	asks    []sentAsk // oldest first
	answers []heardAnswer
	twin    twin
	tabs    []tab
}

// side is one holder, under one name for good, and in one incarnation at a time.
type side struct {
	lease       *holder.Lease
	incarnation uint64
	paid        *payment // the last admission, while it may be refunded
}

// sentAsk stays in the network after it was delivered: it may come again.
type sentAsk struct {
	side        int
	incarnation uint64
	ask         ledger.Ask
	counted     bool // its take was counted
}

type heardAnswer struct {
	side   int
	answer ledger.Answer
	cost   int64 // of the take
	window int64 // in which it was given
}

// alike reports whether two answers say the same, but for what only tells when to ask and what is left.
func (a heardAnswer) alike(b heardAnswer) bool {
	x, y := &a.answer, &b.answer

	return a.side == b.side && a.window == b.window && x.Seq == y.Seq && x.Lease == y.Lease && x.Taken == y.Taken &&
		x.Granted == y.Granted && x.Debt == y.Debt && x.TTL == y.TTL && x.Window.Left == y.Window.Left
}

// tab is what an incarnation refunded or borrowed, which the ledger is yet to hear of.
type tab struct {
	incarnation uint64
	pending     int64 // refunded; below 0: borrowed
	window      int64 // that what was refunded was admitted in, 0 for buckets
	debt        int64 // as the ledger had it last
}

// own gives s a lease that no other world has.
func (s *side) own() *holder.Lease {
	s.lease = s.lease.Clone()

	return s.lease
}

func (x *explorer) start(w *world, i int) {
	x.incarnations += 2
	w.sides[i] = side{lease: holder.New(), incarnation: x.incarnations + uint64(i)}
	w.sides[i].lease.Pin(x.burst)
	w.prune()
}

func (x *explorer) spend(w *world, i int, n int64) error {
	s := &w.sides[i]
	l := s.own()
	epoch := l.Epoch()

	_, v, _ := l.Spend(w.now, n)
	if v == holder.Turned {
		turned := x.turn(l, w.now)

		epoch = l.Epoch()
		_, v, _ = l.Spend(turned, n)
	}

	if v == holder.Dry {
		return nil
	}

	window := w.twin.roll(w.now)

	if x.refunds {
		s.paid = &payment{holder.Payment{Epoch: epoch, N: n, End: l.CountsUntil(w.now)}, window}
	}

	return w.twin.admit(w.now, n)
}

// turn begins the tick of now, the quick way if it may be.
func (x *explorer) turn(l *holder.Lease, now int64) (tick int64) {
	if l.QuickTurn(now, l.Tick(), &x.terms.Bucket) {
		return now
	}

	tick = l.Turn(now, now, holder.Exact{})
	l.Note(now, &x.terms.Bucket)

	return tick
}

func (x *explorer) need(w *world, i int, need holder.Need) holder.Need {
	x.seq++
	need.Seq, need.Holder, need.Holders, need.TTL = x.seq, w.sides[i].incarnation, 2, x.terms.TTL

	return need
}

func (x *explorer) ask(w *world, i int, need holder.Need) {
	l := w.sides[i].own()
	l.Lost(0)

	build := l.Ask
	if x.long && slices.Contains(need.Needs, 2) {
		build = l.AskLong
	}

	ask := build(w.now, holder.Exact{}, x.need(w, i, need))
	l.Pin(x.burst)
	x.send(w, i, ask)
}

func (x *explorer) send(w *world, i int, ask ledger.Ask) {
	asks := append(slices.Clip(w.asks), sentAsk{side: i, incarnation: w.sides[i].incarnation, ask: ask})
	w.asks = asks[max(0, len(asks)-inFlight):]
	w.prune()
}

// deliver brings ask i to the ledger. Lease ids are made unique here, as the
// store's clock makes them: between two instants of it no answer gets to a holder and back.
func (x *explorer) deliver(w *world, i int) error {
	msg := w.asks[i]
	w.ledger = cloneLedger(w.ledger)
	a := w.ledger.Apply(w.now, x.terms, msg.ask)
	x.rename(w.ledger, &a)
	window := w.twin.roll(w.now)

	if a.Status == ledger.OK {
		w.settle(msg.incarnation, a.Debt)
	}

	heard := heardAnswer{side: msg.side, answer: a, window: window}
	if len(msg.ask.Takes) > 0 {
		heard.cost = msg.ask.Takes[0]
	}

	if w.awaits(heard) && msg.incarnation == w.sides[msg.side].incarnation && !slices.ContainsFunc(w.answers, heard.alike) {
		w.answers = append(slices.Clip(w.answers), heard)
	}

	if a.Taken == 0 || msg.counted {
		return nil
	}

	// A take counts when the store took it, and once however often its ask comes.
	w.asks = slices.Clone(w.asks)
	w.asks[i].counted = true

	return w.twin.take(w.now, heard.cost)
}

// named marks the ids that rename gave.
const named = 1 << 62

// rename gives a lease that was just opened an id that no other has.
func (x *explorer) rename(s *ledger.State, a *ledger.Answer) {
	for _, leases := range [][]ledger.Lease{s.Leases, s.Ahead.Leases} {
		for i := range leases {
			if leases[i].ID < named {
				x.ids++
				leases[i].ID = named + x.ids
			}
		}
	}

	if a.Lease != 0 && a.Lease < named {
		a.Lease = named + x.ids
	}
}

func (x *explorer) hear(w *world, i int) {
	msg := w.answers[i]
	s := &w.sides[msg.side]
	l := s.own()

	if l.Hear(w.now, &msg.answer) && msg.answer.Taken != 0 && x.refunds {
		s.paid = &payment{holder.Payment{Epoch: storeEpoch, N: msg.cost, End: l.CountsUntil(w.now)}, msg.window}
	}

	w.prune()
}

// refund gives the last admission back. From the balance the twin has it back at
// once, otherwise when the ledger credits it.
func (x *explorer) refund(w *world, i int) {
	s := &w.sides[i]
	l := s.own()
	paid := *s.paid
	s.paid = nil

	if !l.Refund(w.now, paid.Payment) {
		if w.now < paid.End {
			w.twin.putBack(w.now, paid.N, paid.window)
		}

		return
	}

	t := w.tab(s.incarnation)
	if t.window != paid.window {
		t.pending, t.window = 0, paid.window // what is of another window is not to be credited any more
	}

	t.pending += paid.N
}

// tab returns that of an incarnation, to change.
func (w *world) tab(incarnation uint64) *tab {
	w.tabs = slices.Clone(w.tabs)

	i := slices.IndexFunc(w.tabs, func(t tab) bool { return t.incarnation == incarnation })
	if i < 0 {
		i = len(w.tabs)
		w.tabs = append(w.tabs, tab{incarnation: incarnation})
	}

	return &w.tabs[i]
}

// settle has the twin follow what the ledger credited or charged, as far as it was ever refunded or borrowed.
func (w *world) settle(incarnation uint64, debt int64) {
	if debt == 0 && !slices.ContainsFunc(w.tabs, func(t tab) bool { return t.incarnation == incarnation }) {
		return
	}

	t := w.tab(incarnation)
	if t.window != w.twin.roll(w.now) {
		t.pending = 0
	}

	n := max(min(t.pending, 0), min(t.debt-debt, max(t.pending, 0)))
	if n != 0 {
		t.pending -= n
		w.twin.putBack(w.now, n, w.twin.roll(w.now))
	}

	t.debt = debt
}

// awaits reports whether an answer can still do something where it is heard.
func (w *world) awaits(a heardAnswer) bool {
	seq, ahead := w.sides[a.side].lease.Waits()

	return a.answer.Status == ledger.OK && a.answer.Seq == seq && a.answer.Ahead == ahead
}

// prune forgets the answers that nobody awaits: a holder that hears one does nothing.
func (w *world) prune() {
	for _, a := range w.answers {
		if !w.awaits(a) {
			w.answers = slices.DeleteFunc(slices.Clone(w.answers), func(a heardAnswer) bool { return !w.awaits(a) })

			return
		}
	}
}

func cloneLedger(s *ledger.State) *ledger.State {
	c := *s
	c.Leases, c.Old, c.Ahead.Leases = slices.Clone(s.Leases), slices.Clone(s.Old), slices.Clone(s.Ahead.Leases)

	return &c
}
