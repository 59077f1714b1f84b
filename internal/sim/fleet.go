package sim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

// The times of a fleet, µs.
const (
	start      = int64(1_767_225_600_000_000) // 2026-01-01T00:00:00Z: the edge of every window
	wheelEvery = int64(10_000)
	beatEvery  = int64(2_000_000)
	never      = int64(math.MaxInt64)
)

// fleet is the servers, the coordinators and their store, and the time.
type fleet struct {
	scheduler

	agenda agenda

	load *Load
	ctx  context.Context //nolint:containedctx // of the whole run, which ends early when it does
	rnd  *rand.Rand
	now  int64
	end  int64 // when the last request comes
	seen int64 // events so far

	store    *memory.Store
	stepped  int64 // what the store's clock is wrong by
	book     *coordinator.Book
	replicas []*replica
	servers  []*server     // that serve requests
	crashes  int           // of coordinators, so far
	lives    map[int]int64 // how many servers lived, as each place of the fleet last knew
	net      network
	arrivals arrivals
	tally    *tally
	next     int64 // when the next request comes
	failed   error // what ends the run
}

// newFleet returns the fleet of a load, before its first request.
func newFleet(ctx context.Context, load *Load, algorithm rate.Algorithm, seed uint64) (*fleet, error) {
	f := &fleet{
		load: load, ctx: ctx, now: start, end: start + load.Lasts.Microseconds(),
		rnd: rand.New(rand.NewPCG(seed, uint64(algorithm))),
		net: calmNetwork(),
	}
	f.step, f.lives = f.one, map[int]int64{}
	f.book = coordinator.NewBook(f.date)

	s, err := memory.New(memory.Config{Clock: f.storeNow})
	if err != nil {
		return nil, err
	}

	if err := f.before(s); err != nil {
		return nil, err
	}

	set, err := load.rules(algorithm)
	if err != nil {
		return nil, err
	}

	if f.tally, err = newTally(f, set); err != nil {
		return nil, err
	}

	if _, err := f.book.Apply(set); err != nil {
		return nil, fmt.Errorf("load %s: %w", load.Name, err)
	}

	for range load.Holders {
		if err := f.serve(); err != nil {
			return nil, err
		}
	}

	f.arrivals = newArrivals(load, set)
	f.next = f.arrivals.after(f, f.now)

	for i := range load.acts {
		f.schedule(&load.acts[i])
	}

	f.every(beatEvery, nil, f.beatReplicas)

	return f, nil
}

// before puts coordinators of their own before a store.
func (f *fleet) before(s *memory.Store) error {
	f.store, f.replicas = s, nil

	for range max(1, f.load.coordinators) {
		c, err := coordinator.New(coordinator.Config{Store: f.store, Book: f.book, Clock: f.date})
		if err != nil {
			return err
		}

		f.replicas = append(f.replicas, &replica{coordinator: c})
	}

	return nil
}

// storeNow is the store's clock, which counts; servers have their own.
func (f *fleet) storeNow() int64 { return f.now + f.stepped }

func (f *fleet) date() time.Time { return time.UnixMicro(f.storeNow()) }

// simulate runs the load to its end, and until every request has its answer.
func (f *fleet) simulate() error {
	f.run()

	if err := f.store.Close(context.WithoutCancel(f.ctx)); err != nil && f.failed == nil {
		f.failed = err
	}

	return f.failed
}

// one handles what happens next, a request or an event; false when nothing does.
func (f *fleet) one() bool {
	f.seen++
	if f.seen%4096 == 0 && f.ctx.Err() != nil {
		f.fail(f.ctx.Err())
	}

	at, ok := f.agenda.next()
	if f.next != never && (!ok || f.next <= at) {
		f.now = f.next
		f.next = f.arrivals.after(f, f.now)
		f.arrive()

		return true
	}

	if !ok {
		return false
	}

	e := f.agenda.take()
	f.now = max(f.now, e.at)

	switch s := e.on; {
	case s != nil && s.paused > f.now:
		e.at = s.paused
		f.agenda.add(e)
	case e.wake != nil:
		f.wake(e.wake, e.task)
	case s != nil && s.dead:
	default:
		e.do()
	}

	return true
}

// fail ends the run: no more requests come, and what is under way ends.
func (f *fleet) fail(err error) {
	if f.failed == nil {
		f.failed = err
	}

	f.next, f.end = never, f.now
}

// over reports whether the last request has come: then nothing repeats any more.
func (f *fleet) over() bool { return f.now >= f.end }

// after has something happen in d µs.
func (f *fleet) after(d int64, on *server, do func()) {
	f.agenda.add(event{at: f.now + d, on: on, do: do})
}

// every has something happen each d µs until the end, beginning within the first d.
func (f *fleet) every(d int64, on *server, do func()) {
	var again func()

	again = func() {
		if f.over() {
			return
		}

		f.after(d, on, again)
		do()
	}

	f.after(1+f.rnd.Int64N(d), on, again)
}

// arrive has the next request come to a server.
func (f *fleet) arrive() {
	if len(f.servers) == 0 {
		return
	}

	f.send(f.arrivals.request(f))
}

// send has a server get a request, at once or when it runs again.
func (f *fleet) send(s *server, q request) {
	f.tally.arrived(s, q)

	if s.paused > f.now {
		f.after(s.paused-f.now, s, func() { s.handle(q) })
	} else {
		s.handle(q)
	}
}

// spread returns a number of µs that is least at least and mean on average.
func (f *fleet) spread(least, mean int64) int64 {
	return least + int64(f.rnd.ExpFloat64()*float64(mean-least))
}

// push puts a rule set in force, and tells every server of it within delay.
func (f *fleet) push(set *rule.Set, delay time.Duration) {
	if _, err := f.book.Apply(set); err != nil {
		f.fail(err)

		return
	}

	current := f.book.Current()
	f.tally.changed(current)

	for _, s := range f.servers {
		f.after(f.rnd.Int64N(delay.Microseconds()+1), s, func() { s.rules(current) })
	}
}
