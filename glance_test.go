package leaseway_test

import (
	"testing"

	"github.com/leaseway/leaseway"
)

// Under two rules a request is charged to both or to none, counts once under each that decided it, and hears of the rule that matters.
func TestTwoRulesAreOneDecision(t *testing.T) {
	t.Parallel()

	l := newStepped(t, `rules:
  - {id: wide, keyBy: user, limit: 10, window: 1h}
  - {id: narrow, keyBy: apikey, limit: 2, window: 2h}
`)

	steps := []struct {
		user, apikey string
		want         string // the rule that it speaks of
		allowed      bool
		remaining    int64
	}{
		{"u", "k1", "narrow", true, 1},
		{"u", "k1", "narrow", true, 0},
		{"u", "k1", "narrow", false, 0}, // leaves wide as it was
		{"u", "k2", "narrow", true, 1},
		{"u", "k2", "narrow", true, 0},
		{"u", "k3", "wide", true, 5},
		{"u", "k4", "wide", true, 4},
		{"u", "k5", "wide", true, 3},
		{"u", "k6", "wide", true, 2},
		{"u", "k7", "wide", true, 1},
		{"u", "k8", "wide", true, 0},
		{"u", "k8", "wide", false, 0}, // leaves narrow as it was
		{"other", "k8", "narrow", true, 0},
		{"u", "k8", "narrow", false, 0}, // both refuse; this one for longer
	}

	for i, s := range steps {
		d := l.Decide(t.Context(), leaseway.Request{User: s.user, APIKey: s.apikey})
		if d.Allowed != s.allowed || d.Rule != s.want || d.Remaining != s.remaining {
			t.Errorf("request %d: %v by %s, %d left; want %v by %s, %d left", i, d.Allowed, d.Rule, d.Remaining, s.allowed, s.want, s.remaining)
		}
	}

	var allowed, denied [2]int64

	for i, r := range l.Stats().Rules {
		for origin := range r.Allowed {
			allowed[i] += r.Allowed[origin]
			denied[i] += r.Denied[origin]
		}
	}

	if allowed != [2]int64{11, 11} || denied != [2]int64{2, 2} {
		t.Errorf("wide and narrow admitted %d and refused %d; want 11 each, and 2", allowed, denied)
	}
}
