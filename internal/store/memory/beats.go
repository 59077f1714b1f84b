package memory

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// maxHolders bounds the incarnations that live at once; far more than a fleet has.
const maxHolders = 1 << 18

// beats are the holder incarnations that said they live, each until some instant.
type beats struct {
	mu     sync.Mutex
	closed bool
	until  map[uint64]int64
	next   int64 // none ends before it
	last   int64
}

// Beat notes that holders live for another ttl, and returns how many live; see
// store.Store. A ttl of 0 says that they left. Beats are not kept over a restart.
func (s *Store) Beat(ctx context.Context, holders []uint64, ttl time.Duration) (live int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}

	if ttl < 0 {
		return 0, fmt.Errorf("beat: the ttl of %v is negative", ttl)
	}

	now := s.now()
	live, err = s.beats.note(now, holders, ttl.Microseconds())
	s.sweep(now) // beats come even when no key is asked for

	return live, err
}

func (b *beats) note(now int64, holders []uint64, ttl int64) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.closed {
		return 0, ErrClosed
	}

	b.last = max(b.last, now)
	until := b.last + ttl

	b.expire()

	if b.until == nil {
		b.until = map[uint64]int64{}
		b.next = math.MaxInt64
	}

	for _, h := range holders {
		if _, known := b.until[h]; !known && len(b.until) >= maxHolders {
			return int64(len(b.until)), fmt.Errorf("beat: %d holders live already, which is the most that are counted", maxHolders)
		}

		b.until[h] = until
		b.next = min(b.next, until)
	}

	b.expire() // a ttl of 0

	return int64(len(b.until)), nil
}

// expire forgets those whose time is over. It looks at all only when one may
// have ended, which for holders that beat in time is never more than once a ttl.
func (b *beats) expire() {
	if b.last < b.next {
		return
	}

	b.next = math.MaxInt64

	for h, until := range b.until {
		if until <= b.last {
			delete(b.until, h)
		} else {
			b.next = min(b.next, until)
		}
	}
}

func (b *beats) close() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.closed = true
}
