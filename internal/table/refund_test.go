package table_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/table"
)

// A refund through one holder ends the refusals of the others, and not only
// when the token would have come back anyway.
func TestRefundsReachOtherHolders(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		rule  string
		bound int64
	}{
		{"limit: 10, window: 60s", 2 * sec},
		{"limit: 10, window: 60s, algorithm: fixed_window", 2 * sec},
		{"limit: 10, window: 60s, algorithm: sliding_window", 2 * sec},
		{"limit: 10, window: 60s, algorithm: sliding_log", 2 * sec},
		{"limit: 10, window: 60s, algorithm: leaky_bucket", 2 * sec},
		{"limit: 500, window: 1h", 2 * sec},
		{"limit: 500, window: 1h, algorithm: fixed_window", 11 * sec},
		{"limit: 1, window: 1d", 11 * sec},
	} {
		r := newRig(t, 2, "rules: [{id: r, keyBy: user, "+c.rule+"}]")

		var paid table.Charge

		for {
			out := r.take(0, "r", "k", 1)
			if out.Kind != table.Allowed {
				break
			}

			paid = out.Charge
		}

		if n := r.times(1, "r", "k", 20); n != 0 {
			t.Fatalf("%s: %d passed above the limit", c.rule, n)
		}

		r.holders[0].Refund(paid)

		refunded := r.now
		for r.times(1, "r", "k", 1) == 0 {
			r.wait(100 * ms)

			if r.now > refunded+c.bound {
				t.Errorf("%s: still refused elsewhere %d s after the refund", c.rule, (r.now-refunded)/sec)

				break
			}
		}
	}
}

// What a refusal says is when the caller can pass if nobody gives anything
// back, however often the holder asks meanwhile.
func TestRefusalsTellTheWholeWait(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		algorithm   string
		wait, spare int64
	}{
		{"fixed_window", 20 * sec, 30 * ms}, // the rig begins 40 s into a minute
		{"sliding_log", 60 * sec, 30 * ms},
		{"token_bucket", 6 * sec, 300 * ms}, // who takes one by one lets others go ahead
	} {
		r := newRig(t, 2, "rules: [{id: r, keyBy: user, limit: 10, window: 60s, algorithm: "+c.algorithm+"}]")
		start := r.now

		if n := r.times(0, "r", "k", 10); n != 10 {
			t.Fatalf("%s: %d passed, want 10", c.algorithm, n)
		}

		for r.now < start+c.wait-sec {
			for h := range r.holders {
				out := r.take(h, "r", "k", 1)
				if left := start + c.wait - r.now; out.Kind != table.OverLimit || out.RetryAfter < left || out.RetryAfter > left+c.spare+2*ms {
					t.Fatalf("%s: after %d ms %v, to come back after %d ms, want %d", c.algorithm, (r.now-start)/ms, out.Kind, out.RetryAfter/ms, left/ms)
				}
			}

			r.wait(250 * ms)
		}

		if r.holders[0].gate.calls.Load() > 80 {
			t.Errorf("%s: %d calls", c.algorithm, r.holders[0].gate.calls.Load())
		}
	}
}

// To hear of refunds costs a call in a hundredth of the wait, however many requests are refused.
func TestRefusalsAreSeldomLookedAfter(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: r, keyBy: user, limit: 1, window: 10m}]")

	r.times(0, "r", "k", 1)
	r.times(1, "r", "k", 1)
	before := r.holders[1].gate.calls.Load()

	for range 600 {
		r.wait(100 * ms)
		r.times(1, "r", "k", 1)
	}

	// Of ten minutes, and then of what is left of them.
	if n := r.holders[1].gate.calls.Load() - before; n < 9 || n > 11 {
		t.Errorf("%d calls in a minute, want one in six seconds", n)
	}
}
