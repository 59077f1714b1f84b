package table_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/leaseway/leaseway/internal/table"
)

// A key that rested goes on where it was: how often was asked about it, and how much demand there is.
func TestAKeyGoesOnAfterItsRest(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 1000, window: 1h, lease: {ttl: 60s}}]")

	for i := range 2 {
		r.take(0, "r", "k", 1)
		r.wait(600 * ms) // it rests after 20

		s, ok := r.holders[0].Rule("r").Key("k")
		if !ok || s.Asks != int64(i+1) || s.Remaining != int64(999-i) {
			t.Fatalf("after %d requests: %+v, %v", i+1, s, ok)
		}
	}

	// In a minute this goes on, so that a lease pays; one that had begun anew would know nothing of the demand.
	r.take(0, "r", "k", 1)

	if s, _ := r.holders[0].Rule("r").Key("k"); s.Balance == 0 {
		t.Errorf("no lease after three requests within two seconds: %+v", s)
	}
}

// Traces count as keys that are remembered, and those of a full table may still become entries.
func TestAFullTableOfKeysAtRest(t *testing.T) {
	t.Parallel()

	r := newRig(t, 0, "rules: [{id: r, keyBy: user, limit: 100, window: 1h}]")
	r.add(table.Config{MaxKeys: 10})

	for i := range 10 {
		r.take(0, "r", strconv.Itoa(i), 1)
	}

	r.wait(300 * ms)

	if s := r.holders[0].Stats(); s.Keys != 10 || s.Overflow != 0 {
		t.Fatalf("%d keys, %d not remembered: want all ten", s.Keys, s.Overflow)
	}

	r.take(0, "r", "3", 1)

	if s := r.holders[0].Stats(); s.Keys != 10 || s.Overflow != 0 {
		t.Errorf("%d keys, %d not remembered after one of them came back", s.Keys, s.Overflow)
	}

	r.take(0, "r", "new", 1)

	if s := r.holders[0].Stats(); s.Keys != 10 || s.Overflow != 1 {
		t.Errorf("%d keys, %d not remembered after an eleventh", s.Keys, s.Overflow)
	}

	r.wait(5 * sec)

	if s := r.holders[0].Stats(); s.Keys != 0 {
		t.Errorf("%d keys after five seconds", s.Keys)
	}
}

// Nothing is left of the keys of a rule that is gone.
func TestKeysAtRestOfARuleThatIsGone(t *testing.T) {
	t.Parallel()

	const other = "{id: other, limit: 5, window: 1s}"

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 100, window: 1h}, "+other+"]")
	r.take(0, "r", "k", 1)
	r.wait(500 * ms)
	r.apply("rules: [" + other + "]")
	r.wait(5 * sec)

	if s := r.holders[0].Stats(); s.Keys != 0 {
		t.Errorf("%d keys are remembered of a rule that is gone", s.Keys)
	}
}

// Requests come while their keys go to rest: each is decided once, and each key is counted once.
func TestRequestsComeWhileKeysRest(t *testing.T) {
	t.Parallel()

	const workers, keys, rounds, limit = 4, 8, 300, 2_000

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: "+strconv.Itoa(limit)+", window: 1h}]")
	h := r.holders[0]
	passed := make([][keys]int, workers)

	for range rounds {
		var wg sync.WaitGroup

		for w := range workers {
			wg.Go(func() {
				for k := range keys {
					var out table.Outcome

					h.Rule("r").Take(t.Context(), strconv.Itoa(k), 1, &out)

					if out.Kind == table.Allowed {
						passed[w][k]++
					}
				}
			})
		}

		wg.Go(func() { h.Advance(r.now) })
		wg.Wait()
		r.wait(190 * ms)
	}

	for k := range keys {
		sum := 0
		for w := range workers {
			sum += passed[w][k]
		}

		if want := workers * rounds; sum != want {
			t.Errorf("key %d: %d passed, want %d", k, sum, want)
		}
	}

	r.wait(10 * sec)

	if s := h.Stats(); s.Keys != 0 {
		t.Errorf("%d keys in the end", s.Keys)
	}
}

// A key that is refused rests, too, once nobody asks for it, and is refused without a call whenever somebody does.
func TestAKeyThatIsRefusedRests(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		rule string
		ends int64 // when it may pass again, after its first request
	}{
		{"limit: 1, window: 10m", 600 * sec},
		{"limit: 1, window: 1h", 3600 * sec},
		{"algorithm: fixed_window, limit: 1, window: 1h", 3600*sec - rigStart%(3600*sec)},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()

			r := newRig(t, 1, "rules: [{id: r, keyBy: user, "+c.rule+"}]")
			if n := r.times(0, "r", "k", 2); n != 1 {
				t.Fatalf("%d passed of the first two, want one", n)
			}

			calls := r.holders[0].gate.calls.Load()

			for _, at := range []int64{10 * sec, 20 * sec, 400 * sec, 590 * sec, c.ends - ms} {
				r.to(rigStart + at)

				if s, _ := r.holders[0].Rule("r").Key("k"); s.Asks != 2 {
					t.Errorf("after %d s it is not remembered: %+v", at/sec, s)
				}

				left := c.ends - at
				if out := r.take(0, "r", "k", 1); out.Kind != table.OverLimit || out.RetryAfter > left || out.RetryAfter < left-5*ms {
					t.Errorf("after %d s: %+v, want a refusal for %d µs", at/sec, out, left)
				}
			}

			if n := r.holders[0].gate.calls.Load() - calls; n > 1 { // what is denied for longer than half an hour may ask a little sooner
				t.Errorf("%d calls for a key that was refused", n)
			}

			r.to(rigStart + c.ends)

			if out := r.take(0, "r", "k", 1); out.Kind != table.Allowed {
				t.Errorf("in the end it got %+v", out)
			}
		})
	}
}
