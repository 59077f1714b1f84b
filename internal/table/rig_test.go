package table_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ms  = int64(1_000)
	sec = int64(1_000_000)

	rigStart = int64(1_000_000_000) // not at a window's edge: 40 s into a minute
)

// rig is a few holders over one coordinator with a memory store, in virtual time.
type rig struct {
	t       *testing.T
	now     int64
	book    *coordinator.Book
	coord   *coordinator.Coordinator
	holders []*holderRig

	storeAhead int64 // by how much the store's clock is wrong, µs
}

// holderRig is one table, and the gate between it and the coordinator.
type holderRig struct {
	*table.Table

	clock *table.Clock
	gate  *gate
	skew  int64 // by how much its clock is wrong, µs
}

// gate passes calls on to the real coordinator, unless it is told to fail.
type gate struct {
	table.Source

	err    error
	broken bool // panics
	calls  atomic.Int64
}

func (g *gate) Acquire(ctx context.Context, b *ledger.Batch) (*ledger.Answers, error) {
	g.calls.Add(1)

	if g.broken {
		panic("a bug in the source")
	}

	if g.err != nil {
		return nil, g.err
	}

	return g.Source.Acquire(ctx, b)
}

var errDown = errors.New("connection refused")

func newRig(t *testing.T, holders int, doc string) *rig {
	t.Helper()

	r := &rig{t: t, now: rigStart, book: coordinator.NewBook(nil)}

	store, err := memory.New(memory.Config{Clock: func() int64 { return r.now + r.storeAhead }})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = store.Close(context.Background()) })

	if r.coord, err = coordinator.New(coordinator.Config{
		Store: store, Book: r.book, Clock: func() time.Time { return time.UnixMicro(r.now) },
	}); err != nil {
		t.Fatal(err)
	}

	for range holders {
		r.add(table.Config{})
	}

	r.apply(doc)

	return r
}

// add adds a holder, under the rules in force if there are any.
func (r *rig) add(cfg table.Config) {
	r.t.Helper()

	h := &holderRig{clock: table.NewVirtualClock(r.now), gate: &gate{Source: r.coord}}
	cfg.Clock, cfg.Inline = h.clock, true
	h.Table = table.New(h.gate, cfg)
	r.holders = append(r.holders, h)

	if err := h.SetRules(r.book.Current()); err != nil {
		r.t.Fatal(err)
	}
}

// apply puts rules in force everywhere at once.
func (r *rig) apply(doc string) {
	r.t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(doc))
	if err != nil {
		r.t.Fatal(err)
	}

	if _, err := r.book.Apply(set); err != nil {
		r.t.Fatal(err)
	}

	for _, h := range r.holders {
		if err := h.SetRules(r.book.Current()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// to moves the time, with everything that falls due on the way.
func (r *rig) to(now int64) {
	for r.now < now {
		r.now = min(now, r.now+10*ms)

		for _, h := range r.holders {
			h.clock.Set(r.now + h.skew)
			h.Advance(r.now + h.skew)
		}
	}
}

func (r *rig) wait(d int64) { r.to(r.now + d) }

// take asks holder h for n tokens of key.
func (r *rig) take(h int, id, key string, n int64) table.Outcome {
	r.t.Helper()

	var out table.Outcome

	rl := r.holders[h].Rule(id)
	if rl == nil {
		r.t.Fatalf("no rule %q", id)
	}

	rl.Take(context.Background(), key, n, &out)

	return out
}

// times takes one token n times, and returns how many passed.
func (r *rig) times(h int, id, key string, n int) (passed int) {
	r.t.Helper()

	for range n {
		if r.take(h, id, key, 1).Kind == table.Allowed {
			passed++
		}
	}

	return passed
}

func (r *rig) peek(h int, id, key string) table.Outcome {
	var out table.Outcome

	r.holders[h].Rule(id).Peek(context.Background(), key, &out)

	return out
}

// cut parts holders from the coordinator; heal joins them again.
func (r *rig) cut() {
	for _, h := range r.holders {
		h.gate.err = errDown
	}
}

func (r *rig) heal() {
	for _, h := range r.holders {
		h.gate.err = nil
	}
}
