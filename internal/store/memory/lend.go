package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

// Of a ledger that is lent to a table of this process nothing is kept: it is here or there, and never in both
// places. Whoever wants one that is not here asks the borrowers first, under the lock of its shard.
//
//	at rest, held or missing ── Lend ──► lent ── Recall: an op, Return, Copy, Close ──► at rest

var _ store.Lender = (*Store)(nil)

// borrowers are the tables that have ledgers.
type borrowers struct {
	mu     sync.Mutex
	list   atomic.Pointer[[]*borrower] // a new one for each change
	closed atomic.Bool                 // nothing is lent any more
}

type borrower struct {
	ledger.Borrower

	lent atomic.Int64 // ledgers that it has, or is about to have
}

// all returns those that may have something.
func (b *borrowers) all() []*borrower {
	if list := b.list.Load(); list != nil {
		return *list
	}

	return nil
}

// count notes that to is about to have one more, and forgets who has none.
func (b *borrowers) count(to ledger.Borrower) *borrower {
	b.mu.Lock()
	defer b.mu.Unlock()

	one := b.find(to)
	if one == nil {
		one = &borrower{Borrower: to}
		next := slices.DeleteFunc(slices.Clone(b.all()), func(o *borrower) bool { return o.lent.Load() == 0 })
		next = append(next, one)
		b.list.Store(&next)
	}

	one.lent.Add(1)

	return one
}

// find returns the borrower that of is, nil if it has nothing.
func (b *borrowers) find(of ledger.Borrower) *borrower {
	for _, one := range b.all() {
		if one.Borrower == of {
			return one
		}
	}

	return nil
}

// lent returns how many ledgers are lent.
func (b *borrowers) lent() (n int64) {
	for _, one := range b.all() {
		n += one.lent.Load()
	}

	return n
}

// returnAll has everything given back, while no lock is held.
func (b *borrowers) returnAll() {
	for _, one := range b.all() {
		one.ReturnAll()
	}
}

// Now returns the store's time; see store.Lender.
func (s *Store) Now() int64 { return s.now() }

// Lend lends a ledger whole; see store.Lender.
func (s *Store) Lend(loan *store.Loan, to ledger.Borrower) (ok bool) {
	if loan.Terms.Check() != nil {
		return false
	}

	id, now := s.seed.hash(loan.Key.Rule, loan.Key.Key), s.now()
	by := s.borrowers.count(to)

	s.inShard(now, id, func(sh *shard) {
		ok = !s.borrowers.closed.Load() && sh.lend(now, lending{id: id, loan: loan, loss: s.loss, to: to})
	})

	if !ok {
		by.lent.Add(-1)
	}

	return ok
}

// Return takes back a ledger; see store.Lender.
func (s *Store) Return(key store.Key, of ledger.Borrower) {
	by := s.borrowers.find(of)
	if by == nil {
		return
	}

	id, now := s.seed.hash(key.Rule, key.Key), s.now()

	s.inShard(now, id, func(sh *shard) {
		sh.last = max(sh.last, now)
		sh.recall(id, key, by)
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
func (sh *shard) lend(now int64, l lending) (ok bool) {
	sh.last = max(sh.last, now)
	now = sh.last

	slot, found := sh.find(l.id, l.loan.Key)
	s := sh.state(slot, found, l.loan.Terms, l.loss)
	before := len(s.Leases)
	ok = s.Lend(now, l.loan.Terms, l.loan.MostQ)
	s.TAT = clamp(s.TAT)
	sh.counts.leases += int64(len(s.Leases) - before)

	if !ok {
		sh.put(now, slot, found, l.id)

		return false
	}

	lent := ledger.Lent{TAT: s.TAT, Terms: s.Terms, Full: s.Idle(now)}

	if found {
		sh.drop(slot)
	}

	l.to.Begin(l.loan.Key.Rule, l.loan.Key.Key, &lent)

	return true
}

// recall takes a ledger back from a borrower, if that has it, and puts it to rest, unless it says nothing.
func (sh *shard) recall(id keyID, key store.Key, from *borrower) {
	if from.lent.Load() == 0 {
		return
	}

	back, ok := from.Recall(key.Rule, key.Key)
	if !ok {
		return
	}

	from.lent.Add(-1)

	r := restRecord(id, back.TAT, sh.terms.acquire(back.Terms))
	if sh.clear(&r) <= sh.last {
		sh.terms.release(r.ref())
	} else {
		sh.insert(sh.last, r)
	}
}
