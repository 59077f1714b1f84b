package table_test

import (
	"context"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// Coordinators that read a file number its versions by themselves. A holder that changes from one to another whose
// numbers are lower is no outage: the other one takes a higher number, and answers.
func TestACoordinatorThatIsBehindIsAskedAgain(t *testing.T) {
	t.Parallel()

	now := rigStart

	store, err := memory.New(memory.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = store.Close(context.Background()) })

	var coordinators [2]*coordinator.Coordinator

	var books [2]*coordinator.Book

	for i := range books {
		date := func() time.Time { return time.UnixMicro(now).Add(time.Duration(i) * time.Hour) } // the second one's numbers are higher
		books[i] = coordinator.NewBook(date)

		set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, keyBy: user, limit: 100, window: 1h}]"))
		if err != nil {
			t.Fatal(err)
		}

		if _, err := books[i].Apply(set); err != nil {
			t.Fatal(err)
		}

		if coordinators[i], err = coordinator.New(coordinator.Config{Store: store, Book: books[i], Clock: date}); err != nil {
			t.Fatal(err)
		}
	}

	source := &gate{Source: coordinators[1]}
	tb := table.New(source, table.Config{Clock: table.NewVirtualClock(now), Inline: true})

	if err := tb.SetRules(books[1].Current()); err != nil {
		t.Fatal(err)
	}

	for i, at := range []int{1, 0} {
		source.Source = coordinators[at]

		var out table.Outcome

		tb.Rule("r").Take(t.Context(), "k", 1, &out)

		if out.Kind != table.Allowed || out.Origin != table.FromStore || out.Remaining != int64(99-i) || tb.Down() {
			t.Errorf("by coordinator %d: %+v, down: %v", at, out, tb.Down())
		}
	}

	if source.calls.Load() != 3 {
		t.Errorf("%d calls were made, want one, and two to the one that was behind", source.calls.Load())
	}
}

// A day is the store's. Coordinators whose clocks are wrong by an hour do not begin another one before midnight, nor go back
// to the last after it: at each change of hands there would be all of the limit again.
func TestCoordinatorsWhoseClocksDifferCountOneDay(t *testing.T) {
	t.Parallel()

	const (
		day   = 24 * 3_600 * sec
		limit = 5
	)

	now := 100*day - 1_800*sec

	store, err := memory.New(memory.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = store.Close(context.Background()) })

	set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, keyBy: user, algorithm: fixed_window, limit: 5, window: 1d, timeZone: UTC}]"))
	if err != nil {
		t.Fatal(err)
	}

	book := coordinator.NewBook(func() time.Time { return time.UnixMicro(now) })
	if _, err := book.Apply(set); err != nil {
		t.Fatal(err)
	}

	coordinators := make([]*coordinator.Coordinator, 0, 3)

	for _, wrong := range []time.Duration{0, time.Hour, -time.Hour} {
		clock := func() time.Time { return time.UnixMicro(now).Add(wrong) }

		c, err := coordinator.New(coordinator.Config{Store: store, Book: book, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}

		coordinators = append(coordinators, c)
	}

	source, clock := &gate{}, table.NewVirtualClock(now)
	tb := table.New(source, table.Config{Clock: clock, Inline: true})

	if err := tb.SetRules(book.Current()); err != nil {
		t.Fatal(err)
	}

	for half := range int64(3) { // of an hour: before midnight, just after it, and later
		passed := 0

		for i := range 12 * limit {
			source.Source = coordinators[i%3]

			var out table.Outcome

			tb.Rule("r").Take(t.Context(), "k", 1, &out)

			if out.Kind == table.Allowed {
				passed++
			} else if left := day - now%day; out.RetryAfter > left {
				t.Errorf("half an hour %d: come again in %d s, and the day ends in %d", half, out.RetryAfter/sec, left/sec)
			}

			now++
			clock.Set(now)
		}

		if want := map[int64]int{0: limit, 1: limit, 2: 0}[half]; passed != want {
			t.Errorf("half an hour %d: %d passed, want %d", half, passed, want)
		}

		now += 1_800 * sec
		clock.Set(now)
	}
}
