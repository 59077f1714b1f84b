package table_test

import (
	"context"
	"testing"

	"github.com/leaseway/leaseway/internal/table"
)

// A rule that counts tokens for a while and then again what is in flight goes on with what is in flight.
func TestConcurrencyAfterAnotherAlgorithm(t *testing.T) {
	t.Parallel()

	const bounds, counts = "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 20}]",
		"rules: [{id: r, keyBy: user, limit: 1000, window: 1s}]"

	r := newRig(t, 2, bounds)
	enter := func(h int) (ok bool) {
		hit := table.SlotHit{Rule: r.holders[h].Rule("r"), Key: "k", Cost: 1}
		hit.Take(context.Background())

		return hit.Out.Kind == table.Allowed
	}

	for range 20 {
		if !enter(0) {
			t.Fatal("20 slots")
		}
	}

	if enter(1) {
		t.Fatal("21 of 20")
	}

	r.apply(counts)
	r.times(1, "r", "k", 3)
	r.wait(500 * ms)
	r.apply(bounds)
	r.wait(500 * ms)

	n := 0
	for range 30 {
		if enter(1) {
			n++
		}
	}

	if n > 0 {
		t.Errorf("%d more are in flight beside 20 of 20, half a second after the rule bounds them again", n)
	}
}
