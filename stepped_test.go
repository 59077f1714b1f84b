package leaseway_test

import (
	"errors"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

func TestSteppedTimeMovesOnlyWhenMoved(t *testing.T) {
	now := int64(0)
	date := func() time.Time { return time.UnixMicro(now) }

	store, err := memory.New(memory.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}

	set, err := rule.Parse("r", []byte(`rules: [{id: r, keyBy: user, limit: 2, window: 1h}]`))
	if err != nil {
		t.Fatal(err)
	}

	book := coordinator.NewBook(date)

	c, err := coordinator.New(coordinator.Config{Store: store, Book: book, Clock: date})
	if err != nil {
		t.Fatal(err)
	}

	clock := table.NewVirtualClock(1)
	s := leaseway.NewStepped(c, clock)
	req := leaseway.Request{User: "a"}

	if d := s.Decide(t.Context(), req); !d.Allowed || d.Matched() {
		t.Fatalf("without rules: got %+v", d)
	}

	if _, err := book.Apply(set); err != nil {
		t.Fatal(err)
	}

	if err := s.SetRules(book.Current()); err != nil {
		t.Fatal(err)
	}

	allowed := func(n int) (passed int) {
		for range n {
			if d := s.Decide(t.Context(), req); d.Allowed {
				passed++
			}
		}

		return passed
	}

	if got := allowed(5); got != 2 {
		t.Errorf("at once: %d of 5 passed, want 2", got)
	}

	for at, ok := s.Next(); ok && at < 1+time.Hour.Microseconds(); at, ok = s.Next() {
		now = at - 1
		clock.Set(at)
		s.Advance(at)
	}

	now = time.Hour.Microseconds()
	clock.Set(1 + now)

	if got := allowed(5); got != 2 {
		t.Errorf("an hour later: %d of 5 passed, want 2", got)
	}

	if err := c.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}

	older := *book.Current()
	older.Version--

	var refused *leaseway.Error
	if err := s.SetRules(&older); !errors.As(err, &refused) || refused.Code != leaseway.CodeInvalid {
		t.Errorf("older rules: got %v", err)
	}

	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
