package table_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/table"
)

const hour = 3600 * sec

// When the store's clock steps back an hour nothing waits for the old time, and
// nothing is given twice; when it jumps ahead there is one burst, not an hour of tokens.
func TestTheStoresClockSteps(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, `rules:
  - {id: bucket, keyBy: user, limit: 10, window: 1s}
  - {id: window, keyBy: user, algorithm: fixed_window, limit: 10, window: 60s}
`)

	for _, id := range []string{"bucket", "window"} {
		if n := r.times(0, id, "k", 5); n != 5 {
			t.Fatalf("%s: %d of the first 5 passed", id, n)
		}
	}

	r.storeAhead = -hour

	passed := map[string]int{}

	for range 20 {
		for _, id := range []string{"bucket", "window"} {
			switch out := r.take(0, id, "k", 1); {
			case out.Kind == table.Allowed:
				passed[id]++
			case out.RetryAfter > 60*sec || out.RetryAfter < 1:
				t.Errorf("%s: to come back after %d s", id, out.RetryAfter/sec)
			}
		}

		r.wait(100 * ms)
	}

	if passed["bucket"] != 20 || passed["window"] > 10 {
		t.Errorf("after a step back %d of 20 passed the bucket, and %d the window", passed["bucket"], passed["window"])
	}

	r.storeAhead = 0
	r.wait(2 * sec) // so that the bucket is full anyway

	if n := r.times(0, "bucket", "k", 30); n != 10 {
		t.Errorf("%d passed after a jump ahead, want one burst of 10", n)
	}
}

// Holders whose own clocks are wrong share the windows of the store's clock.
func TestHoldersWithWrongClocksShareALimit(t *testing.T) {
	t.Parallel()

	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log", "leaky_bucket"} {
		r := newRig(t, 2, "rules: [{id: r, keyBy: user, limit: 10, window: 60s, algorithm: "+algorithm+"}]")
		r.holders[0].skew, r.holders[1].skew = 5*sec, -5*sec
		r.wait(20*sec - 100*ms) // up to the end of the store's minute

		first := 0

		for i := range 30 {
			first += r.times(i%2, "r", "k", 1)

			r.wait(ms)
		}

		if first != 10 {
			t.Errorf("%s: %d passed, want 10", algorithm, first)
		}

		r.wait(300 * ms) // over the edge: who was served last lets others go ahead for some 100 ms

		second, most := 0, 0
		if algorithm == "fixed_window" {
			most = 10
		}

		for i := range 30 {
			second += r.times(i%2, "r", "k", 1)
		}

		if second != most {
			t.Errorf("%s: %d passed in the next minute, want %d", algorithm, second, most)
		}
	}
}

// The tokens of a holder that falls silent count as spent when its lease's time to live is over, and then come back.
func TestTheTimeToLiveIsTheRules(t *testing.T) {
	t.Parallel()

	const document = `rules:
  - {id: default, keyBy: user, limit: 1000, window: 1s}
  - {id: long, keyBy: user, limit: 1000, window: 1s, lease: {ttl: 3s}, overrides: [{key: other, lease: {ttl: 6s}}]}
`

	for _, c := range []struct {
		rule, key string
		ttl       int64
	}{{"default", "k", 500 * ms}, {"long", "k", 3 * sec}, {"long", "other", 6 * sec}} {
		r := newRig(t, 2, document)

		for range 100 {
			r.times(0, c.rule, c.key, 5)
			r.wait(10 * ms)
		}

		lease := r.peek(1, c.rule, c.key).Remaining // what the silent one holds is missing
		if lease >= 1000 {
			t.Fatalf("%s: nothing is leased", c.rule)
		}

		r.holders = r.holders[1:] // it is not heard of any more
		silent := r.now

		for r.peek(0, c.rule, c.key).Remaining < 1000 {
			r.wait(50 * ms)

			if r.now > silent+20*sec {
				t.Fatalf("%s: %d of 1000 are back after 20 s", c.rule, r.peek(0, c.rule, c.key).Remaining)
			}
		}

		if took := r.now - silent; took < c.ttl/3 || took > c.ttl+1200*ms {
			t.Errorf("%s, %s: whole again after %d ms, with a time to live of %d", c.rule, c.key, took/ms, c.ttl/ms)
		}
	}
}
