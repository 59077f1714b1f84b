package table

import "github.com/leaseway/leaseway/rule"

// reserve tries one hit. It reports false if the entry has left the table.
func (h *Hit) reserve(alone bool) bool {
	if h.entry == nil {
		if h.reserveLoan() {
			return true
		}

		h.entry = h.Rule.entry(h.Key)
	}

	e, t := h.entry, h.Rule.table
	h.epoch = e.Epoch()

	tick := t.clock.tick.Load()
	if left, v, look := e.Reserve(tick, h.Cost); v.Passed() {
		e.admit(&h.Out, FromLease, standing{tick, left + e.beyond(tick), left})
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
	e := h.entry

	e.mu.Lock()
	defer e.mu.Unlock()

	if e.gone {
		return false
	}

	now := e.now()

	e.refresh()
	e.use(now)
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

// reserveLoan is reserve for a key whose bucket is here, whole, or can be: tokens are taken at once, and
// given back if other rules refuse. It reports false if the key has to be leased.
func (h *Hit) reserveLoan() bool {
	r, key := h.Rule, rule.Compact(h.Key)

	l := r.lent.find(key).loan()
	if (l == nil || !h.Out.told(r.quickLoan(l, h.Cost))) && !r.takeLoan(key, h.Cost, &h.Out) {
		return false
	}

	if h.Out.Kind == Allowed {
		h.held = holdsLoan
	}

	return true
}

// commit makes what the hit reserved spent.
func (h *Hit) commit() {
	e := h.entry

	switch h.held {
	case holdsLease:
		if h.Cost != 1 {
			e.More(h.Cost - 1) // while the reservation keeps the entry from leaving
		}

		e.Commit(h.Cost)

		h.Out.Charge = Charge{of: &e.name, epoch: h.epoch, cost: h.Cost, end: e.countsUntil()}
		h.held = holdsNothing // it is spent

		if e.Low() {
			h.Rule.table.afterSpend(e, true, false)
		}
	case holdsLoan:
		h.held = holdsNothing // it was spent at once
	case holdsNothing, holdsLocal, holdsOpen, holdsTake:
	}
}

// cancel gives back what the hit reserved.
func (h *Hit) cancel() {
	held := h.held
	h.held = holdsNothing

	switch held {
	case holdsNothing:
	case holdsLoan:
		h.Rule.Untake(h.Cost, &h.Out)
	case holdsOpen:
		h.entry.count(&h.Out, -1)
	case holdsTake:
		h.Rule.table.Refund(h.Out.Charge)
	case holdsLocal:
		h.entry.count(&h.Out, -1)
		h.Rule.table.Refund(h.Out.Charge)
	case holdsLease:
		h.entry.mu.Lock()
		defer h.entry.mu.Unlock()

		h.entry.Cancel(h.epoch, h.Cost)
	}
}
