package table_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/table"
)

// With slack a key's first requests do not wait for an answer. What they took
// is charged by the ask that follows, so the limit is passed by the slack at most, once for each server.
func TestSlackIsChargedAfterwards(t *testing.T) {
	t.Parallel()

	r := newRig(t, 3, "rules: [{id: r, keyBy: user, limit: 10, window: 1h, slack: 2}]")
	passed := 0

	// The slack is what a request may cost that does not wait, and no more.
	for key, c := range map[string]struct {
		cost int64
		want table.Origin
	}{"two": {2, table.FromLease}, "three": {3, table.FromStore}} {
		if out := r.take(0, "r", key, c.cost); out.Kind != table.Allowed || out.Origin != c.want {
			t.Errorf("a cost of %d: %+v, want it to pass with origin %v", c.cost, out, c.want)
		}
	}

	for i := range 3 {
		if out := r.take(i, "r", "k", 1); out.Kind != table.Allowed || out.Origin != table.FromLease {
			t.Fatalf("server %d: %+v, want the first request to pass at once", i, out)
		}

		passed++
	}

	for i := range 60 {
		passed += r.times(i%3, "r", "k", 1)
	}

	if passed < 10 || passed > 10+3*2 {
		t.Errorf("%d passed, want 10, and 6 more at most", passed)
	}

	// It was charged: an hour later there is no more than the burst and the slack.
	if n := r.times(0, "r", "k", 10); n != 0 {
		t.Errorf("%d passed when empty", n)
	}
}
