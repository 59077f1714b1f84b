package coordinator

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

const (
	// presenceTTL is how long a holder counts as alive after its last ask.
	presenceTTL = 10 * time.Second
	// maxPresent bounds the incarnations remembered: whoever invents new ones
	// makes the count of live holders wrong, not the memory large.
	maxPresent = 100_000
)

// presence remembers which holders asked lately, tells the store, and knows how
// many live in the whole fleet: the share of one in an outage depends on it.
type presence struct {
	store store.Store
	clock func() time.Time
	live  atomic.Int64

	mu    sync.Mutex
	seen  map[uint64]sighting // by incarnation
	names map[uint64]named    // hash of a configured name to who has it
}

func newPresence(kept store.Store, clock func() time.Time) *presence {
	p := &presence{store: kept, clock: clock, seen: map[uint64]sighting{}, names: map[uint64]named{}}
	p.live.Store(1)

	return p
}

// sighting is what a holder's last ask said of it.
type sighting struct {
	at      time.Time
	name    string
	version uint64         // of the rules that it runs
	bare    bool           // it shows no token
	counts  bool           // it sends tallies
	tallies []ledger.Tally // the last, of rollouts in force
}

// see notes that the holder of a batch lives, with its tallies that fit, and returns how many do, as last heard from the
// store and never below 1. The first sight of a holder is told to the store at once.
func (p *presence) see(ctx context.Context, batch *ledger.Batch, tallies []ledger.Tally) int64 {
	if p.note(batch, tallies) {
		// A failure shows in the next beat, and the count of before will do.
		_ = p.tell(ctx, []uint64{batch.Holder})
	}

	return p.live.Load()
}

// note reports whether the holder is new.
func (p *presence) note(batch *ledger.Batch, tallies []ledger.Tally) bool {
	now := p.clock()

	p.mu.Lock()
	defer p.mu.Unlock()

	last, known := p.seen[batch.Holder]
	if !known && len(p.seen) >= maxPresent {
		return false
	}

	next := sighting{
		at: now, name: last.name, version: batch.Version, bare: batch.Bare, counts: last.counts || len(batch.Tallies) > 0,
	}
	if next.name != batch.Name {
		next.name = strings.Clone(batch.Name) // a batch is used again
	}

	if next.tallies = last.tallies; len(batch.Tallies) > 0 {
		next.tallies = tallies
	}

	p.seen[batch.Holder] = next

	return !known || now.Sub(last.at) >= presenceTTL
}

// beat forgets who has not asked for presenceTTL and tells the store of the others.
func (p *presence) beat(ctx context.Context) error { return p.tell(ctx, p.present()) }

func (p *presence) present() []uint64 {
	now := p.clock()

	p.mu.Lock()
	defer p.mu.Unlock()

	holders := make([]uint64, 0, len(p.seen))

	for holder, last := range p.seen {
		if now.Sub(last.at) >= presenceTTL {
			delete(p.seen, holder)

			continue
		}

		holders = append(holders, holder)
	}

	return holders
}

func (p *presence) tell(ctx context.Context, holders []uint64) error {
	live, err := p.store.Beat(ctx, holders, presenceTTL)
	if err != nil {
		return err
	}

	p.live.Store(max(1, live))

	return nil
}
