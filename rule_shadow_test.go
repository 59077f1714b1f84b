package leaseway_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

func ruleOf(t *testing.T, l *leaseway.Limiter, id string) *leaseway.Rule {
	t.Helper()

	r, err := l.Rule(id)
	if err != nil {
		t.Fatal(err)
	}

	return r
}

// A program that asks one rule for itself is refused by it no more than one that has all rules matched: in shadow mode everything
// passes, and who would not have is counted by key.
func TestARuleInShadowModeRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := leaseway.Embedded(parsedRules(t, `rules:
  - {id: bucket, keyBy: user, limit: 2, window: 1h, mode: shadow}
  - {id: log, keyBy: user, limit: 2, window: 1h, algorithm: sliding_log, mode: shadow}
  - {id: leaky, keyBy: user, limit: 1, window: 1h, burst: 2, algorithm: leaky_bucket, mode: shadow}
  - {id: slots, keyBy: user, algorithm: concurrency, limit: 2, queue: {size: 9, wait: 10m}, mode: shadow}
  - {id: trial, keyBy: user, limit: 2, window: 1h, rollout: 0, before: {limit: 2, mode: shadow}}
`))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())

		began := time.Now()

		for _, id := range []string{"bucket", "log", "leaky", "slots", "trial"} {
			r := ruleOf(t, l, id)

			for i := range 5 {
				if d := r.Peek("ann"); !d.Allowed || (d.ShadowDenied == id) != (i >= 2) {
					t.Errorf("%s: a look before request %d says %+v", id, i, d)
				}

				d := r.Take("ann")
				if !d.Allowed || d.Delay != 0 || d.RetryAfter != 0 || (d.ShadowDenied == id) != (i >= 2) {
					t.Errorf("%s: request %d got %+v", id, i, d)
				}
			}

			if d := r.Test().Take("ann"); !d.Allowed || d.ShadowDenied != "" || d.Class != rule.ClassTest {
				t.Errorf("%s: test mode got %+v", id, d)
			}
		}

		if passed := time.Since(began); passed != 0 {
			t.Errorf("requests waited %v for a shadow", passed)
		}

		keys := l.ShadowKeys(10)
		for _, k := range keys {
			if k.Key != "ann" || k.Refused != 3 {
				t.Errorf("counted %+v", k)
			}
		}

		if len(keys) != 5 {
			t.Errorf("%d rules would have refused ann, want 5", len(keys))
		}
	})
}

// What a shadow let pass is over, and given back, like what a rule allowed.
func TestWhatAShadowTookIsGivenBack(t *testing.T) {
	l := embedded(t, `rules:
  - {id: bucket, keyBy: user, limit: 1, window: 1h, mode: shadow}
  - {id: slots, keyBy: user, algorithm: concurrency, limit: 1, mode: shadow}
`)

	for _, id := range []string{"bucket", "slots"} {
		r := ruleOf(t, l, id)

		for range 3 {
			d := r.Take("ann")
			if d.ShadowDenied != "" {
				t.Errorf("%s: would have refused what was given back", id)
			}

			l.Refund(d)
		}
	}
}

// A rule that is off says nothing, to whoever asks; enforced again it refuses at once.
func TestARuleThatIsOffRefusesNothing(t *testing.T) {
	l := newStepped(t, "rules: [{id: r, keyBy: user, limit: 1, window: 1h, mode: off}]")
	r := ruleOf(t, l.Limiter, "r")

	for range 3 {
		if d := r.Take("ann"); !d.Allowed || d.Rule != "" || d.ShadowDenied != "" {
			t.Errorf("got %+v", d)
		}
	}

	if d := r.Peek("ann"); !d.Allowed || d.Rule != "" {
		t.Errorf("a look got %+v", d)
	}

	l.rules("rules: [{id: r, keyBy: user, limit: 1, window: 1h}]")

	if first, second := r.Take("ann"), r.Take("ann"); !first.Allowed || second.Allowed {
		t.Errorf("enforced: %v, then %v", first.Allowed, second.Allowed)
	}
}

// A bug while a shadow decides refuses nobody, whatever the rule says for an outage.
func TestABugInAShadowIsNoRefusal(t *testing.T) {
	l, _ := trippable(t, "rules: [{id: dark, limit: 1, window: 1h, mode: shadow, onUnavailable: deny}]", "")
	defer l.Close(context.Background())

	l.Trip(at(leaseway.StageQuick, func() { panic("a bug") }))

	for range 3 {
		if d := l.Decide(t.Context(), leaseway.Request{}); !d.Allowed || d.Rule != "" || d.ShadowDenied != "" {
			t.Errorf("got %+v", d)
		}
	}

	l.Trip(nil)

	if n := l.Stats().Panics; n != 3 {
		t.Errorf("%d panics counted, want 3", n)
	}
}
