package leaseway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// rollout is a document with a rule for a share of its keys; the rest keep a limit of 10.
func rollout(percent string) string {
	return "rules: [{id: r, keyBy: user, limit: 5, window: 1h, rollout: " + percent + ", before: {limit: 10}}]"
}

// side finds a user who has the new version at a rollout, and one who does not.
func side(t *testing.T, doc string) (with, without string) {
	t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}

	r := set.Rules[0]

	for i := 0; with == "" || without == ""; i++ {
		user := fmt.Sprintf("user-%d", i)
		if r.For(user) == r {
			with = user
		} else {
			without = user
		}
	}

	return with, without
}

func TestARolloutGivesEachKeyItsVersion(t *testing.T) {
	l := newStepped(t, rollout("50"))
	with, without := side(t, rollout("50"))

	if d := l.Decide(t.Context(), leaseway.Request{User: with}); d.Limit != 5 || d.Quota != 5 {
		t.Errorf("the new version gave %+v", d)
	}

	if d := l.Decide(t.Context(), leaseway.Request{User: without}); d.Limit != 10 || d.Quota != 10 {
		t.Errorf("the version before gave %+v", d)
	}

	if n := l.allowed(20, leaseway.Request{User: with}); n != 4 {
		t.Errorf("%d more passed under the new version, want 4", n)
	}

	if n := l.allowed(20, leaseway.Request{User: without}); n != 9 {
		t.Errorf("%d more passed under the version before, want 9", n)
	}

	r, err := l.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	if d := r.Peek(with); d.Limit != 5 || d.Allowed {
		t.Errorf("the handle says %+v", d)
	}

	if d := r.Peek(without); d.Limit != 10 || d.Allowed {
		t.Errorf("the handle says %+v", d)
	}
}

// To move from one version to the other is an ordinary change of a limit: what is used stays used, both ways.
func TestAKeyThatMovesKeepsWhatItHasUsed(t *testing.T) {
	l := newStepped(t, rollout("0"))
	_, user := side(t, rollout("50"))
	req := leaseway.Request{User: user}

	if n := l.allowed(3, req); n != 3 {
		t.Fatalf("%d of 3 passed", n)
	}

	l.rules(rollout("50"))
	l.after(time.Second)

	if n := l.allowed(1, req); n != 1 {
		t.Fatal("a key that the rollout has not reached has another limit")
	}

	l.rules(rollout("100"))
	l.after(time.Second) // a lease is renewed under the new version

	if n := l.allowed(20, req); n != 1 {
		t.Errorf("%d more passed under the limit of 5, of which 4 were used, want 1", n)
	}

	l.rules(rollout("0"))
	l.after(time.Second)

	if n := l.allowed(20, req); n != 5 {
		t.Errorf("%d more passed under the limit of 10, of which 5 were used, want 5", n)
	}
}

func TestWithoutAVersionBeforeTheRuleDoesNotApply(t *testing.T) {
	const doc = "rules: [{id: r, keyBy: user, limit: 1, window: 1h, rollout: 50}, {id: all, limit: 1000, window: 1h}]"

	l := newStepped(t, doc)
	with, without := side(t, doc)

	if n := l.allowed(5, leaseway.Request{User: with}); n != 1 {
		t.Errorf("%d of 5 passed, want 1", n)
	}

	if d := l.Decide(t.Context(), leaseway.Request{User: without}); !d.Allowed || d.Rule != "all" {
		t.Errorf("got %+v", d)
	}

	r, err := l.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	if d := r.Take(without); !d.Allowed || d.Matched() {
		t.Errorf("the handle gave %+v", d)
	}

	if d := r.Peek(without); !d.Allowed || d.Matched() {
		t.Errorf("the handle gave %+v", d)
	}

	if k, known := r.Key(without); known {
		t.Errorf("a key that the rule does not apply to is remembered: %+v", k)
	}
}

// A mode is of the version, too: a rule may be enforced for a few, while all others try it out, or the other way around.
func TestVersionsMayDifferInMode(t *testing.T) {
	const doc = "rules: [{id: r, keyBy: user, limit: 1, window: 1h, rollout: 50, before: {mode: shadow}}]"

	l := newStepped(t, doc)
	with, without := side(t, doc)

	if n := l.allowed(3, leaseway.Request{User: with}); n != 1 {
		t.Errorf("%d of 3 passed where the rule is enforced, want 1", n)
	}

	if n := l.allowed(3, leaseway.Request{User: without}); n != 3 {
		t.Errorf("%d of 3 passed where it only watches, want all", n)
	}

	if d := l.Decide(t.Context(), leaseway.Request{User: without}); d.ShadowDenied != "r" {
		t.Errorf("got %+v", d)
	}
}

