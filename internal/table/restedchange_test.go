package table_test

import (
	"strconv"
	"testing"

	"github.com/leaseway/leaseway/internal/table"
)

// What was refused under limits that are not in force any more is asked about anew, though its key rested.
func TestLimitsAreRaisedWhileARefusedKeyRests(t *testing.T) {
	t.Parallel()

	for name, doc := range map[string]string{
		"the rule's":   "rules: [{id: r, keyBy: user, limit: 100, window: 1h}]",
		"an override":  "rules: [{id: r, keyBy: user, limit: 1, window: 1h, overrides: [{key: k, limit: 100}]}]",
		"another kind": "rules: [{id: r, keyBy: user, algorithm: fixed_window, limit: 100, window: 1h}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			for _, rests := range []int64{0, 10 * sec} {
				r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 1, window: 1h}]")
				if n := r.times(0, "r", "k", 2); n != 1 {
					t.Fatalf("%d passed of the first two, want one", n)
				}

				r.wait(rests)
				r.apply(doc)

				if out := r.take(0, "r", "k", 1); out.Kind != table.Allowed {
					t.Errorf("after %d s, and under limits that leave room, it got %+v", rests/sec, out)
				}
			}
		})
	}
}

// Callers who used up a long limit, and many of them, do not keep others from being remembered for as long as they are refused.
func TestRefusedKeysAtRestMakeRoom(t *testing.T) {
	t.Parallel()

	const most = 100

	r := newRig(t, 0, "rules: [{id: r, keyBy: user, limit: 1, window: 24h}, {id: other, keyBy: user, limit: 100, window: 1h}]")
	r.add(table.Config{MaxKeys: most})

	for i := range most {
		r.times(0, "r", strconv.Itoa(i), 2)
	}

	r.wait(5 * sec)

	calls := r.holders[0].gate.calls.Load()

	r.take(0, "other", "k", 1)
	r.wait(100 * ms)
	r.take(0, "other", "k", 1)

	if s := r.holders[0].Stats(); s.Overflow != 0 || s.Keys > most || s.Keys == 0 {
		t.Errorf("%d keys, %d not remembered: want some, at most %d, and all of them remembered", s.Keys, s.Overflow, most)
	}

	if n := r.holders[0].gate.calls.Load() - calls; n > 2 {
		t.Errorf("%d calls for two requests", n)
	}

	// Those that made room are refused as before, by the ledger.
	for i := range most {
		if n := r.times(0, "r", strconv.Itoa(i), 1); n != 0 {
			t.Errorf("key %d passed", i)
		}
	}
}
