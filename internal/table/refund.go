package table

import "github.com/leaseway/leaseway/internal/holder"

// Refund gives back what c charged.
func (t *Table) Refund(c Charge) {
	e := c.entry
	if e == nil || c.cost <= 0 {
		return
	}

	ask, gone := e.refund(c, t.clock.Now())
	for gone { // the key was idle and left: what was told of it is credited by way of its next entry
		e, c.epoch = e.rule.entryOf(e.key()), storeEpoch
		ask, gone = e.refund(c, t.clock.Now())
	}

	if ask {
		t.enqueue(e, false)
	}
}

func (e *Entry) refund(c Charge, now int64) (ask, gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if c.epoch == localEpoch && e.Local() {
		e.UndoLocal(c.cost)

		return false, false
	}

	// What the local bucket admitted has become debt by now, which the ledger hears of like a take's refund.
	if c.epoch == localEpoch {
		c.epoch = storeEpoch
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
