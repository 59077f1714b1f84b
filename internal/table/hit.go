package table

// reserve tries one hit. It reports false if the entry has left the table.
func (h *Hit) reserve(alone bool) bool {
	if h.entry == nil {
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
		h.held = holdsNothing // it is spent

		if e.Low() {
			h.Rule.table.afterSpend(e, true, false)
		}
	case holdsNothing, holdsLocal, holdsOpen, holdsTake:
	}
}

// cancel gives back what the hit reserved.
func (h *Hit) cancel() {
	held := h.held
	h.held = holdsNothing

	switch held {
	case holdsNothing:
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
