package table_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/table"
)

const outageRules = `
rules:
  - {id: local, keyBy: user, limit: 100, window: 1s}
  - {id: fixed, keyBy: user, limit: 5, window: 60s, fallback: {limit: 3, window: 60s}}
  - {id: open, keyBy: user, limit: 5, window: 60s, onUnavailable: allow}
  - {id: closed, keyBy: user, limit: 5, window: 60s, onUnavailable: deny}
`

// While no coordinator answers, each rule's onUnavailable decides.
func TestAnOutageFollowsTheRule(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		id     string
		origin table.Origin
		passed int // of 200
		kind   table.Kind
	}{
		{"local", table.FromLocal, 80, table.OverLimit},
		{"fixed", table.FromLocal, 3, table.OverLimit},
		{"open", table.FromOpen, 200, table.Allowed},
		{"closed", table.FromClosed, 0, table.Unavailable},
	} {
		t.Run(c.id, func(t *testing.T) {
			t.Parallel()

			r := newRig(t, 1, outageRules)
			r.cut()

			if n := r.times(0, c.id, "k", 200); n != c.passed {
				t.Errorf("%d of 200 passed, want %d", n, c.passed)
			}

			if got := r.take(0, c.id, "k", 1); got.Kind != c.kind || got.Origin != c.origin || (c.kind != table.Allowed) != (got.RetryAfter > 0) {
				t.Errorf("%+v", got)
			}

			// One call failed; after it nobody tried again for every request.
			if n := r.holders[0].gate.calls.Load(); n > 2 {
				t.Errorf("%d calls to a coordinator that does not answer", n)
			}
		})
	}
}

// The lease is spent to its end first, and when the coordinator is back, what was admitted without it is owed.
func TestAfterAnOutageTheDebtIsPaid(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 100, window: 100s}]")

	r.times(0, "r", "k", 20)
	r.wait(2 * sec)
	r.cut()

	n := r.times(0, "r", "k", 200)
	if n < 60 || n > 80 {
		t.Fatalf("%d passed in the outage, want about 0.8 of what was left", n)
	}

	r.heal()
	r.wait(3 * sec) // a probe finds it, and the debt is reported

	// 100 in all since the start, and 5 refilled.
	if more := r.times(0, "r", "k", 200); 20+n+more > 105 {
		t.Errorf("%d passed before, %d in and %d after the outage: more than 105", 20, n, more)
	} else if 20+n+more < 103 {
		t.Errorf("only %d passed after the outage", more)
	}

	if s := r.holders[0].Stats(); s.Down {
		t.Error("still degraded")
	}
}

func TestAPanicInTheSourceIsAnOutage(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, outageRules)
	r.holders[0].gate.broken = true

	if n := r.times(0, "open", "k", 10); n != 10 {
		t.Errorf("%d of 10 passed", n)
	}

	if s := r.holders[0].Stats(); s.Panics == 0 {
		t.Error("the panic was not counted")
	}

	r.holders[0].gate.broken = false
	r.wait(2 * sec)

	// One request is still decided alone, and sends the ask that finds out.
	if got := r.take(0, "open", "k", 1); got.Origin != table.FromOpen {
		t.Errorf("%+v", got)
	}

	if n := r.times(0, "open", "k", 10); n != 5 {
		t.Errorf("%d of 10 passed afterwards, want 5", n)
	}
}

// hanging is a source that does not answer until its caller gives up.
type hanging struct{ table.Source }

func (hanging) Acquire(ctx context.Context, _ *ledger.Batch) (*ledger.Answers, error) {
	<-ctx.Done()

	return nil, ctx.Err()
}

// A request never waits longer than its deadline, and those after it do not wait at all.
func TestASlowSourceCostsTheDeadlineOnce(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 1000, window: 1s, onUnavailable: allow}]")
	tb := table.New(hanging{}, table.Config{Deadline: 10 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())

	var work sync.WaitGroup

	work.Go(func() { tb.Run(ctx) })

	if err := tb.SetRules(r.book.Current()); err != nil {
		t.Fatal(err)
	}

	var out table.Outcome

	began := time.Now()

	for range 1000 {
		tb.Rule("r").Take(ctx, "k", 1, &out)

		if out.Kind != table.Allowed || out.Origin != table.FromOpen {
			t.Fatalf("%+v", out)
		}
	}

	// A thousand deadlines would be ten seconds.
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("1,000 requests took %v", took)
	}

	stop()
	work.Wait()
}

