package table_test

import (
	"context"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// busySource has something happen while each call is under way, and notes when they were made.
type busySource struct {
	table.Source

	meanwhile func()
	calls     []int64
	now       *int64
}

func (b *busySource) Acquire(ctx context.Context, batch *ledger.Batch) (*ledger.Answers, error) {
	b.calls = append(b.calls, *b.now)
	b.meanwhile()

	return b.Source.Acquire(ctx, batch)
}

// A request that finds the lease low while a refill is on its way has another one
// sent for. When the first has filled the lease up, the other does not leave.
func TestARefillThatCameIsNotSentForAgain(t *testing.T) {
	t.Parallel()

	now := rigStart
	date := func() time.Time { return time.UnixMicro(now) }

	store, err := memory.New(memory.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = store.Close(context.Background()) })

	book := coordinator.NewBook(date)

	coord, err := coordinator.New(coordinator.Config{Store: store, Book: book, Clock: date})
	if err != nil {
		t.Fatal(err)
	}

	set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, keyBy: user, limit: 10000, window: 1s}]"))
	if err != nil {
		t.Fatal(err)
	}

	if _, err := book.Apply(set); err != nil {
		t.Fatal(err)
	}

	var s *table.Stepped

	clock := table.NewVirtualClock(now)
	source := &busySource{Source: coord, now: &now}
	s = table.NewStepped(source, table.Config{Clock: clock}, func(int64) { s.Fly() })

	if err := s.SetRules(book.Current()); err != nil {
		t.Fatal(err)
	}

	var out table.Outcome

	take := func() { s.Rule("r").Take(t.Context(), "k", 1, &out) }
	source.meanwhile = func() {
		if k, ok := s.Rule("r").Key("k"); ok && k.Balance > 0 { // else it would wait for this very call
			take()
		}
	}

	for end := now + 3*sec; now < end; {
		now += ms
		clock.Set(now)
		s.Advance(now)
		take()

		if at, ok := s.Departs(); ok && at <= now {
			s.Fly()
		}
	}

	late := 0

	for i, at := range source.calls[1:] {
		if at > rigStart+sec && at-source.calls[i] < 20*ms {
			t.Errorf("at %d ms: a call %d µs after another, with %d left", (at-rigStart)/ms, at-source.calls[i], out.Remaining)
		}

		late++
	}

	if late < 5 {
		t.Errorf("only %d calls: nothing was refilled", late)
	}
}
