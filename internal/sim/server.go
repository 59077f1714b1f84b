package sim

import (
	"context"
	"strconv"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// origin is where the servers' clocks stand at the start: they show time since some moment that is not 0.
const origin = int64(time.Hour / time.Microsecond)

// fewKeys is how many keys a wheel has at most of which it is worth while to look for the next that is due.
const fewKeys = 100

// server is one holder: a table of production, the requests in it, and its clock.
type server struct {
	fleet *fleet
	slot  int // which place in the fleet it fills, over restarts
	table *table.Stepped
	clock *table.Clock
	ahead int64 // of its clock, µs
	drift int64 // of its clock, millionths
	limit []*table.Rule

	waiting  map[int][]parked // requests, by their keys
	answered []int            // the keys that the last call was about
	flies    int64            // when it is next to fly, 0 for not at all
	phase    int64            // of its wheel, µs
	turns    int64            // when the wheel is to turn next
	took     map[budget]int64

	dead   bool
	paused int64           // until then nothing of it runs
	stuck  int64           // until then its coarse clock does not tick by itself
	cut    bool            // from every coordinator
	old    *ledger.Answers // an answer that it was given before
	prefer int             // the coordinator that it asks first
}

// parked is a coroutine that waits, and what for.
type parked struct {
	coroutine *coroutine
	task      uint64
}

// request is what a server is asked.
type request struct {
	key  int
	cost int64
	at   int64 // when it came, µs
}

// serve adds a server to the fleet, in a place that is free or new.
func (f *fleet) serve() error {
	s := &server{fleet: f, slot: f.freeSlot(), took: map[budget]int64{}, waiting: map[int][]parked{}}
	s.ahead = origin + f.rnd.Int64N(2*f.load.clocks.Microseconds()+1) - f.load.clocks.Microseconds()
	s.drift = f.rnd.Int64N(2*f.load.drift+1) - f.load.drift
	s.prefer = f.rnd.IntN(len(f.replicas))
	s.clock = table.NewDrivenClock(s.now)
	s.table = table.NewStepped(s, table.Config{
		Name: strconv.Itoa(s.slot), Holder: f.rnd.Uint64() | 1, Clock: s.clock, Random: f.rnd.Int64N,
		Live: f.lives[s.slot], OnLive: func(live int64) { f.lives[s.slot] = live },
	}, s.pause)

	for len(f.tally.slots) <= s.slot {
		f.tally.slots = append(f.tally.slots, slot{})
	}

	s.rules(f.book.Current())
	f.servers = append(f.servers, s)
	s.phase = f.rnd.Int64N(wheelEvery)
	f.every(beatEvery, s, func() { s.table.Beat() })

	return f.failed
}

// freeSlot returns the first place that no server fills.
func (f *fleet) freeSlot() int {
	for slot := 0; ; slot++ {
		taken := false
		for _, s := range f.servers {
			taken = taken || s.slot == slot
		}

		if !taken {
			return slot
		}
	}
}

// now is the server's clock, µs.
func (s *server) now() int64 {
	since := s.fleet.now - start

	return s.ahead + since + since*s.drift/1_000_000
}

// in returns when, in the fleet's time, the server's clock shows at: rather later.
func (s *server) in(at int64) int64 {
	d := max(0, at-s.now())

	return s.fleet.now + d + (d*max(s.drift, -s.drift)+999_999)/1_000_000
}

// rules puts a rule set in force.
func (s *server) rules(set *rule.Set) {
	if err := s.table.SetRules(set); err != nil {
		s.fleet.fail(err)

		return
	}

	s.limit = s.limit[:0]
	for _, r := range set.Rules {
		s.limit = append(s.limit, s.table.Rule(r.ID))
	}

	s.depart()
}

// handle decides one request.
func (s *server) handle(q request) {
	if s.dead {
		return
	}

	f := s.fleet
	s.tick()

	began := f.now
	f.active.key = q.key

	var passed bool

	if len(s.limit) == 1 {
		var out table.Outcome

		s.limit[0].Take(context.Background(), f.tally.keys[q.key], q.cost, &out)
		passed = out.Kind == table.Allowed
		s.admitted(&out, q, 0)
	} else {
		hits := make([]table.Hit, len(s.limit))
		for i, r := range s.limit {
			hits[i] = table.Hit{Rule: r, Key: f.tally.keys[q.key], Cost: q.cost}
		}

		passed = s.table.TakeAll(context.Background(), hits) < 0
		for i := range hits {
			if passed {
				s.admitted(&hits[i].Out, q, i)
			}
		}
	}

	if s.dead {
		return // nobody hears the answer
	}

	f.tally.decided(s, q, verdict{passed: passed, waited: f.now - began, began: began})
	s.depart()
}

// admitted notes when the tokens of an outcome were used: when the store took
// them for this very request, or now.
func (s *server) admitted(out *table.Outcome, q request, place int) {
	if out.Kind != table.Allowed || s.dead {
		return
	}

	b, at := budget{place, q.key}, s.fleet.now

	if out.Charge.Taken() {
		if took, ok := s.took[b]; ok {
			at = took
		}
	}

	s.fleet.tally.admit(b, admission{at: at, n: q.cost}, out.Origin)
}

// tick has the coarse clock tick, unless the process has only just woken.
func (s *server) tick() {
	if s.fleet.now >= s.stuck {
		s.clock.Tick()
	}
}

// appoint has the wheel turn when something is due there. It turns each 10 ms, as
// in production; turns at which nothing is due are left out.
func (s *server) appoint() {
	f := s.fleet
	if f.over() || s.turns > f.now && s.turns <= f.now+wheelEvery {
		return // as soon as can be
	}

	at := s.now()

	if len(f.tally.keys) <= fewKeys {
		var ok bool
		if at, ok = s.table.Next(); !ok {
			return
		}
	}

	turn := (max(f.now+1, s.in(at))-s.phase+wheelEvery-1)/wheelEvery*wheelEvery + s.phase
	if s.turns > f.now && s.turns <= turn {
		return
	}

	s.turns = turn
	f.agenda.add(event{at: turn, on: s, do: s.turn})
}

// turn turns the table's wheel.
func (s *server) turn() {
	if s.fleet.now < s.turns {
		return // an earlier turn has been, and the next is set
	}

	s.tick()
	s.table.Advance(s.clock.Now())
	s.depart()
	s.appoint()
}

// depart has the next flight leave when it wants to.
func (s *server) depart() {
	at, ok := s.table.Departs()
	if !ok {
		return
	}

	at = s.in(at)
	if s.flies != 0 && s.flies <= at {
		return
	}

	s.flies = at
	s.fleet.agenda.add(event{at: at, on: s, do: s.fly})
}

// fly makes a call, and has those go on that wait for its answer.
func (s *server) fly() {
	if s.fleet.now < s.flies {
		return // another is to come
	}

	s.flies = 0
	s.tick()
	s.table.Fly()
	s.landed()
	s.depart()
	s.appoint()
}

// pause has a request wait for a flight to land, or for its deadline.
func (s *server) pause(until int64) {
	f := s.fleet
	c := f.active
	s.waiting[c.key] = append(s.waiting[c.key], parked{c, c.task})

	if c.timed != c.task+1 {
		c.timed = c.task + 1
		f.agenda.add(event{at: s.in(until), on: s, wake: c, task: c.task})
	}

	s.depart()
	f.park()
	s.tick()
}

// landed has the requests go on that wait for the call that has ended.
func (s *server) landed() {
	for _, key := range s.answered {
		for _, p := range s.waiting[key] {
			s.fleet.agenda.add(event{at: s.fleet.now, on: s, wake: p.coroutine, task: p.task})
		}

		delete(s.waiting, key)
	}

	s.answered = s.answered[:0]
}
