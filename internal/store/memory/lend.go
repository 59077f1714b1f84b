package memory

import (
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

// A ledger that is lent is in a table of this process: all that is kept of it are its terms, and who has it. Whoever
// wants it recalls it first, under the lock of its shard; so it is here or there, and never in both places.
//
//	at rest, held or missing ── Lend ──► lent ── recall: an op, Return, no room, Close ──► at rest

var _ store.Lender = (*Store)(nil)

// Now returns the store's time; see store.Lender.
func (s *Store) Now() int64 { return s.now() }

// Lend lends a ledger whole; see store.Lender.
func (s *Store) Lend(loan *store.Loan, to ledger.Borrower) (lent ledger.Lent, ok bool) {
	if loan.Terms.Check() != nil {
		return lent, false
	}

	id, now := s.seed.hash(loan.Key.Rule, loan.Key.Key), s.now()

	s.inShard(now, id, func(sh *shard) {
		lent, ok = sh.lend(now, lending{id: id, loan: loan, loss: s.loss, to: to})
	})

	return lent, ok
}

// Return takes back what of has of a ledger, if it still has it; see store.Lender.
func (s *Store) Return(key store.Key, of ledger.Borrower) {
	id, now := s.seed.hash(key.Rule, key.Key), s.now()

	s.inShard(now, id, func(sh *shard) {
		slot, found := sh.table.find(id)
		if !found || !sh.table.slots[slot].lent() || *sh.lent.at(sh.table.slots[slot].index()) != of {
			return
		}

		sh.last = max(sh.last, now)
		sh.recall(slot)

		if sh.expire(slot, sh.last) {
			sh.drop(slot)
		}
	})
}

// inShard does something about the ledger of id in its shard, unless that is closed, and pushes the sweep along as an op
// does: where all that is asked for is lent there are no others.
func (s *Store) inShard(now int64, id keyID, do func(sh *shard)) {
	sh := s.shard(id)
	sweep := false

	func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()

		if sh.closed {
			return
		}

		do(sh)

		sh.ops++
		sweep = sh.ops%sweepEvery == 0
	}()

	if sweep {
		s.sweep(now)
	}
}

// lending is a ledger on its way to a borrower.
type lending struct {
	id   keyID
	loan *store.Loan
	loss int64 // see Store
	to   ledger.Borrower
}

// lend lends the ledger of l.id, from whoever has it now.
func (sh *shard) lend(now int64, l lending) (lent ledger.Lent, ok bool) {
	sh.last = max(sh.last, now)
	now = sh.last

	slot, found := sh.find(l.id)
	s := sh.state(slot, found, l.loan.Terms, l.loss)
	before := len(s.Leases)
	ok = s.Lend(now, l.loan.Terms, l.loan.MostQ)
	s.TAT = clamp(s.TAT)
	sh.counts.leases += int64(len(s.Leases) - before)

	if !ok {
		sh.put(now, slot, found, l.id)

		return lent, false
	}

	lent = ledger.Lent{TAT: s.TAT, Terms: s.Terms, Full: s.Idle(now)}
	out := lentRecord(l.id, sh.lent.add(l.to), sh.terms.acquire(s.Terms))

	switch r := &sh.table.slots; {
	case !found:
		sh.insert(now, out)
	case (*r)[slot].held():
		sh.held.remove((*r)[slot].index())
		(*r)[slot] = out
	default:
		sh.terms.release((*r)[slot].ref())
		(*r)[slot] = out
	}

	return lent, true
}

// recall takes back the ledger in slot, which is lent, and puts it to rest.
func (sh *shard) recall(slot int) {
	r := &sh.table.slots[slot]
	by := *sh.lent.at(r.index())

	sh.lent.remove(r.index())
	*r = restRecord(r.id, by.Recall(), r.terms())
}

// recallAll takes back all that is lent.
func (sh *shard) recallAll() {
	for slot := range sh.table.slots {
		if sh.table.slots[slot].lent() {
			sh.recall(slot)
		}
	}
}
