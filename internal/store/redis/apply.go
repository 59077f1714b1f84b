package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

// maxRounds is how often an op goes out to nodes that do not know the function.
const maxRounds = 3

// A call is one Apply under way.
type call struct {
	store   *Store
	ops     []store.Op
	results []store.Result
	open    []int // ops without an answer that may go out
	moving  []int // of them, those whose slot is on its way to another node
	apart   bool  // each goes out by itself
	unknown bool  // a node did not know a function
}

// Apply applies the ops, all nodes at once; see store.Store. Ops of a node that
// does not answer in half of ctx's time, or a second without one, get an error.
func (s *Store) Apply(ctx context.Context, ops []store.Op, results []store.Result) {
	ops = ops[:min(len(ops), len(results))]

	c := &call{store: s, ops: ops, results: results}

	s.closing.RLock() // what is under way ends before Close does
	defer s.closing.RUnlock()

	if err := s.usable(ctx); err != nil {
		for i := range ops {
			results[i] = store.Result{Err: err}
		}

		return
	}

	ctx, cancel := within(ctx)
	defer cancel()

	for i := range ops {
		if err := fits(&ops[i]); err != nil {
			results[i] = store.Result{Err: fmt.Errorf("rule %q: %w", ops[i].Key.Rule, err)}
		} else {
			c.open = append(c.open, i)
		}
	}

	c.rounds(ctx)
	s.counts.failures.Add(c.failures())
}

// rounds sends what is open until nothing is, or nothing that may go out again.
func (c *call) rounds(ctx context.Context) {
	s := c.store

	s.counts.ops.Add(int64(len(c.open)))

	for round := 1; len(c.open) > 0; round++ {
		seen := s.library.loads.Load()
		c.send(ctx)

		if len(c.moving) > 0 {
			c.move(ctx, c.moving)
		}

		if len(c.open) == 0 || round == maxRounds {
			return
		}

		s.counts.again.Add(int64(len(c.open)))

		if c.unknown {
			s.library.load(ctx, s.client, seen)
		}

		c.apart = true
	}
}

// usable returns why nothing can be asked of the store.
func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return ErrClosed
	}

	return ctx.Err()
}

// failures counts the ops without an answer.
func (c *call) failures() (n int64) {
	for i := range c.ops {
		if c.results[i].Err != nil {
			n++
		}
	}

	return n
}

// A refusal says why ops were refused by a node that did nothing for them.
type refusal int

const (
	none refusal = iota
	movingSlot
	unknownFunction
	elsewhere // by one that was asked for several ops at once, and does not have the keys of this one, or is no master any more
)

// send sends what is open, takes in what comes of it, and leaves open or moving
// what was refused before anything was done.
func (c *call) send(ctx context.Context) {
	sent := c.open
	c.open, c.moving, c.unknown = sent[:0], c.moving[:0], false // what is written lies behind what is read

	for k, reply := range c.store.exchange(ctx, c.errands(sent), c.apart) {
		i := sent[k]

		if reply.err == nil {
			c.take(i, reply.bytes)

			continue
		}

		c.fail(i, reply.err)

		switch refusalOf(reply.err) {
		case unknownFunction:
			c.open, c.unknown = append(c.open, i), true
		case elsewhere:
			c.open = append(c.open, i)
		case movingSlot:
			c.moving = append(c.moving, i)
		case none:
		}
	}
}

// An errand is an op as Redis is told it.
type errand struct {
	at         place
	terms, ask string // as Lua reads them
}

// errands returns what Redis is told of some ops. It keeps no part of them.
func (c *call) errands(ops []int) []errand {
	errands := make([]errand, len(ops))

	for k, i := range ops {
		op, e := &c.ops[i], &errands[k]
		e.at, e.ask = c.store.names.place(op.Key), askBytes(&op.Ask)

		if k > 0 && op.Terms == c.ops[ops[k-1]].Terms { // as of most, which are under one rule
			e.terms = errands[k-1].terms
		} else {
			e.terms = termsBytes(&op.Terms)
		}
	}

	return errands
}

// take takes in the answer to an op.
func (c *call) take(i int, bytes []byte) {
	result, op := &c.results[i], &c.ops[i]
	*result = store.Result{}
	result.Answer, result.Err = readAnswer(bytes, op, &c.store.lost)

	if forgotten(op, &result.Answer) {
		c.store.lost.leases.Add(1)
	}
}

// fail notes why an op has no answer.
func (c *call) fail(i int, err error) {
	c.results[i] = store.Result{Err: fmt.Errorf("rule %q: Redis: %w", c.ops[i].Key.Rule, err)}
}

// told returns the time that Redis is told, "" for its own.
func (s *Store) told() string {
	if s.clock == nil {
		return ""
	}

	return decimal(s.clock())
}

// refusalOf reports whether err says that nothing was done and that it is worth another try.
func refusalOf(err error) refusal {
	switch e, ok := rueidis.IsRedisErr(err); {
	case !ok:
		return none
	case isUnknown(e):
		return unknownFunction
	case e.IsTryAgain():
		return movingSlot
	case isElsewhere(e):
		return elsewhere
	default:
		return none
	}
}

// termsBytes returns terms as Lua reads them.
func termsBytes(terms *ledger.Terms) string {
	return rueidis.BinaryString(appendTerms(make([]byte, 0, maxTerms), terms))
}

// askBytes returns an ask as Lua reads it.
func askBytes(ask *ledger.Ask) string {
	return rueidis.BinaryString(appendAsk(make([]byte, 0, 1+13*8+2+8*(len(ask.Takes)+len(ask.Needs))), ask))
}

// sleep waits for d, and reports whether ctx lasted as long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
