package coordinator

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

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
	seen  map[uint64]time.Time // incarnation to last ask
	names map[uint64]named     // hash of a configured name to who has it
}

func newPresence(kept store.Store, clock func() time.Time) *presence {
	p := &presence{store: kept, clock: clock, seen: map[uint64]time.Time{}, names: map[uint64]named{}}
	p.live.Store(1)

	return p
}

// see notes that holder lives and returns how many do, as last heard from the
// store and never below 1. The first sight of a holder is told to the store at once.
func (p *presence) see(ctx context.Context, holder uint64) int64 {
	if p.note(holder) {
		// A failure shows in the next beat, and the count of before will do.
		_ = p.tell(ctx, []uint64{holder})
	}

	return p.live.Load()
}

// note reports whether the holder is new.
func (p *presence) note(holder uint64) bool {
	now := p.clock()

	p.mu.Lock()
	defer p.mu.Unlock()

	last, known := p.seen[holder]
	if !known && len(p.seen) >= maxPresent {
		return false
	}

	p.seen[holder] = now

	return !known || now.Sub(last) >= presenceTTL
}

// beat forgets who has not asked for presenceTTL and tells the store of the others.
func (p *presence) beat(ctx context.Context) error { return p.tell(ctx, p.present()) }

func (p *presence) present() []uint64 {
	now := p.clock()

	p.mu.Lock()
	defer p.mu.Unlock()

	holders := make([]uint64, 0, len(p.seen))

	for holder, last := range p.seen {
		if now.Sub(last) >= presenceTTL {
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