// A rule that blocks in shadow must not leave its key in the next rule's.
func TestABlockInShadowLeavesOtherKeysAlone(t *testing.T) {
	l := newStepped(t, "rules: [{id: b, keyBy: user, block: true, mode: shadow}, {id: r, keyBy: user, limit: 1, window: 1h}]")

	if !l.Decide(t.Context(), leaseway.Request{User: "ab"}).Allowed {
		t.Fatal("the first request was refused")
	}

	r, err := l.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	if d := r.Peek("ab"); d.Allowed {
		t.Errorf("the request was charged to another key: %+v", d)
	}
}

// Test mode has the version that live traffic of the same key has.
func TestTestModeIsOnTheSameSide(t *testing.T) {
	l := newStepped(t, rollout("50"))
	with, without := side(t, rollout("50"))

	for user, limit := range map[string]int64{with: 5, without: 10} {
		if d := l.Decide(t.Context(), leaseway.Request{User: user, Class: rule.ClassTest}); d.Limit != limit {
			t.Errorf("%s got %+v, want a limit of %d", user, d, limit)
		}
	}
}

// tallies are what the coordinator was told of requests under rollouts.
func (s *stepped) tallies() (list []ledger.Tally) {
	s.tb.Helper()

	all, _ := s.coordinator.Roster(10)
	for i := range all {
		list = append(list, all[i].Tallies...)
	}

	return list
}

// Holders tell how requests fare whose keys a rollout has reached: all of them, of those keys alone, under that version alone.
func TestRequestsUnderARolloutAreTold(t *testing.T) {
	l := newStepped(t, rollout("50"))
	with, _ := side(t, rollout("50"))
	set, others := l.book.Current(), 0

	told := func(when string, allowed, refused int64) {
		t.Helper()

		for range 50 { // refusals are counted when the key is next looked at, and told with the next ask of any key
			l.after(100 * time.Millisecond)

			for reached := true; reached; reached = set.Rule("r").For(fmt.Sprint("other-", others)) == set.Rule("r") {
				others++
			}

			l.Decide(t.Context(), leaseway.Request{User: fmt.Sprint("other-", others)})
		}

		r := l.book.Current().Rule("r")
		if got := l.tallies(); len(got) != 1 || got[0] != (ledger.Tally{Rule: "r", Version: r.Version, Allowed: allowed, Refused: refused}) {
			t.Errorf("%s: told %+v, want %d allowed and %d refused under version %d", when, got, allowed, refused, r.Version)
		}
	}

	told("before a key is reached", 0, 0)
	l.allowed(20, leaseway.Request{User: with})
	told("after five of twenty", 5, 15)

	for range 3 { // to look is no request, and tests have budgets of their own
		l.Decide(t.Context(), leaseway.Request{User: with, Peek: true})
		l.Decide(t.Context(), leaseway.Request{User: with, Class: rule.ClassTest})
	}

	told("after looks and tests", 5, 15)

	l.rules(rollout("60"))
	set = l.book.Current()

	told("under the next version", 0, 0)
	l.rules("rules: [{id: r, keyBy: user, block: true, rollout: 60, before: {limit: 10, window: 1h}}]")
	l.allowed(3, leaseway.Request{User: with})
	told("when it blocks", 0, 3)

	// A version that only watches refuses nobody.
	l.rules("rules: [{id: r, keyBy: user, mode: shadow, limit: 1, window: 1h, rollout: 60, before: {limit: 10}}]")
	l.allowed(3, leaseway.Request{User: with})
	l.after(5 * time.Second)

	if got := l.tallies(); len(got) != 1 || got[0].Version == l.book.Current().Rule("r").Version {
		t.Errorf("of a version that only watches it was told %+v", got)
	}
}

// What limits requests in flight is told of, too.
func TestSlotsUnderARolloutAreTold(t *testing.T) {
	const doc = "rules: [{id: r, algorithm: concurrency, keyBy: user, limit: 1, rollout: 50, before: {limit: 2}}]"

	l := newStepped(t, doc)
	with, without := side(t, doc)

	for _, user := range []string{with, with, with, without} {
		l.Decide(t.Context(), leaseway.Request{User: user, Finishes: true})
	}

	l.after(3 * time.Second)

	if got := l.tallies(); len(got) != 1 || got[0].Allowed != 1 || got[0].Refused != 2 {
		t.Errorf("told %+v, want 1 allowed and 2 refused", got)
	}
}
