package redis

import (
	"context"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// lost counts what shows that Redis lost writes. It is what can be known: of a lease that the ledger has lost and whose
// holder never asks again nobody hears.
type lost struct {
	slots, leases, tokens atomic.Int64

	spread atomic.Int64 // slots, when all that had no mark were given one
}

// spreadLoss marks all slots that have no mark as lost now, once an op of this store has found that one was. An op would do so, too, but
// only when somebody asks for a key there: a client that comes an hour after the loss would begin with nothing.
func (s *Store) spreadLoss(ctx context.Context) {
	found := s.lost.slots.Load()
	if found == s.lost.spread.Load() {
		return
	}

	now, err := s.now(ctx)
	if err == nil {
		err = s.mark(ctx, s.names.marks(), now)
	}

	if err == nil { // or else the next beat tries again
		s.lost.spread.Store(found)
	}
}

// forgotten reports whether the ledger opened another lease for a holder whose last one it does not know, though it was
// granted less than a lease's life ago: ids tell when. It can also be that the answer which ended the lease was lost, which
// is rarer. Windows are left out, since leases end with them.
func forgotten(op *store.Op, a *ledger.Answer) bool {
	const seqBits = 2 // of an id, behind the time in µs

	known, opened := op.Ask.Lease, a.Lease
	if known == 0 || opened == 0 || opened == known || op.Ask.Ahead || op.Terms.Algorithm != rate.TokenBucket {
		return false
	}

	age := int64(opened>>seqBits) - int64(known>>seqBits)

	return age >= 0 && age < op.Terms.Long()
}
