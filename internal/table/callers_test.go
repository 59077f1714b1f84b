package table_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// A rule that is taken away and comes back is the one that programs hold: a key
// never has two leases in one process. While it is away everything passes.
func TestARuleThatComesBackIsTheSame(t *testing.T) {
	t.Parallel()

	const with, without = "rules: [{id: r, keyBy: user, limit: 100, window: 1h}, {id: s, limit: 1, window: 1s}]", "rules: [{id: s, limit: 1, window: 1s}]"

	r := newRig(t, 1, with)
	held := r.holders[0].Rule("r")

	r.times(0, "r", "k", 30)
	r.wait(sec) // what is idle has come back; a coordinator that knows the rule no more takes nothing back
	r.apply(without)

	var out table.Outcome

	held.Take(t.Context(), "k", 1, &out)

	if out.Kind != table.Allowed || out.Origin != table.FromNone {
		t.Errorf("while the rule is away: %+v", out)
	}

	if r.holders[0].Rule("r") != nil {
		t.Error("the rule can be found while it is away")
	}

	r.wait(sec)
	r.apply(with)

	if r.holders[0].Rule("r") != held {
		t.Fatal("it came back as another one")
	}

	if n := r.times(0, "r", "k", 200); n != 70 {
		t.Errorf("%d passed after it came back, want 70", n)
	}
}

// stuck is a source that answers when it is told to.
type stuck struct {
	table.Source

	release chan struct{}
}

func (s stuck) Acquire(ctx context.Context, b *ledger.Batch) (*ledger.Answers, error) {
	select {
	case <-s.release:
		return s.Source.Acquire(ctx, b)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func running(t *testing.T, r *rig, src table.Source, deadline time.Duration) *table.Table {
	t.Helper()

	tb := table.New(src, table.Config{Deadline: deadline})
	ctx, stop := context.WithCancel(context.Background())

	var work sync.WaitGroup

	work.Go(func() { tb.Run(ctx) })
	t.Cleanup(func() {
		stop()
		work.Wait()
	})

	if err := tb.SetRules(r.book.Current()); err != nil {
		t.Fatal(err)
	}

	return tb
}

// Whoever goes away before the answer is refused, not let through by a local limit or for free.
func TestWhoGoesAwayDoesNotPass(t *testing.T) {
	t.Parallel()

	for _, policy := range []string{"local", "allow", "deny"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()

			r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 100, window: 1h, onUnavailable: "+policy+"}, {id: s, keyBy: user, limit: 100, window: 1h, onUnavailable: "+policy+"}]")
			src := stuck{r.coord, make(chan struct{})}
			tb := running(t, r, src, time.Minute)
			gone, leave := context.WithCancel(t.Context())
			leave()

			var out table.Outcome

			tb.Rule("r").Take(gone, "k", 1, &out)

			if out.Kind != table.Unavailable || out.Origin != table.FromClosed || out.RetryAfter <= 0 {
				t.Errorf("one rule: %+v", out)
			}

			hits := []table.Hit{{Rule: tb.Rule("r"), Key: "x", Cost: 1}, {Rule: tb.Rule("s"), Key: "x", Cost: 1}}
			if worst := tb.TakeAll(gone, hits); worst < 0 || hits[worst].Out.Kind != table.Unavailable {
				t.Errorf("two rules: %d, %+v", worst, hits)
			}

			close(src.release)
		})
	}
}

// All rules of a request wait together: one deadline, not one for each.
func TestSeveralRulesShareOneDeadline(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, `
rules:
  - {id: a, keyBy: user, limit: 5, window: 1h, onUnavailable: allow}
  - {id: b, keyBy: user, algorithm: sliding_log, limit: 5, window: 1h, onUnavailable: allow}
  - {id: c, keyBy: user, algorithm: leaky_bucket, limit: 5, window: 1h, onUnavailable: allow}
  - {id: d, keyBy: user, algorithm: sliding_log, limit: 5, window: 1h, onUnavailable: allow}
`)

	synctest.Test(t, func(t *testing.T) {
		const deadline = 200 * time.Millisecond

		tb := running(t, r, stuck{r.coord, make(chan struct{})}, deadline)

		var hits []table.Hit
		for _, id := range []string{"a", "b", "c", "d"} {
			hits = append(hits, table.Hit{Rule: tb.Rule(id), Key: "k", Cost: 1})
		}

		began := time.Now()

		if worst := tb.TakeAll(t.Context(), hits); worst >= 0 {
			t.Fatalf("refused by %q: %+v", hits[worst].Rule.ID(), hits[worst].Out)
		}

		if took := time.Since(began); took != deadline {
			t.Errorf("it took %v", took)
		}
	})
}

// A bug in what runs in the background is an outage, not the end of the process.
func TestAPanicInTheBackgroundIsAnOutage(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 5, window: 1h, onUnavailable: allow}]")
	tb := running(t, r, short{}, time.Second)

	var out table.Outcome

	tb.Rule("r").Take(t.Context(), "k", 1, &out)

	if out.Kind != table.Allowed || out.Origin != table.FromOpen {
		t.Errorf("%+v", out)
	}

	if s := tb.Stats(); s.Panics == 0 && s.Failed == 0 {
		t.Errorf("nothing was counted: %+v", s)
	}
}

// short answers with nothing, which only a bug would.
type short struct{}

func (short) Acquire(context.Context, *ledger.Batch) (*ledger.Answers, error) {
	return nil, nil //nolint:nilnil // the bug
}

func (short) Watch(context.Context, uint64, func(*rule.Set) error) error {
	return errors.New("no rules here")
}
