package table_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// Without keys the wheel stands still, and the next key has it turn again: both for tokens and for slots.
func TestTheWheelRestsWithoutKeys(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ name, doc string }{
		{"tokens", "rules: [{id: r, keyBy: user, limit: 100, window: 1m}]"},
		{"slots", "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 10}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			r := newRig(t, 1, c.doc)

			synctest.Test(t, func(t *testing.T) {
				tb := table.New(r.coord, table.Config{})
				ctx, stop := context.WithCancel(t.Context())

				var work sync.WaitGroup

				work.Go(func() { tb.Run(ctx) })

				if err := tb.SetRules(r.book.Current()); err != nil {
					t.Fatal(err)
				}

				const leaves = 30 * time.Second // more than any key stays

				for round := range 3 {
					visit(ctx, tb, c.name)

					if got := tb.Stats().Keys; got != 1 {
						t.Fatalf("round %d: %d keys, want the one that was asked for", round, got)
					}

					time.Sleep(leaves)

					if got := tb.Stats().Keys; got != 0 {
						t.Fatalf("round %d: %d keys are still in the table: the wheel did not turn for them", round, got)
					}

					before := tb.Turned()

					time.Sleep(time.Minute)

					if n := tb.Turned() - before; n != 0 {
						t.Errorf("round %d: the wheel went on for %d slots without a key", round, n)
					}
				}

				stop()
				work.Wait()
			})
		})
	}
}

// visit has a key come, and leave what it was given.
func visit(ctx context.Context, tb *table.Table, kind string) {
	if kind == "slots" {
		hit := table.SlotHit{Rule: tb.Rule("r"), Key: "k", Cost: 1, Class: rule.ClassWrite}
		hit.Take(ctx)
		hit.Slot.Release()

		return
	}

	var out table.Outcome

	tb.Rule("r").Take(ctx, "k", 1, &out)
}
