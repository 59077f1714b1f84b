package table

import (
	"context"
	"slices"
)

// Hit is one rule that a request must pass, and the key it spends there.
type Hit struct {
	Rule *Rule
	Key  string
	Cost int64
	Out  Outcome

	entry *Entry
	epoch uint32
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
	holdsLoan // taken from a bucket that is here, whole
)

// TakeAll decides a request that several rules must agree to: it is charged to
// all or to none. It returns the index of the hit that refused longest, -1 when it passed.
//
// Tokens are reserved rule by rule and become spent when the last one agrees.
// They come from leases, not from takes, since the store cannot undo one. Rules
// whose tokens cannot be leased are asked last, one after the other; if one of
// them refuses, what the others took is refunded.
func (t *Table) TakeAll(ctx context.Context, hits []Hit) int {
	until := t.until(&hits[0].Out)
	alone := false // decide without waiting any longer
	decided := false

	defer func() {
		if !decided { // a bug: nobody must pay for it
			t.undo(hits)
		}
	}()

	for tries := 1; ; tries++ {
		dry := t.reserveAll(hits, alone)
		if dry == 0 && t.takeRest(ctx, hits, until) {
			for i := range hits {
				hits[i].commit()
			}

			decided = true

			return -1
		}

		worst := -1

		for i := range hits {
			if tries == maxTries && hits[i].dry() {
				hits[i].refuse()
			}

			hits[i].cancel()

			if hits[i].Out.Kind != Allowed && (worst < 0 || Longer(&hits[i].Out, &hits[worst].Out)) {
				worst = i
			}
		}

		if worst >= 0 {
			decided = true

			return worst
		}

		if alone = !t.leaseAll(ctx, hits, until); alone && ctx.Err() != nil {
			worst, decided = t.quitAll(hits), true

			return worst
		}
	}
}

// undo gives back what hits have reserved or spent.
func (t *Table) undo(hits []Hit) {
	for i := range hits {
		if hits[i].held != holdsNothing {
			hits[i].cancel()
		} else if c := hits[i].Out.Charge; !c.None() {
			t.Refund(c)
		}
	}
}

// quitAll refuses a request whose caller did not wait, by the first rule that could not say.
func (t *Table) quitAll(hits []Hit) int {
	first := slices.IndexFunc(hits, func(h Hit) bool { return h.entry != nil })
	hits[first].entry.quit(hits[first].Cost, &hits[first].Out)

	return first
}

// Longer reports whether a refuses for longer than b; for ever is longest.
func Longer(a, b *Outcome) bool {
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

	e.Refuse(0)
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
func (t *Table) takeRest(ctx context.Context, hits []Hit, until int64) bool {
	for i := range hits {
		h := &hits[i]
		if !h.takeOnly() {
			continue
		}

		h.Out.Until = until
		h.Rule.Take(ctx, h.Key, h.Cost, &h.Out)

		if h.Out.Kind != Allowed {
			return false
		}

		h.held = holdsTake
	}

	return true
}

// leaseAll asks for every hit's tokens in one go, and waits. It reports false
// when there is no use in trying again: the deadline passed, or no answer came.
func (t *Table) leaseAll(ctx context.Context, hits []Hit, until int64) bool {
	ws := make([]*waiter, len(hits))

	for i := range hits {
		if hits[i].entry != nil { // else it was decided, or is asked about by itself
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

		switch t.await(ctx, hits[i].entry, ws[i], until) {
		case failed, quit:
			ok = false
		case given, again:
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
