package cases

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// world is the servers of one test, their coordinator, and the time.
type world struct {
	start   int64 // of the test, µs since the Unix epoch
	now     int64 // µs since the start
	latency int64

	book    *coordinator.Book
	coord   *coordinator.Coordinator
	beaten  int64 // when the coordinator last told the store who lives
	servers []*server
	tickets uint64 // calls so far: of two that arrive together the one sent first goes first
	release []func(context.Context) error
}

const (
	// origin is where the servers' clocks stand at the start. They show time since
	// some moment, which must not be 0; only the store has dates.
	origin = int64(time.Hour / time.Microsecond)
	// beatEvery is how often a coordinator tells the store who lives.
	beatEvery = int64(2 * time.Second / time.Microsecond)
	// patience is how long a server waits for a call beyond what it takes.
	patience = 20 * time.Millisecond
)

func newWorld(t *Test) (*world, error) {
	w := &world{start: t.Start, latency: t.Latency}
	date := func() time.Time { return time.UnixMicro(w.start + w.now) }

	store, err := memory.New(memory.Config{Clock: func() int64 { return w.start + w.now }})
	if err != nil {
		return nil, err
	}

	w.release = append(w.release, store.Close)
	w.book = coordinator.NewBook(date)

	if w.coord, err = coordinator.New(coordinator.Config{Store: store, Book: w.book, Clock: date}); err != nil {
		return nil, err
	}

	for i := range t.Holders {
		s := &server{world: w, clock: table.NewVirtualClock(origin)}
		s.clock.SetEpoch(w.start - origin)
		s.limiter = leaseway.NewStepped(w.source(t, s), s.clock,
			leaseway.WithName(strconv.Itoa(i)), leaseway.WithDeadline(patience+time.Duration(t.Latency)*time.Microsecond))
		s.begin()

		w.servers = append(w.servers, s)
	}

	return w, nil
}

// source is where a server's leases come from. A lone server without a way to go is as one that has the coordinator
// inside: buckets are lent to it.
func (w *world) source(t *Test, s *server) leaseway.Source {
	if t.Holders == 1 && t.Latency == 0 {
		return inside{link{w.coord, s}, w.coord}
	}

	return link{w.coord, s}
}

// apply puts rules in force at the coordinator and at every server at once.
func (w *world) apply(set *rule.Set) error {
	if _, err := w.book.Apply(set); err != nil {
		return err
	}

	for _, s := range w.servers {
		if err := s.limiter.SetRules(w.book.Current()); err != nil {
			return err
		}
	}

	return nil
}

// to moves the time to at, with everything that falls due on the way, unless ctx ends.
func (w *world) to(ctx context.Context, at int64) error {
	for {
		s := w.next()
		if s == nil || s.due > at {
			w.set(max(w.now, at))

			return ctx.Err()
		}

		if err := ctx.Err(); err != nil {
			return err
		}

		w.set(max(w.now, s.due))
		s.goOn()
	}
}

// next is the server that has something to do first.
func (w *world) next() *server {
	var first *server

	for _, s := range w.servers {
		if s.due != never && (first == nil || s.due < first.due || s.due == first.due && s.ticket < first.ticket) {
			first = s
		}
	}

	return first
}

// settle moves the time until every request has its answer.
func (w *world) settle(ctx context.Context) error {
	for {
		busy := false
		for _, s := range w.servers {
			busy = busy || s.calling
		}

		if !busy {
			return nil
		}

		if err := w.to(ctx, w.next().due); err != nil {
			return err
		}
	}
}

func (w *world) set(now int64) {
	w.now = now

	for _, s := range w.servers {
		s.clock.Set(origin + now)
	}
}

// beat has the coordinator tell the store who lives, as often as it would by itself.
func (w *world) beat(ctx context.Context) error {
	if w.now-w.beaten < beatEvery {
		return nil
	}

	w.beaten = w.now

	return w.coord.Beat(ctx)
}

// close ends the servers' work and frees what the world holds.
func (w *world) close(ctx context.Context) {
	for _, s := range w.servers {
		s.end()
	}

	for _, release := range w.release {
		_ = release(ctx) // the store keeps nothing that could be lost
	}
}

// never is when a server without anything to do has something to do.
const never = math.MaxInt64
