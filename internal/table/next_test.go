package table_test

import "testing"

func TestNextIsWhenSomethingIsDue(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, `rules: [{id: r, keyBy: user, limit: 100, window: 1s}]`)
	h := r.holders[0]

	if at, ok := h.Next(); ok {
		t.Fatalf("a table without keys has something to do at %d", at)
	}

	r.times(0, "r", "a", 50)

	// Jumping from one appointment to the next, the lease is renewed or returned and the key leaves, as it would step by step.
	jumps := 0

	for at, ok := h.Next(); ok; at, ok = h.Next() {
		if at <= r.now {
			t.Fatalf("at %d the next thing is due at %d, which was before", r.now, at)
		}

		r.now = at
		h.clock.Set(at)
		h.Advance(at)

		jumps++
		if jumps > 100 {
			t.Fatalf("after %d jumps the key has not left", jumps)
		}
	}

	if s := h.Stats(); s.Keys != 0 || s.Leases != 0 {
		t.Errorf("got %d keys and %d leases", s.Keys, s.Leases)
	}

	if passed := r.times(0, "r", "a", 200); passed != 100 {
		t.Errorf("%d passed after all was returned, want 100", passed)
	}
}
