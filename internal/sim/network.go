package sim

import (
	"context"
	"errors"
	"slices"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// replica is one coordinator.
type replica struct {
	coordinator *coordinator.Coordinator
	down        bool
	dumb        bool    // it applies what it is asked, and is gone before it answers
	calls       []*call // under way
}

// network is what happens to messages between servers and coordinators. Delays
// are µs, one way: least at least, mean on average, and now and then tail more.
type network struct {
	least, mean int64
	tail        int64   // a message in a hundred takes up to this much longer
	lose        float64 // the part of the messages, either way, that is lost
	late        float64 // the part of the answers that comes lateBy later
	lateBy      int64
	double      float64 // the part of the asks that arrives twice, the second up to lateBy later
	replay      float64 // the part of the asks that arrives again after seconds
	stale       float64 // the part of the answers in whose place an older one is given
	foreign     float64 // the part of the answers in whose place one is given that no coordinator gave
	down        bool    // nothing gets through
}

// calmNetwork is one data centre: half a millisecond there and back.
func calmNetwork() network { return network{least: 150, mean: 250, tail: 3_000} }

var (
	errTimeout = errors.New("no answer in time")
	errRefused = errors.New("connection refused")
)

// call is one batch on its way, and the answer.
type call struct {
	from    *server
	batch   ledger.Batch
	waits   parked
	done    bool // the answer has come
	answers *ledger.Answers
	err     error
	refused int   // by how many coordinators
	took    int64 // when the store first applied it, 0: not yet
}

// Acquire carries a batch to a coordinator and back. It waits in the fleet's time.
func (s *server) Acquire(_ context.Context, batch *ledger.Batch) (*ledger.Answers, error) {
	f := s.fleet
	c := &call{from: s, batch: copyOf(batch), waits: parked{f.active, f.active.task}}
	until := f.now + s.table.CallTimeout().Microseconds()

	f.tally.called(s, len(batch.Asks))
	f.carry(c, s.prefer)
	f.agenda.add(event{at: until, on: s, wake: c.waits.coroutine, task: c.waits.task})

	for !c.done && f.now < until {
		f.park()
	}

	s.tick()

	for i := range c.batch.Asks {
		b := f.tally.budget(&c.batch.Asks[i])
		s.answered = append(s.answered, b.key)

		if len(c.batch.Asks[i].Ask.Takes) > 0 {
			s.took[b] = c.took
		}
	}

	switch {
	case !c.done:
		c.done = true
		s.prefer++ // late once is enough: the next call begins with another

		return nil, errTimeout
	case c.err != nil:
		return nil, c.err
	}

	return c.answers, nil
}

// Watch is not used: rules are pushed.
func (s *server) Watch(context.Context, uint64, func(*rule.Set) error) error { return nil }

// copyOf is what a batch is after it went over the wire.
func copyOf(b *ledger.Batch) ledger.Batch {
	sent := *b
	sent.Reply = nil
	sent.Asks = slices.Clone(b.Asks)

	for i := range sent.Asks {
		ask := &sent.Asks[i].Ask
		ask.Takes, ask.Needs = slices.Clone(ask.Takes), slices.Clone(ask.Needs)
	}

	return sent
}

// carry brings a call to a coordinator, the one that is in a place of their list.
func (f *fleet) carry(c *call, place int) {
	n := &f.net
	if n.down || c.from.cut || f.chance(n.lose) {
		return
	}

	c.from.prefer = place
	r := f.replicas[place%len(f.replicas)]
	r.calls = append(slices.DeleteFunc(r.calls, func(c *call) bool { return c.done }), c)
	f.after(f.delay(), nil, func() { f.reach(c, r) })

	if f.chance(n.double) {
		f.after(f.delay()+f.rnd.Int64N(n.lateBy+1), nil, func() { f.reach(c, r) })
	}

	if f.chance(n.replay) {
		f.after(1_000_000+f.rnd.Int64N(4_000_000), nil, func() { f.reach(c, r) })
	}
}

// reach has a coordinator answer a call.
func (f *fleet) reach(c *call, r *replica) {
	if r.down {
		f.after(f.delay(), c.from, func() { f.refused(c) })

		return
	}

	answers, err := r.coordinator.Acquire(context.Background(), &c.batch)
	if err == nil {
		if c.took == 0 {
			c.took = f.now
		}

		f.tally.granted(&c.batch, answers)
	}

	n := &f.net

	switch {
	case r.dumb, n.down, c.from.cut, f.chance(n.lose):
		return
	case f.chance(n.stale):
		answers, c.from.old = c.from.old, answers
	case f.chance(n.foreign) && err == nil:
		answers = f.foreign(answers)
	case err == nil:
		c.from.old = answers
	}

	d := f.delay()
	if f.chance(n.late) {
		d += n.lateBy
	}

	f.after(d, c.from, func() { f.answer(c, answers, err) })
}

// foreign returns answers that give a thousand tokens more each, and that a holder can tell from
// its coordinator's: by an older rule set, by their number, by their seq, or since they know no rule.
func (f *fleet) foreign(given *ledger.Answers) *ledger.Answers {
	answers := *given
	answers.Keys = slices.Clone(given.Keys)
	kind := f.rnd.IntN(4)

	for i := range answers.Keys {
		a := &answers.Keys[i].Answer
		a.Granted += 1_000

		switch kind {
		case 0:
			answers.Version = 0
		case 1:
			answers.Keys = append(answers.Keys, answers.Keys[i])
		case 2:
			a.Seq++
		case 3:
			a.Terms = ledger.Terms{}
		}
	}

	return &answers
}

// refused has a call go to the next coordinator, with the same seq, or fail after the last.
func (f *fleet) refused(c *call) {
	c.refused++

	switch {
	case c.done:
	case c.refused < len(f.replicas):
		f.carry(c, c.from.prefer+1)
	default:
		f.answer(c, nil, errRefused)
	}
}

// answer gives a call its answer, unless nobody waits for one any more.
func (f *fleet) answer(c *call, answers *ledger.Answers, err error) {
	if c.done {
		return
	}

	if answers == nil && err == nil {
		err = errRefused
	}

	c.done, c.answers, c.err = true, answers, err
	f.wake(c.waits.coroutine, c.waits.task)
}

// delay is how long a message takes, µs.
func (f *fleet) delay() int64 {
	d := f.spread(f.net.least, f.net.mean)
	if f.net.tail > 0 && f.rnd.IntN(100) == 0 {
		d += f.rnd.Int64N(f.net.tail)
	}

	return d
}

func (f *fleet) chance(p float64) bool { return p > 0 && f.rnd.Float64() < p }

// beatReplicas has the coordinators tell the store who lives.
func (f *fleet) beatReplicas() {
	for _, r := range f.replicas {
		if r.down {
			continue
		}

		if err := r.coordinator.Beat(context.Background()); err != nil {
			f.fail(err)
		}
	}
}
