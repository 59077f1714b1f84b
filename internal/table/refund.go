package table

import "github.com/leaseway/leaseway/internal/holder"

// Refund gives back what c charged.
func (t *Table) Refund(c Charge) {
	if c.of == nil || c.cost <= 0 {
		return
	}

	var e *Entry

	if c.epoch != loanEpoch {
		e = c.of.entry()
	} else if e = c.of.loan().refund(c.cost); e != nil {
		c.epoch = storeEpoch
	} else {
		return
	}

	ask, gone := e.refund(c)
	for gone { // the key was idle and left: what was told of it is credited by way of its next entry
		e, c.epoch = e.rule().entryOf(e.key()), storeEpoch
		ask, gone = e.refund(c)
	}

	if ask {
		t.enqueue(e, false)
	}
}

func (e *Entry) refund(c Charge) (ask, gone bool) {
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

	now := e.now()

	e.use(now)

	ask = e.Refund(now, holder.Payment{Epoch: c.epoch, N: c.cost, End: c.end})
	if !ask && now < c.end {
		e.More(-c.cost) // back in the balance, and yet the request was admitted
		e.stand(now)
	}

	return ask, false
}

// refund gives back n tokens that the loan was charged with: to its bucket, wherever that is. If that has
// to be leased by now it returns the entry that it is leased by, for the ledger to be told.
func (l *loan) refund(n int64) *Entry {
	if l.credit(n, true) {
		return nil
	}

	r := l.limits.rule

	for range borrowTries {
		next, _ := r.borrow(l.key())
		if next == nil {
			break
		}

		if next.credit(n, true) {
			return nil
		}
	}

	return r.entryOf(l.key())
}
