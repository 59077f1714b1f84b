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
			for range each {
				s.add()
			}
		})
	}

	wg.Wait()

	if n := s.sum(); n != workers*each {
		t.Errorf("%d were counted of %d", n, workers*each)
	}
}

// Stacks that lie one after the other are told apart: most of them have a line to themselves.
func TestStripesTellNeighboursApart(t *testing.T) {
	t.Parallel()

	const (
		first = 0xc000_1000_0000
		stack = 8 << 10 // bytes
	)

	var taken [1 << stripeBits]int

	for i := range uintptr(len(taken)) {
		taken[stripeAt(first+i*stack)]++
	}

	own := 0

	for _, n := range taken {
		if n == 1 {
			own++
		}
	}

	if own < len(taken)/2 {
		t.Errorf("%d of %d neighbours have a line to themselves, want half of them at least", own, len(taken))
	}
}