// distant is a source that fails at first, and then takes its time.
type distant struct {
	table.Source

	failed atomic.Bool
	takes  time.Duration
}

func (d *distant) Acquire(ctx context.Context, b *ledger.Batch) (*ledger.Answers, error) {
	if !d.failed.Swap(true) {
		return nil, errDown
	}

	timer := time.NewTimer(d.takes)
	defer timer.Stop()

	select {
	case <-timer.C:
		return d.Source.Acquire(ctx, b)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// In an outage nobody waits for the ask that looks for its end, so an answer that takes longer than a request's
// deadline ends it all the same.
func TestASlowAnswerEndsAnOutage(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 1000, window: 1s, onUnavailable: allow}]")

	synctest.Test(t, func(t *testing.T) {
		tb := table.New(&distant{Source: r.coord, takes: 300 * time.Millisecond}, table.Config{})
		ctx, stop := context.WithCancel(t.Context())

		var work sync.WaitGroup

		work.Go(func() { tb.Run(ctx) })

		if err := tb.SetRules(r.book.Current()); err != nil {
			t.Fatal(err)
		}

		pause := time.NewTicker(10 * time.Millisecond)
		defer pause.Stop()

		var out table.Outcome

		tb.Rule("r").Take(ctx, "k", 1, &out)

		if !tb.Down() {
			t.Error("a call that failed made no outage")
		}

		began := time.Now()
		for tb.Down() && time.Since(began) < 5*time.Second {
			<-pause.C
			tb.Rule("r").Take(ctx, "k", 1, &out)
		}

		if took := time.Since(began); took > time.Second {
			t.Errorf("after %v it is still an outage", took)
		}

		stop()
		work.Wait()
	})
}

// Many goroutines, two keys, a source that fails every other call: counts add up and nothing hangs.
func TestManyGoroutinesOverAFlakySource(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 1, window: 1h, burst: 500, fallback: {limit: 1, window: 366d}}]")
	src := &flaky{Source: r.coord}
	tb := table.New(src, table.Config{})
	ctx, stop := context.WithCancel(t.Context())

	var run, work sync.WaitGroup

	run.Go(func() { tb.Run(ctx) })

	if err := tb.SetRules(r.book.Current()); err != nil {
		t.Fatal(err)
	}

	var (
		mu     sync.Mutex
		counts = map[table.Origin]int{}
	)

	for g := range 100 {
		work.Go(func() {
			var out table.Outcome

			for range 100 {
				tb.Rule("r").Take(ctx, []string{"a", "b"}[g%2], 1, &out)

				if out.Kind == table.Allowed {
					mu.Lock()
					counts[out.Origin]++
					mu.Unlock()
				}
			}
		})
	}

	work.Wait()

	if n := counts[table.FromLease] + counts[table.FromStore]; n > 1000 || n == 0 {
		t.Errorf("%d passed with a coordinator, of at most 1,000: %v", n, counts)
	}

	if n := counts[table.FromLocal]; n > 2 {
		t.Errorf("%d passed without one, of at most one a key", n)
	}

	if err := tb.Close(t.Context()); err != nil {
		t.Error(err)
	}

	stop()
	run.Wait()
}

type flaky struct {
	table.Source

	mu sync.Mutex
	n  int
}

func (f *flaky) Acquire(ctx context.Context, b *ledger.Batch) (*ledger.Answers, error) {
	f.mu.Lock()
	f.n++
	fail := f.n%2 == 0
	f.mu.Unlock()

	a, err := f.Source.Acquire(ctx, b)
	if fail {
		return nil, errDown // it was applied, and the answer is lost
	}

	return a, err
}

// What was admitted without a coordinator can be refunded when there is one
// again, and the ledger has been told of it.
func TestARefundAfterAnOutage(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 100, window: 1h}]")
	r.cut()

	out := r.take(0, "a", "k", 40)
	if out.Kind != table.Allowed || out.Origin != table.FromLocal {
		t.Fatalf("without a coordinator: %+v", out)
	}

	r.heal()
	r.wait(sec)
	r.take(0, "a", "other", 1) // finds out that it answers
	r.wait(sec)

	if got := r.peek(0, "a", "k"); got.Remaining != 60 {
		t.Fatalf("%d of 100 remain after 40, want 60", got.Remaining)
	}

	r.holders[0].Refund(out.Charge)
	r.wait(sec)

	if got := r.peek(0, "a", "k"); got.Remaining != 100 {
		t.Errorf("%d of 100 remain after the refund, want all", got.Remaining)
	}
}
