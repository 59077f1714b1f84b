package table_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/table"
)

// The first request of a window, whose lease was asked for before it began, is
// told when that window ends, and can be refunded until then.
func TestTheFirstRequestOfAWindow(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: r, keyBy: user, algorithm: fixed_window, limit: 1000, window: 1s}]")
	r.take(1, "r", "k", 1) // so that the other holder may not lease all

	for at := r.now; r.now < at+990*ms; {
		r.wait(5 * ms)
		r.take(0, "r", "k", 1)
	}

	r.to(rigStart + sec)

	calls := r.holders[0].gate.calls.Load()
	first := r.take(0, "r", "k", 1)

	if calls != r.holders[0].gate.calls.Load() || first.Kind != table.Allowed {
		t.Fatalf("no lease of the new window was there: %+v", first)
	}

	if first.Reset != sec {
		t.Errorf("the window ends in 1,000,000 µs, not %d", first.Reset)
	}

	left := first.Remaining
	r.holders[0].Refund(first.Charge)

	if again := r.take(0, "r", "k", 1); again.Remaining != left {
		t.Errorf("%d remain after a refund, %d before", again.Remaining, left)
	}
}
