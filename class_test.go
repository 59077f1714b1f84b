package leaseway_test

import (
	"testing"
	"testing/synctest"

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

// A handle of a class stands in a queue by it, and its decisions say so.
func TestAHandleOfAClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := embedded(t, "rules: [{id: r, algorithm: concurrency, limit: 1, queue: {size: 3, wait: 1m}}, {id: rate, limit: 5, window: 1h}]")

		r, err := l.Rule("r")
		if err != nil {
			t.Fatal(err)
		}

		first := r.Take("")
		served := make(chan rule.Class, 3)

		for _, class := range []rule.Class{rule.ClassRead, rule.ClassUnset, rule.ClassCritical} {
			go func() {
				d := r.As(class).Take("")
				served <- d.Class

				l.Done(d)
			}()

			synctest.Wait() // it stands in line
		}

		if d := r.As(rule.ClassTest).Take(""); !d.Allowed || d.Class != rule.ClassTest {
			t.Errorf("a test, with slots of its own, got %+v", d)
		} else {
			l.Done(d)
		}

		l.Done(first)

		for _, want := range []rule.Class{rule.ClassCritical, rule.ClassUnset, rule.ClassRead} {
			if got := <-served; got != want {
				t.Errorf("served %v, want %v", got, want)
			}
		}

		rates, err := l.Rule("rate")
		if err != nil {
			t.Fatal(err)
		}

		for range 2 { // slowly at first, then from memory
			if d := rates.As(rule.ClassCritical).Take("k"); !d.Allowed || d.Class != rule.ClassCritical {
				t.Errorf("got %+v", d)
			}
		}

		if d := rates.As(rule.ClassRead).Peek("k"); d.Class != rule.ClassRead || d.Remaining != 3 {
			t.Errorf("a look got %+v: only test has budgets of its own", d)
		}
	})
}
