package table_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway/internal/table"
)

// Once a request has waited for an answer in vain, the next ones of its key are decided at once while that call is still under way:
// each would wait for its deadline otherwise, for as long as the call may take.
func TestNobodyWaitsForAnAnswerThatIsLate(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 100, window: 1h, onUnavailable: allow}, {id: s, keyBy: user, limit: 100, window: 1h, onUnavailable: allow}]")

	synctest.Test(t, func(t *testing.T) {
		const deadline = 200 * time.Millisecond

		tb := running(t, r, stuck{r.coord, make(chan struct{})}, deadline)
		took := func(decide func() table.Outcome) time.Duration {
			began := time.Now()

			if out := decide(); out.Kind != table.Allowed || out.Origin != table.FromOpen {
				t.Errorf("%+v", out)
			}

			return time.Since(began)
		}
		one := func() (out table.Outcome) {
			tb.Rule("r").Take(t.Context(), "k", 1, &out)

			return out
		}
		several := func() table.Outcome {
			hits := []table.Hit{{Rule: tb.Rule("r"), Key: "k", Cost: 1}, {Rule: tb.Rule("s"), Key: "k", Cost: 1}}
			tb.TakeAll(t.Context(), hits)

			return hits[0].Out
		}

		if d := took(several); d != deadline {
			t.Errorf("the first request waited for %v, want its deadline of %v", d, deadline)
		}

		<-time.After(time.Millisecond)

		if a, b := took(one), took(several); a != 0 || b != 0 || tb.Down() {
			t.Errorf("while the answer is late, a request waited for %v, and one under two rules for %v; an outage: %v", a, b, tb.Down())
		}
	})
}

// brokenContext is a context of somebody else, with a bug that shows when an answer is awaited: by then the answer has come.
type brokenContext struct {
	context.Context //nolint:containedctx // it stands for one

	answer chan struct{}
}

func (h brokenContext) Done() <-chan struct{} {
	close(h.answer)
	synctest.Wait()

	panic("a bug in a context")
}

// What the store took for a request that never came to use it is owed back.
func TestARequestThatPanicsIsNotCharged(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, algorithm: sliding_log, limit: 10, window: 1h}]")

	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		tb := running(t, r, stuck{r.coord, answer}, time.Minute)

		var out table.Outcome

		func() {
			defer func() {
				if recover() == nil {
					t.Error("the context was not asked, so this shows nothing")
				}
			}()

			tb.Rule("r").Take(brokenContext{t.Context(), answer}, "k", 10, &out)
		}()

		<-time.After(time.Second) // by then the store has heard of it

		tb.Rule("r").Take(t.Context(), "k", 10, &out)

		if out.Kind != table.Allowed {
			t.Errorf("ten of ten, after a request for ten that did not come to use them: %+v", out)
		}
	})
}

// The same for one whose client went away before the answer came.
func TestARequestThatLeavesIsNotCharged(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, algorithm: sliding_log, limit: 10, window: 1h}]")

	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		tb := running(t, r, stuck{r.coord, answer}, time.Minute)
		ctx, leave := context.WithCancel(t.Context())

		var out table.Outcome

		go func() {
			synctest.Wait() // until the call is under way
			leave()
		}()

		tb.Rule("r").Take(ctx, "k", 10, &out)

		if out.Kind != table.Unavailable {
			t.Errorf("who left got %+v", out)
		}

		close(answer)
		<-time.After(time.Second) // by then the store has heard of it

		tb.Rule("r").Take(t.Context(), "k", 10, &out)

		if out.Kind != table.Allowed {
			t.Errorf("ten of ten, after a request for ten that went away: %+v", out)
		}
	})
}

// A bug under one of several rules is at nobody's cost: what was leased or taken under the rules before it comes back.
func TestAPanicUnderSeveralRulesChargesNone(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, `
rules:
  - {id: bucket, keyBy: user, limit: 10, window: 1h}
  - {id: log, keyBy: user, algorithm: sliding_log, limit: 10, window: 1h}
  - {id: leaky, keyBy: user, algorithm: leaky_bucket, limit: 10, window: 1h}
`)

	var tb *table.Stepped

	waits, broken := 0, 3 // the rule that is asked last
	tb = table.NewStepped(r.coord, table.Config{Clock: table.NewVirtualClock(rigStart)}, func(int64) {
		waits++

		if waits == broken {
			panic("a bug")
		}

		tb.Fly()
	})

	if err := tb.SetRules(r.book.Current()); err != nil {
		t.Fatal(err)
	}

	func() {
		defer func() {
			if recover() == nil {
				t.Fatalf("there was no bug in %d waits, so this shows nothing", waits)
			}
		}()

		tb.TakeAll(t.Context(), []table.Hit{
			{Rule: tb.Rule("bucket"), Key: "k", Cost: 7}, {Rule: tb.Rule("log"), Key: "k", Cost: 7}, {Rule: tb.Rule("leaky"), Key: "k", Cost: 7},
		})
	}()

	for _, id := range []string{"bucket", "log"} {
		var out table.Outcome

		tb.Rule(id).Take(t.Context(), "k", 10, &out)

		if out.Kind != table.Allowed {
			t.Errorf("%s: ten of ten, after a request for seven that had a bug: %+v", id, out)
		}
	}
}
