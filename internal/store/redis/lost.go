package redis

import (
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// lost counts what shows that Redis lost writes. It is what can be known: of a lease that the ledger has lost and whose
// holder never asks again nobody hears.
type lost struct{ slots, leases, tokens atomic.Int64 }

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

	return age >= 0 && age < op.Terms.TTL
}
