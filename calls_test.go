package leaseway_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// steppedFleet is several Limiters over one coordinator, in one virtual time.
type steppedFleet struct {
	now    int64
	source *coordinator.Coordinator
	clocks []*table.Clock
	each   []*leaseway.Stepped
}

func newSteppedFleet(t *testing.T, servers int, rules string) *steppedFleet {
	t.Helper()

	f := &steppedFleet{now: 1}
	date := func() time.Time { return time.UnixMicro(f.now) }

	store, err := memory.New(memory.Config{Clock: func() int64 { return f.now }})
	if err != nil {
		t.Fatal(err)
	}

	set, err := rule.Parse("r", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}

	book := coordinator.NewBook(date)
	if _, err := book.Apply(set); err != nil {
		t.Fatal(err)
	}

	if f.source, err = coordinator.New(coordinator.Config{Store: store, Book: book, Clock: date}); err != nil {
		t.Fatal(err)
	}

	for range servers {
		clock := table.NewVirtualClock(f.now)
		s := leaseway.NewStepped(struct{ leaseway.Source }{f.source}, clock) // as one that is elsewhere: it lends nothing
		f.clocks, f.each = append(f.clocks, clock), append(f.each, s)

		if err := s.SetRules(book.Current()); err != nil {
			t.Fatal(err)
		}
	}

	return f
}

// advance moves all servers to the instant at, doing what falls due on the way.
func (f *steppedFleet) advance(t *testing.T, at int64) {
	t.Helper()

	for {
		next, who := at, -1

		for i, s := range f.each {
			if due, ok := s.Next(); ok && due < next {
				next, who = due, i
			}
		}

		if next/100_000 != f.now/100_000 { // who lives is told ten times a second
			if err := f.source.Beat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}

		f.now = max(f.now, next)

		for _, c := range f.clocks {
			c.Set(f.now)
		}

		if who < 0 {
			return
		}

		f.each[who].Advance(f.now)
	}
}

func (f *steppedFleet) asks() (n int64) {
	for _, s := range f.each {
		n += s.Stats().Asks
	}

	return n
}

// load sends each server requests of one caller at random moments, so many a
// second on average, until the instant end.
func (f *steppedFleet) load(t *testing.T, rate float64, end int64) (requests, admitted int64) {
	t.Helper()

	r := rand.New(rand.NewPCG(1, 2))
	gap := 1e6 / (rate * float64(len(f.each)))

	for at := float64(f.now) + gap*r.ExpFloat64(); int64(at) < end; at += gap * r.ExpFloat64() {
		f.advance(t, int64(at))

		requests++

		if f.each[r.IntN(len(f.each))].Decide(t.Context(), leaseway.Request{User: "a"}).Allowed {
			admitted++
		}
	}

	return requests, admitted
}

// The figures that docs/how-it-works.md states: requests served for each call
// about a key, once its rate is known, and all of the limit for those above it.
func TestFiguresOfHowItWorks(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		servers  int
		rate     float64 // requests a second on each
		limit    int64   // a second, and the burst
		apiece   float64 // requests to one ask
		admitted float64 // a second
	}{
		{servers: 1, rate: 100, limit: 1_000, apiece: 27, admitted: 100},
		{servers: 1, rate: 500, limit: 5_000, apiece: 130, admitted: 500},
		{servers: 4, rate: 500, limit: 20_000, apiece: 130, admitted: 2_000},
		{servers: 1, rate: 20_000, limit: 200_000, apiece: 2_916, admitted: 20_000},
		{servers: 4, rate: 500, limit: 1_000, apiece: 52, admitted: 1_000},
		{servers: 1, rate: 20, limit: 1_000, apiece: 31, admitted: 20},
		{servers: 1, rate: 20, limit: 10_000, apiece: 152, admitted: 20},
		{servers: 4, rate: 20, limit: 10_000, apiece: 78, admitted: 80},
		{servers: 1, rate: 2_000, limit: 1_000_000, apiece: 3_050, admitted: 2_000},
	} {
		t.Run(fmt.Sprintf("%d servers, %v a second on each, limit %d", c.servers, c.rate, c.limit), func(t *testing.T) {
			t.Parallel()

			const start = 5_000_000

			seconds := max(20, 10_000/int64(c.rate)) // for some asks at least

			f := newSteppedFleet(t, c.servers, fmt.Sprintf(`rules: [{id: r, keyBy: user, limit: %d, window: 1s}]`, c.limit))
			f.load(t, c.rate, start)

			before := f.asks()
			requests, admitted := f.load(t, c.rate, start+seconds*1_000_000)
			apiece := float64(requests) / float64(f.asks()-before)

			if apiece < 0.94*c.apiece || apiece > 1.06*c.apiece {
				t.Errorf("%.1f requests to one ask, the page says %v", apiece, c.apiece)
			}

			if got := float64(admitted) / float64(seconds); got < 0.97*c.admitted || got > 1.03*c.admitted {
				t.Errorf("%.1f a second were admitted, want %v", got, c.admitted)
			}
		})
	}
}

// A sliding window gives several servers hardly less than one counter in one place would.
func TestSlidingWindowsOverSeveralServers(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		limit   int64
		window  time.Duration
		atLeast float64 // of the limit
	}{
		{limit: 1_000, window: time.Second, atLeast: 0.98},
		{limit: 6_000, window: time.Minute, atLeast: 0.99},
	} {
		t.Run(c.window.String(), func(t *testing.T) {
			t.Parallel()

			const servers, windows = 4, 20

			window := c.window.Microseconds()
			twice := 2 * float64(c.limit) / c.window.Seconds() / servers
			f := newSteppedFleet(t, servers, fmt.Sprintf(
				`rules: [{id: r, keyBy: user, algorithm: sliding_window, limit: %d, window: %v}]`, c.limit, c.window))
			f.load(t, twice, 5*window)
			_, admitted := f.load(t, twice, (5+windows)*window)

			if part := float64(admitted) / windows / float64(c.limit); part < c.atLeast || part > 1 {
				t.Errorf("%.3f of the limit was admitted at twice the limit, want at least %v and at most 1", part, c.atLeast)
			} else {
				t.Logf("%.3f of the limit", part)
			}
		})
	}
}
