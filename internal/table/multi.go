package table

import (
	"context"

	"github.com/leaseway/leaseway/internal/holder"
)

// Hit is one rule that a request must pass, and the key it spends there.
type Hit struct {
	Rule *Rule
	Key  string
	Cost int64
	Out  Outcome

	entry *Entry
	epoch uint64
	held  holding
	probe bool // it should find out whether a coordinator answers again
}

// holding is what a hit has reserved.
type holding uint8

const (
	holdsNothing holding = iota
	holdsLease
	holdsLocal
	holdsOpen
	holdsTake // charged already
)

// TakeAll decides a request that several rules must agree to: it is charged to
// all or to none. It returns the index of the hit that refused longest, -1 when it passed.
//
// Tokens are reserved rule by rule and become spent when the last one agrees.
// They come from leases, not from takes, since the store cannot undo one. Rules
// whose tokens cannot be leased are asked last, one after the other; if one of
// them refuses, what the others took is refunded.
func (t *Table) TakeAll(ctx context.Context, hits []Hit) int {
	until := t.clock.Now() + t.deadline
	alone := false // decide without waiting any longer

	for tries := 1; ; tries++ {
		dry := t.reserveAll(hits, alone)
		if dry == 0 && t.takeRest(ctx, hits) {
			for i := range hits {
				hits[i].commit()
			}

			return -1
		}

		worst := -1

		for i := range hits {
			if tries == maxTries && hits[i].dry() {
				hits[i].refuse()
			}

			hits[i].cancel()

			if hits[i].Out.Kind != Allowed && (worst < 0 || longer(&hits[i].Out, &hits[worst].Out)) {
				worst = i
			}
		}

		if worst >= 0 {
			return worst
		}

		alone = !t.leaseAll(ctx, hits, until)
	}
}

// longer reports whether a refuses for longer than b; for ever is longest.
func longer(a, b *Outcome) bool {
	return b.RetryAfter != 0 && (a.RetryAfter == 0 || a.RetryAfter > b.RetryAfter)
}

// maxTries bounds the answers that a request waits for: what they leave to it
// each time is less than it needs, and the next would be no other.
const maxTries = 8

// dry reports whether the hit's lease could not say, after reserveAll.
func (h *Hit) dry() bool { return h.held == holdsNothing && h.Out.Kind == Allowed && !h.takeOnly() }

// refuse refuses a hit for which the store has too little.
func (h *Hit) refuse() {
	e := h.entry

	e.mu.Lock()
	defer e.mu.Unlock()

	e.denied.Add(1)
	e.refuse(&h.Out, h.Rule.table.clock.Now(), h.Cost, OverLimit)
}

// reserveAll tries every hit, and returns how many did not pass.
func (t *Table) reserveAll(hits []Hit, alone bool) (dry int) {
	for i := range hits {
		h := &hits[i]
		h.Out = Outcome{}
		h.held = holdsNothing

		if h.takeOnly() {
			continue
		}

		for !h.reserve(alone) {
			h.entry = nil // it left the table
		}

		if h.held == holdsNothing {
			dry++
		}
	}

	return dry
}

// takeOnly reports whether the hit's tokens cannot be leased.
func (h *Hit) takeOnly() bool { return !h.Rule.own.Load().leases && !h.Rule.now.Load().Block }

// takeRest takes from the rules that cannot be leased from, and reports whether all of them agreed.
func (t *Table) takeRest(ctx context.Context, hits []Hit) bool {
	for i := range hits {
		h := &hits[i]
		if !h.takeOnly() {
			continue
		}

		h.Rule.Take(ctx, h.Key, h.Cost, &h.Out)

		if h.Out.Kind != Allowed {
			return false
		}

		h.held = holdsTake
	}

	return true
}

// reserve tries one hit. It reports false if the entry has left the table.
func (h *Hit) reserve(alone bool) bool {
	if h.entry == nil {
		h.entry = h.Rule.entry(h.Key)
	}

	e, t := h.entry, h.Rule.table
	h.epoch = e.Epoch()

	tick := t.clock.tick.Load()
	if left, v, look := e.Reserve(tick, h.Cost); v.Passed() {
		e.admit(&h.Out, FromLease, standing{tick, left + e.avail.Load(), left})
		h.held = holdsLease

		if look {
			t.clock.Turn(t.clock.Now()) // catches a coarse clock that came to a stop
		}

		return true
	}

	ok := h.reserveSlow(alone)

	if h.probe {
		h.probe = false

		t.enqueue(e, false)
	}

	return ok
}

