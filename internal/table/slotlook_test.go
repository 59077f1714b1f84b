package table_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// Who only looks at what is in flight is counted nowhere, in an outage as little as else, and whatever is said to him.
func TestALookAtSlotsIsNotCounted(t *testing.T) {
	t.Parallel()

	for _, without := range []string{"allow", "deny", "local"} {
		r := newRig(t, 1, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 5, onUnavailable: "+without+"}]")

		for _, cut := range []bool{false, true} {
			if cut {
				r.cut()
			}

			for range 3 {
				for _, cost := range []int64{1, 6} {
					h := &table.SlotHit{Rule: r.holders[0].Rule("r"), Key: "k", Cost: cost, Class: rule.ClassWrite}
					h.Peek(t.Context())
				}
			}
		}

		if s := r.holders[0].Stats().Rules[0]; s.Allowed != [len(s.Allowed)]int64{} || s.Denied != [len(s.Denied)]int64{} {
			t.Errorf("%s: looks were counted as %v allowed and %v denied", without, s.Allowed, s.Denied)
		}
	}
}
