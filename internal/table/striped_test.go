package table

import (
	"sync"
	"testing"
)

// Whoever counts, and from wherever, everything is counted once.
func TestAStripedCountMissesNothing(t *testing.T) {
	t.Parallel()

	const workers, each = 32, 1_000

	var (
		s  striped
		wg sync.WaitGroup
	)

	for range workers {
		wg.Go(func() {
			var out Outcome

			for range each {
				s.add(&out)
			}
		})
	}

	wg.Wait()

	if n := s.sum(); n != workers*each {
		t.Errorf("%d were counted of %d", n, workers*each)
	}
}

// Stacks and other memory that lie one after the other are told apart: most of them have a line to themselves.
func TestStripesTellNeighboursApart(t *testing.T) {
	t.Parallel()

	const stack = 8 << 10 // bytes

	var s striped

	outs := make([]struct {
		Outcome

		_ [stack]byte
	}, len(s))

	for i := range outs {
		s.add(&outs[i].Outcome)
	}

	own := 0

	for i := range s {
		if s[i].n.Load() == 1 {
			own++
		}
	}

	if own < len(s)/2 {
		t.Errorf("%d of %d neighbours have a line to themselves, want half of them at least", own, len(s))
	}
}
