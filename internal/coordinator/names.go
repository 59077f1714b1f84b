package coordinator

import (
	"hash/fnv"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

const (
	// maxNames bounds the names remembered; beyond it a restart waits for the TTL.
	maxNames = 100_000
	// sharedFor is how long a name does not count after two live holders had it.
	sharedFor = 10 * time.Minute
)

// named is who has a holder's configured name.
type named struct {
	holder uint64    // the incarnation that came last
	shared time.Time // when another one was heard that it should have replaced
}

// nameOf returns the hash of the batch's name, under which a process that starts
// again has the slots of the one before at once; 0 when there is no name to go
// by. A name that two live holders have is none, or each would take the other for
// dead. It is called before the holder is noted as seen.
func (p *presence) nameOf(batch *ledger.Batch) uint64 {
	if batch.Name == "" {
		return 0
	}

	h := fnv.New64a()
	_, _ = h.Write([]byte(batch.Name)) // never fails
	name, now := h.Sum64(), p.clock()

	p.mu.Lock()
	defer p.mu.Unlock()

	last, known := p.names[name]

	if !known && len(p.names) >= maxNames {
		return 0
	}

	if last.holder != batch.Holder {
		if seen, before := p.seen[batch.Holder]; before && now.Sub(seen.at) < presenceTTL {
			last.shared = now // it was there before the other one came, and lives
		} else {
			last.holder = batch.Holder
		}

		p.names[name] = last
	}

	if !last.shared.IsZero() && now.Sub(last.shared) < sharedFor {
		return 0
	}

	return name
}
