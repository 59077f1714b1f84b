package table_test

import (
	"context"
	"testing"

	"github.com/leaseway/leaseway/internal/table"
)

// A request that was held up between reading the tick and spending does not date
// its spending back to that tick.
func TestAStaleTickTurnsNothing(t *testing.T) {
	t.Parallel()

	r := newRig(t, 0, "rules: [{id: r, keyBy: user, limit: 10000, window: 1s}]")
	clock := table.NewDrivenClock(func() int64 { return r.now })
	h := table.New(struct{ table.Source }{r.coord}, table.Config{Clock: clock, Inline: true})

	if err := h.SetRules(r.book.Current()); err != nil {
		t.Fatal(err)
	}

	rl := h.Rule("r")
	take := func() {
		var out table.Outcome

		rl.Take(context.Background(), "k", 1, &out)

		if out.Kind != table.Allowed {
			t.Fatalf("%+v", out)
		}
	}

	for range 50 {
		r.now += 3 * ms

		take()
	}

	stale := clock.TickNow()
	r.now += 2 * ms

	clock.Tick()
	take()

	if now := clock.TickNow(); now == stale || !rl.QuickTurn("k", now) {
		t.Fatalf("the lease does not go on in the present tick %d", now)
	}

	if rl.QuickTurn("k", stale) {
		t.Error("spending now is dated to a tick that is over")
	}
}
