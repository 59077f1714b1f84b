package sim

import (
	"context"
	"slices"
	"time"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store/memory"
)

// What can happen to a fleet; see act.

// flood has each server get n requests more, at random within a time.
func flood(n int, within time.Duration) func(f *fleet) {
	return floodOf(n, within, func(*server) bool { return true })
}

// floodOf is flood for some servers.
func floodOf(n int, within time.Duration, some func(s *server) bool) func(f *fleet) {
	return func(f *fleet) {
		for _, s := range slices.DeleteFunc(slices.Clone(f.servers), func(s *server) bool { return !some(s) }) {
			for range n {
				f.after(f.rnd.Int64N(within.Microseconds()+1), nil, func() {
					if !s.dead {
						_, q := f.arrivals.request(f)
						f.send(s, q)
					}
				})
			}
		}
	}
}

// kill has n servers crash, each with what it holds, and start again after a time under their names.
func kill(n int, again time.Duration) func(f *fleet) {
	return func(f *fleet) {
		for range min(n, len(f.servers)) {
			f.kill(f.servers[f.rnd.IntN(len(f.servers))], again)
		}
	}
}

// kill has s crash, and start again after a time.
func (f *fleet) kill(s *server, again time.Duration) {
	f.leave(s)
	s.dead = true

	f.after(again.Microseconds(), nil, func() {
		if err := f.serve(); err != nil {
			f.fail(err)
		}
	})
}

// killCut has all servers crash that are cut off; see kill.
func killCut(again time.Duration) func(f *fleet) {
	return func(f *fleet) {
		for _, s := range slices.Clone(f.servers) {
			if s.cut {
				f.kill(s, again)
			}
		}
	}
}

// leave takes s out of those that serve requests.
func (f *fleet) leave(s *server) {
	for i, o := range f.servers {
		if o == s {
			f.servers = append(f.servers[:i], f.servers[i+1:]...)

			return
		}
	}
}

// scale has the fleet grow or shrink to n servers. Those that leave do it in good order.
func scale(n int) func(f *fleet) {
	return func(f *fleet) {
		for len(f.servers) < n {
			if err := f.serve(); err != nil {
				f.fail(err)

				return
			}
		}

		for len(f.servers) > n {
			s := f.servers[len(f.servers)-1]
			f.leave(s)
			f.after(0, s, s.close)
		}
	}
}

// close gives back what a server holds, once its calls are over.
func (s *server) close() {
	if s.table.Flying() > 0 {
		s.fleet.after(1_000, s, s.close)

		return
	}

	if err := s.table.Close(context.Background()); err != nil {
		s.fleet.fail(err)
	}

	s.dead = true
}

// pause has n servers stand still for a time, and wake with their clocks as they were.
func pause(n int, d time.Duration) func(f *fleet) {
	return func(f *fleet) {
		for _, s := range f.some(n) {
			s.paused = f.now + d.Microseconds()
			s.stuck = s.paused + 1_000 // the ticker's turn comes within a tick
		}
	}
}

// stop has all servers that are cut off stand still for a time. They know what time it is when they go on.
func stop(d time.Duration) func(f *fleet) {
	return func(f *fleet) {
		for _, s := range f.servers {
			if s.cut {
				s.paused = f.now + d.Microseconds()
			}
		}
	}
}

// cutOff parts n servers from all coordinators for a time.
func cutOff(n int, d time.Duration) func(f *fleet) {
	return func(f *fleet) {
		for _, s := range f.some(n) {
			s.cut = true
			f.after(d.Microseconds(), nil, func() { s.cut = false })
		}
	}
}

// some returns n servers.
func (f *fleet) some(n int) []*server {
	places := f.rnd.Perm(len(f.servers))[:min(n, len(f.servers))]
	chosen := make([]*server, 0, len(places))

	for _, i := range places {
		chosen = append(chosen, f.servers[i])
	}

	return chosen
}

// weather changes how messages fare, for a time.
func weather(d time.Duration, change func(n *network)) func(f *fleet) {
	return func(f *fleet) {
		change(&f.net)
		f.after(d.Microseconds(), nil, func() { f.net = calmNetwork() })
	}
}

// crash has one coordinator after the other take what it is asked and not answer,
// for a moment, and be gone for a time.
func crash(moment, d time.Duration) func(f *fleet) {
	return func(f *fleet) {
		r := f.replicas[f.crashes%len(f.replicas)]
		f.crashes++
		r.dumb = true

		f.after(moment.Microseconds(), nil, func() {
			r.dumb, r.down = false, true

			for _, c := range r.calls { // their connections are reset
				f.after(f.delay(), c.from, func() { f.refused(c) })
			}
		})
		f.after((moment + d).Microseconds(), nil, func() { r.down = false })
	}
}

// failover has a replica of the store take over, which knows nothing of the last
// moments. What was given meanwhile is noted: it may pass above the limit.
func failover(lost time.Duration) func(f *fleet) {
	return func(f *fleet) {
		replica, err := f.store.Copy(f.ctx, memory.Config{Clock: f.storeNow})
		if err != nil {
			f.fail(err)

			return
		}

		given := f.tally.given

		f.after(lost.Microseconds(), nil, func() {
			f.tally.lost = max(f.tally.lost, f.tally.given-given)
			f.takeOver(replica)
		})
	}
}

// flush has the store lose everything.
func flush(f *fleet) {
	empty, err := memory.New(memory.Config{Clock: f.storeNow, Lost: f.storeNow()})
	if err != nil {
		f.fail(err)

		return
	}

	f.takeOver(empty)
}

// takeOver puts the coordinators before another store.
func (f *fleet) takeOver(s *memory.Store) {
	if err := f.store.Close(f.ctx); err != nil {
		f.fail(err)
	}

	if err := f.before(s); err != nil {
		f.fail(err)
	}
}

// step moves the store's clock.
func step(d time.Duration) func(f *fleet) {
	return func(f *fleet) {
		f.store.Now() // it sees the step alone, as if it always looked, and not what passed between the requests before and after
		f.stepped += d.Microseconds()
		f.store.Now()
	}
}

// rules puts other rules in force, of which servers hear within a time.
func rules(within time.Duration, rules ...string) func(f *fleet) {
	return func(f *fleet) {
		set, err := parse(rules, rate.Algorithm(f.book.Current().Rules[0].Algorithm))
		if err != nil {
			f.fail(err)

			return
		}

		f.push(set, within)
	}
}
