package table_test

import "testing"

// steadily has holder 0 send requests for one token of a key, twenty a second, and returns how many its coordinator was asked about.
func (r *rig) steadily(rule, key string, requests int) (asks int64) {
	before := r.holders[0].Stats().Asks

	for range requests {
		r.times(0, rule, key, 1)
		r.wait(50 * ms)
	}

	return r.holders[0].Stats().Asks - before
}

// A key that uses little of its limit is asked about once in some seconds.
func TestLittleIsLeasedForLong(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		limits string
		asks   int64 // at most, about 400 requests in 20 s
		least  int64
	}{
		{limits: "limit: 10000, window: 1s", least: 2, asks: 4},
		{limits: "limit: 10000, window: 1s, lease: {ttl: 10ms}", least: 60, asks: 400}, // 160 ms are too short for eight requests
		{limits: "limit: 10000, window: 1s, lease: {ttl: 10s}", least: 2, asks: 5},     // long already
		{limits: "limit: 200, window: 1s", least: 60, asks: 120},                       // a 32nd is less than eight
		{limits: "limit: 10000, window: 1s, algorithm: fixed_window", least: 60, asks: 200},
	} {
		r := newRig(t, 1, "rules: [{id: a, keyBy: user, "+c.limits+"}]")
		r.steadily("a", "k", 200)

		if asks := r.steadily("a", "k", 400); asks < c.least || asks > c.asks {
			t.Errorf("%s: %d asks, want %d to %d", c.limits, asks, c.least, c.asks)
		}
	}
}

// A long lease of a rule that changes is renewed with the next requests, not when its time is over.
func TestLongLeasesHearOfAChange(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 10000, window: 1s}]")
	r.steadily("a", "k", 200)
	r.wait(sec)

	if asks := r.steadily("a", "k", 3); asks != 0 {
		t.Fatalf("%d asks about 3 requests: the lease is not long", asks)
	}

	r.apply("rules: [{id: a, keyBy: user, limit: 100, window: 1s}]")

	if asks := r.steadily("a", "k", 3); asks == 0 {
		t.Error("no ask after the rule has changed")
	}

	if left := r.peek(0, "a", "k").Remaining; left > 100 {
		t.Errorf("%d remain of 100", left)
	}
}

// What an idle key has for long goes back when it has not been used for all of its time.
func TestLongLeasesGoBack(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: a, keyBy: user, limit: 10000, window: 1s}]")
	r.steadily("a", "k", 200)

	if left := r.peek(1, "a", "k").Remaining; left >= 10_000 {
		t.Fatalf("another server sees %d: nothing is leased", left)
	}

	r.wait(16 * sec)

	if left := r.peek(1, "a", "k").Remaining; left != 10_000 {
		t.Errorf("another server sees %d of 10000 after 16 s", left)
	}
}
