package leaseway_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
)

// Two budgets of which one is used up: what the other has left stays as it is, whoever refuses, and however often.
func TestDecideTogetherChargesAllOrNone(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window"} {
		synctest.Test(t, func(t *testing.T) {
			l := embedded(t, `rules:
  - {id: user, scope: {descriptors: {kind: user}}, keyBy: descriptor:name, algorithm: `+algorithm+`, limit: 5, window: 1h}
  - {id: site, scope: {descriptors: {kind: site}}, keyBy: descriptor:name, algorithm: `+algorithm+`, limit: 2, window: 1h}
  - {id: slots, scope: {descriptors: {kind: slot}}, algorithm: concurrency, limit: 1}
  - {id: dark, scope: {descriptors: {kind: user}}, mode: shadow, algorithm: `+algorithm+`, limit: 3, window: 1h}`)

			of := func(kind, name string) leaseway.Request {
				return leaseway.Request{Descriptors: map[string]string{"kind": kind, "name": name}}
			}
			step := func(place string, want []bool, remaining []int64, reqs ...leaseway.Request) {
				t.Helper()

				got := l.DecideTogether(t.Context(), reqs, nil)
				for i, d := range got {
					if d.Allowed != want[i] || d.Remaining != remaining[i] {
						t.Errorf("%s, %s: request %d: allowed %v, %d left by %q, want %v, %d",
							algorithm, place, i, d.Allowed, d.Remaining, d.Rule, want[i], remaining[i])
					}

					l.Done(d)
				}
			}
			pass := []bool{true, true}

			step("both", pass, []int64{4, 1}, of("user", "ada"), of("site", "a"))
			step("both, in the other order", pass, []int64{0, 3}, of("site", "a"), of("user", "ada"))

			for range 9 {
				step("the second refuses", []bool{true, false}, []int64{3, 0}, of("user", "ada"), of("site", "a"))
				step("the first refuses", []bool{false, true}, []int64{0, 3}, of("site", "a"), of("user", "ada"))
			}

			look := of("user", "ada")
			look.Peek = true

			step("one only looks", pass, []int64{3, 1}, look, of("site", "b"))
			step("nobody is subject to a rule", pass, []int64{0, 0}, of("none", ""), of("none", ""))
			step("one budget, twice", pass, []int64{1, 1}, of("user", "ada"), of("user", "ada"))
			step("a slot and a budget", pass, []int64{0, 0}, of("slot", ""), of("user", "ada"))
			step("a slot that comes back", []bool{true, false}, []int64{1, 0}, of("slot", ""), of("user", "ada"))
			step("and is there", []bool{true, true}, []int64{0, 4}, of("slot", ""), of("user", "eve"))

			bad := of("user", "eve")
			bad.Cost = -1

			step("one is no request", []bool{false, true}, []int64{0, 4}, bad, of("user", "eve"))
		})
	}
}

// A refund gives each budget back once, also one that two of the requests share.
func TestRefundOfRequestsDecidedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := embedded(t, "rules: [{id: user, keyBy: user, limit: 10, window: 1h}]")
		ada, eve := leaseway.Request{User: "ada", Cost: 3}, leaseway.Request{User: "eve"}

		for range 20 {
			for _, d := range l.DecideTogether(context.Background(), []leaseway.Request{ada, eve, ada}, nil) {
				if !d.Allowed {
					t.Fatalf("refused: %+v", d)
				}

				l.Refund(d)
			}

			time.Sleep(10 * time.Millisecond) // refunds leave with the next tick
		}
	})
}

// Together, too, a request that will be over counts in the fleet, and is refused when that is full: then none of them is in flight.
func TestTheFleetShedderDecidesTogether(t *testing.T) {
	l := embedded(t, "{rules: [], shedders: {fleet: {capacity: 5}}}") // four may be reads

	reads := func(n int) []leaseway.Request {
		return slices.Repeat([]leaseway.Request{{Method: "GET", Finishes: true}}, n)
	}

	for range 3 {
		if ds := l.DecideTogether(t.Context(), reads(5), nil); ds[4].Allowed || ds[4].Reason != leaseway.ReasonShedFleet {
			t.Fatalf("the fifth of five got %+v", ds[4])
		}

		ds := l.DecideTogether(t.Context(), reads(4), nil)
		for i, d := range ds {
			if !d.Allowed || !d.HoldsSlot() {
				t.Errorf("request %d of four got %+v", i, d)
			}
		}

		if d := l.Decide(t.Context(), reads(1)[0]); d.Allowed {
			t.Error("a fifth is in flight")
		}

		for _, d := range ds {
			l.Done(d)
		}
	}
}

func TestDecideEachChargesWhatPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := embedded(t, "rules: [{id: r, keyBy: user, limit: 1, window: 1h}]")
		reqs := []leaseway.Request{{User: "a"}, {User: "a"}, {User: "b"}, {User: "c", Cost: -1}, {User: "c", Peek: true}}

		got := l.DecideEach(t.Context(), reqs, make([]leaseway.Decision, 1))[1:]
		for i, want := range []leaseway.Reason{
			leaseway.ReasonNone, leaseway.ReasonOverLimit, leaseway.ReasonNone, leaseway.ReasonInvalid, leaseway.ReasonNone,
		} {
			if d := got[i]; d.Reason != want || d.Allowed != (want == leaseway.ReasonNone) {
				t.Errorf("request %d: %+v, want the reason %q", i, d, want)
			}
		}
	})
}

// Of two rules that refuse, a decision speaks of the one that waiting never helps, in whatever order they are.
func TestARefusalSpeaksOfTheLongestWait(t *testing.T) {
	wait, never := "{id: wait, keyBy: user, limit: 9, window: 1h}", "{id: never, keyBy: user, limit: 4, window: 1s}"

	for _, rules := range []string{wait + ", " + never, never + ", " + wait} {
		synctest.Test(t, func(t *testing.T) {
			l := embedded(t, "rules: ["+rules+"]")

			wait, err := l.Rule("wait")
			if err != nil {
				t.Fatal(err)
			}

			if d := wait.TakeN("ada", 9); !d.Allowed {
				t.Fatalf("%+v", d)
			}

			req := leaseway.Request{User: "ada", Cost: 5}

			for how, d := range map[string]leaseway.Decision{
				"alone":    l.Decide(t.Context(), req),
				"together": l.DecideTogether(t.Context(), []leaseway.Request{req, {User: "eve"}}, nil)[0],
			} {
				if d.Allowed || d.Rule != "never" || d.Reason != leaseway.ReasonCostExceedsLimit || d.RetryAfter != 0 {
					t.Errorf("%s: by %q, %q, again in %v; want by never, for ever", how, d.Rule, d.Reason, d.RetryAfter)
				}
			}
		})
	}
}
