package leaseway_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

const edgeRule = "rules: [{id: r, scope: {domain: edge}, limit: 1, window: 1h, onUnavailable: deny}]\n"

// limited is a request that brings its limit along.
func limited(requests int64, window time.Duration) leaseway.Request {
	return leaseway.Request{
		Domain: "edge", Entries: []rule.Entry{{Key: "user", Value: "ada"}}, Limit: &leaseway.RequestLimit{Requests: requests, Window: window},
	}
}

func TestALimitThatARequestBringsDecidesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := embedded(t, edgeRule)

		for _, limit := range []leaseway.Request{limited(3, time.Minute), limited(5, time.Minute), limited(3, time.Hour)} {
			for n := range limit.Limit.Requests + 2 {
				d := l.Decide(t.Context(), limit)
				if want := n < limit.Limit.Requests; d.Allowed != want || d.Limit != limit.Limit.Requests || d.Quota != d.Limit ||
					d.Window != limit.Limit.Window || d.Rule != rule.RequestLimitID {
					t.Fatalf("%+v: request %d: %+v, want allowed: %v", *limit.Limit, n, d, want)
				}
			}
		}

		time.Sleep(time.Minute)

		if d := l.Decide(t.Context(), limited(3, time.Minute)); !d.Allowed || d.Remaining != 2 {
			t.Errorf("the next window: %+v", d)
		}

		if d := l.Decide(t.Context(), limited(0, time.Minute)); d.Allowed || d.Reason != leaseway.ReasonBlocked || d.RetryAfter != 0 {
			t.Errorf("a limit of 0: %+v", d)
		}

		for _, none := range []leaseway.Request{limited(-1, time.Minute), limited(5, 0)} {
			if d := l.Decide(t.Context(), none); d.Rule != "r" {
				t.Errorf("%+v is no limit, and got %+v", *none.Limit, d)
			}
		}

		look := limited(3, time.Minute)
		look.Peek = true

		for range 9 {
			if d := l.Decide(t.Context(), look); !d.Allowed || d.Remaining != 2 {
				t.Errorf("a look: %+v", d)
			}
		}

		l.Refund(l.Decide(t.Context(), limited(3, time.Minute)))

		if d := l.Decide(t.Context(), look); d.Remaining != 2 {
			t.Errorf("after a refund %d are left, want 2", d.Remaining)
		}

		test := limited(1, time.Minute)
		test.Class = rule.ClassTest
		live := limited(1, time.Minute)

		for i, req := range []leaseway.Request{test, live} {
			if d := l.Decide(t.Context(), req); !d.Allowed {
				t.Errorf("request %d, of another class: %+v", i, d)
			}
		}
	})
}

func TestABroughtLimitIsSharedByTheFleet(t *testing.T) {
	f := newFleet(t, edgeRule, 2, leaseway.WithDeadline(30*time.Second))
	allowed := 0

	for i := range 20 {
		if f.holders[i%2].Decide(t.Context(), limited(7, 24*time.Hour)).Allowed {
			allowed++
		}
	}

	if allowed != 7 {
		t.Errorf("two servers admitted %d, want 7", allowed)
	}
}

func TestABroughtLimitAmongOthersIsAllOrNothing(t *testing.T) {
	l := embedded(t, edgeRule)
	two := []leaseway.Request{limited(5, time.Hour), limited(1, time.Hour)}

	for i, want := range []bool{true, false, false} {
		got := l.DecideTogether(t.Context(), two, nil)
		if !got[0].Allowed || got[1].Allowed != want || got[0].Remaining != 4 {
			t.Errorf("time %d: %+v and %+v", i, got[0], got[1])
		}
	}
}

func TestKillSwitchesAndStatsKnowBroughtLimits(t *testing.T) {
	l := newStepped(t, edgeRule)

	if got := l.allowed(5, limited(2, time.Hour)); got != 2 {
		t.Fatalf("%d of 5 passed, want 2", got)
	}

	l.rules(edgeRule + "switches: {limiters: {rate: {off: true}}}")

	if got := l.allowed(5, limited(2, time.Hour)); got != 5 {
		t.Errorf("%d of 5 passed while rates are switched off, want all", got)
	}

	l.rules(edgeRule)

	if got := l.allowed(5, limited(2, time.Hour)); got != 0 {
		t.Errorf("%d of 5 passed when they are on again, want none", got)
	}

	for _, s := range l.Stats().Rules {
		if s.ID == rule.RequestLimitID {
			if sum(s.Allowed) != 2 || sum(s.Denied) != 8 || s.Passed != 5 {
				t.Errorf("counted %+v, want 2 allowed, 8 refused, 5 passed", s)
			}

			return
		}
	}

	t.Error("the statistics say nothing of it")
}