func (h *Hit) reserveSlow(alone bool) bool {
	e, now := h.entry, h.Rule.table.clock.Now()

	e.mu.Lock()
	defer e.mu.Unlock()

	if e.gone {
		return false
	}

	e.refresh()
	e.used = now
	tick := e.turn(now)
	h.epoch = e.Epoch()

	if _, v, _ := e.Reserve(tick, h.Cost); v.Passed() {
		e.admit(&h.Out, FromLease, standing{now, e.Remaining(now), e.Balance()})
		h.held = holdsLease

		return true
	}

	if e.deny(now, h.Cost, &h.Out) {
		return true
	}

	var down bool

	down, h.probe = e.down(now)
	if !down && !alone {
		return true // dry
	}

	e.local(now, h.Cost, &h.Out)

	switch {
	case h.Out.Kind != Allowed:
	case h.Out.Origin == FromLocal:
		h.held = holdsLocal
	default:
		h.held = holdsOpen
	}

	return true
}

// commit makes what the hit reserved spent.
func (h *Hit) commit() {
	e := h.entry

	switch h.held {
	case holdsLease:
		e.Commit(h.Cost)

		if h.Cost != 1 {
			e.extra.Add(h.Cost - 1)
		}

		h.Out.Charge = Charge{entry: e, epoch: h.epoch, cost: h.Cost, end: e.countsUntil()}

		if e.Low() {
			h.Rule.table.afterSpend(e, true, false)
		}
	case holdsNothing, holdsLocal, holdsOpen, holdsTake:
	}
}

// cancel gives back what the hit reserved.
func (h *Hit) cancel() {
	switch h.held {
	case holdsNothing, holdsOpen:
		return
	case holdsTake:
		h.held = holdsNothing
		h.Rule.table.Refund(h.Out.Charge)

		return
	case holdsLease, holdsLocal:
	}

	e := h.entry

	e.mu.Lock()
	defer e.mu.Unlock()

	if h.held == holdsLease {
		e.Cancel(h.epoch, h.Cost)
	} else {
		if e.Local() { // unless an answer has ended it meanwhile
			e.UndoLocal(h.Cost)
		}

		h.Rule.counts.uncount(&h.Out)
	}

	h.held = holdsNothing
}

// leaseAll asks for every hit's tokens in one go, and waits. It reports false
// when there is no use in trying again: the deadline passed, or no answer came.
func (t *Table) leaseAll(ctx context.Context, hits []Hit, until int64) bool {
	ws := make([]*waiter, len(hits))

	for i := range hits {
		if !hits[i].takeOnly() {
			ws[i] = hits[i].want()
		}
	}

	for i := range hits {
		if ws[i] != nil {
			t.enqueue(hits[i].entry, true)
		}
	}

	ok := true

	for i := range hits {
		if ws[i] == nil {
			continue
		}

		if t.await(ctx, hits[i].entry, ws[i], until) == failed {
			ok = false
		} else {
			t.waiters.Put(ws[i])
		}
	}

	return ok && t.clock.Now() < until
}

// want queues a waiter if the hit's lease does not cover its cost.
func (h *Hit) want() *waiter {
	e := h.entry

	e.mu.Lock()
	defer e.mu.Unlock()

	if e.gone || e.Balance() >= h.Cost {
		return nil
	}

	return e.queue(h.Cost, byNeed)
}

// Refund gives back what c charged.
func (t *Table) Refund(c Charge) {
	e := c.entry
	if e == nil || c.cost <= 0 {
		return
	}

	ask, gone := e.refund(c, t.clock.Now())
	for gone { // the key was idle and left: what was told of it is credited by way of its next entry
		e, c.epoch = e.rule.entry(e.key), storeEpoch
		ask, gone = e.refund(c, t.clock.Now())
	}

	if ask {
		t.enqueue(e, false)
	}
}

func (e *Entry) refund(c Charge, now int64) (ask, gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if c.epoch == localEpoch {
		if e.Local() {
			e.UndoLocal(c.cost)
		}

		return false, false
	}

	if e.gone {
		return false, true
	}

	e.used = now

	ask = e.Refund(now, holder.Payment{Epoch: c.epoch, N: c.cost, End: c.end})
	if !ask && now < c.end {
		e.extra.Add(-c.cost) // back in the balance, and yet the request was admitted
	}

	return ask, false
}
