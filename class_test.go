package leaseway_test

import (
	"testing"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

const classDocument = `
rules: [{id: r, keyBy: apikey, limit: 2, window: 1h}]
classes: [{class: test, apikeyPrefix: sk_test_}]
`

func TestDecisionsSayTheClass(t *testing.T) {
	l := embedded(t, classDocument)

	for _, row := range []struct {
		req  leaseway.Request
		want rule.Class
	}{
		{leaseway.Request{Method: "GET"}, rule.ClassRead},
		{leaseway.Request{Method: "POST"}, rule.ClassWrite},
		{leaseway.Request{APIKey: "sk_test_1"}, rule.ClassTest},
		{leaseway.Request{Method: "GET", Class: rule.ClassCritical}, rule.ClassCritical},
		{leaseway.Request{Method: "POST", LowerTo: rule.ClassRead}, rule.ClassRead},
		{leaseway.Request{Method: "GET", LowerTo: rule.ClassCritical}, rule.ClassRead},
	} {
		if got := l.Decide(t.Context(), row.req).Class; got != row.want {
			t.Errorf("%+v is %v, want %v", row.req, got, row.want)
		}
	}
}

// To say of oneself that one only tests must not be a way to a second budget.
func TestLoweringOpensNoOtherBudget(t *testing.T) {
	l := embedded(t, classDocument)
	req := leaseway.Request{APIKey: "k"}

	for range 2 {
		if d := l.Decide(t.Context(), req); !d.Allowed {
			t.Fatalf("got %+v", d)
		}
	}

	req.LowerTo = rule.ClassTest
	if d := l.Decide(t.Context(), req); d.Allowed || d.Class != rule.ClassTest {
		t.Errorf("a lowered request got %+v, want a refusal", d)
	}
}

func TestTestModeHasItsOwnBudgetAndCounts(t *testing.T) {
	l := embedded(t, classDocument)

	r, err := l.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	var refund leaseway.Decision

	for i := range 3 {
		refund = l.Decide(t.Context(), leaseway.Request{APIKey: "k", Class: rule.ClassTest})
		if refund.Allowed != (i < 2) {
			t.Errorf("request %d in test mode got %+v", i, refund)
		}
	}

	if d := r.Test().Take("k"); d.Allowed {
		t.Errorf("the handle of test mode got %+v of a budget that is used up", d)
	}

	if d := r.Take("k"); !d.Allowed || d.Remaining != 1 {
		t.Errorf("live traffic got %+v", d)
	}

	if got := r.Test().Test().Peek("k"); got.Allowed {
		t.Errorf("test mode of test mode is %+v", got)
	}

	var live, test leaseway.RuleStats

	for _, s := range l.Stats().Rules {
		if s.Test {
			test = s
		} else {
			live = s
		}
	}

	if sum(live.Allowed) != 1 || sum(live.Denied) != 0 || sum(test.Allowed) != 2 || sum(test.Denied) != 2 || test.ID != "r" {
		t.Errorf("counted %+v, and in test mode %+v", live, test)
	}
}

func sum(counts [6]int64) (n int64) {
	for _, c := range counts {
		n += c
	}

	return n
}

// A rule that goes and comes back takes its test mode with it.
func TestTestModeFollowsTheRule(t *testing.T) {
	l := newStepped(t, classDocument)
	req := leaseway.Request{APIKey: "sk_test_1"}

	if d := l.Decide(t.Context(), req); d.Limit != 2 {
		t.Fatalf("got %+v", d)
	}

	r, err := l.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	test := r.Test()

	l.rules("rules: []")

	if d := test.Take("sk_test_1"); !d.Allowed || d.Matched() {
		t.Errorf("a rule that is gone gave %+v", d)
	}

	l.rules("rules: [{id: r, keyBy: apikey, limit: 5, window: 1h}]\nclasses: [{class: test, apikeyPrefix: sk_test_}]")

	if d := l.Decide(t.Context(), req); d.Limit != 5 {
		t.Errorf("got %+v", d)
	}
}
