package cases

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sort"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/table"
)

// server is one holder: a Limiter, and what it still has to do. It does one
// thing at a time. While a call to the coordinator is under way its next requests
// wait, and the other servers go on:
//
//	idle ── request, or something falls due ──▶ working ── done ──▶ idle
//	                                             │   ▲
//	                              call, latency/2 ▼   │ answer, latency/2
//	                                             calling
//
// The work is a coroutine, so that a call deep inside of a decision can hand
// the control back until its time has come.
type server struct {
	world   *world
	limiter *leaseway.Stepped
	clock   *table.Clock

	work    []func() // what waits for its turn
	held    []held   // requests in flight, the first to end first
	calling bool
	due     int64  // when to go on, or when something falls due; never for nothing
	ticket  uint64 // of the call under way

	resume func() (struct{}, bool)
	stop   func()
	pause  func(struct{}) bool
}

// begin starts the coroutine, which waits for work.
func (s *server) begin() {
	s.due = never

	s.resume, s.stop = iter.Pull(func(yield func(struct{}) bool) {
		s.pause = yield

		for yield(struct{}{}) {
			for len(s.work) > 0 {
				do := s.work[0]
				s.work = s.work[1:]

				do()
			}
		}
	})

	s.resume()
}

// end stops the coroutine; a call under way fails.
func (s *server) end() {
	s.work = nil
	s.stop()
}

// do has the server do something, now or after what it is doing.
func (s *server) do(work func()) {
	s.work = append(s.work, work)

	if !s.calling {
		s.run()
	}
}

// goOn does what is due: the call under way goes on, or the Limiter does what falls due.
func (s *server) goOn() {
	if !s.calling {
		s.work = append(s.work, s.finish, func() { s.limiter.Advance(s.clock.Now()) })
	}

	s.run()
}

// run works until there is nothing left to do, or a call takes time.
func (s *server) run() {
	s.calling, s.ticket = false, 0
	s.resume()

	if s.calling {
		return
	}

	s.due = never
	if at, ok := s.limiter.Next(); ok {
		s.due = at - origin
	}

	if len(s.held) > 0 {
		s.due = min(s.due, s.held[0].until)
	}
}

// held is a request in flight.
type held struct {
	until    int64 // µs since the start
	decision leaseway.Decision
}

// hold keeps an allowed request in flight for d µs from now.
func (s *server) hold(decision leaseway.Decision, d int64) {
	switch {
	case !decision.HoldsSlot():
	case d == 0:
		s.limiter.Done(decision)
	default:
		one := held{s.world.now + d, decision}
		at := sort.Search(len(s.held), func(i int) bool { return s.held[i].until > one.until })
		s.held = slices.Insert(s.held, at, one)
	}
}

// finish ends the requests whose time has come.
func (s *server) finish() {
	for len(s.held) > 0 && s.held[0].until <= s.world.now {
		one := s.held[0]
		s.held = s.held[1:]
		s.limiter.Done(one.decision)
	}
}

// sleep lets time go by for this server's work; false when the test is over.
func (s *server) sleep(d int64) bool {
	if d == 0 {
		return true
	}

	s.world.tickets++
	s.calling, s.ticket, s.due = true, s.world.tickets, s.world.now+d

	return s.pause(struct{}{})
}

// link is the way from a server to the coordinator. Rules go another way: they
// reach all servers at once.
type link struct {
	leaseway.Source

	server *server
}

// inside is a link to a coordinator in the same process, which lends.
type inside struct {
	link
	table.Lender
}

var errOver = errors.New("the test is over")

// Acquire takes half of the latency to get to the coordinator, and half for the answer.
func (l link) Acquire(ctx context.Context, batch *ledger.Batch) (*ledger.Answers, error) {
	s, half := l.server, l.server.world.latency/2

	if !s.sleep(half) {
		return nil, errOver
	}

	if err := s.world.beat(ctx); err != nil {
		return nil, err
	}

	answers, err := s.world.coord.Acquire(ctx, batch)

	if !s.sleep(s.world.latency - half) {
		return nil, errOver
	}

	return answers, err
}
