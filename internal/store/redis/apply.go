package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

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
		s.library.load(ctx, s.client, seen)
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
)

// send sends what is open, takes in what comes of it, and leaves open or moving
// what was refused before anything was done.
func (c *call) send(ctx context.Context) {
	commands, slots := make([]rueidis.Completed, len(c.open)), make([]uint16, len(c.open))
	now := c.store.told()

	for k, i := range c.open {
		commands[k], slots[k] = c.store.command(&c.ops[i], now)
	}

	sent := c.open
	c.open, c.moving = sent[:0], c.moving[:0] // what is written lies behind what is read

	for k, reply := range c.store.exchange(ctx, commands, slots) {
		i := sent[k]

		if reply.err == nil {
			c.take(i, reply.bytes)

			continue
		}

		c.fail(i, reply.err)

		switch refusalOf(reply.err) {
		case unknownFunction:
			c.open = append(c.open, i)
		case movingSlot:
			c.moving = append(c.moving, i)
		case none:
		}
	}
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
	default:
		return none
	}
}

// command returns one op as Redis is told it, and its slot. It keeps no part of the op.
func (s *Store) command(op *store.Op, now string) (command rueidis.Completed, slot uint16) {
	at := s.names.place(op.Key)
	terms, ask := opBytes(op)

	call := s.client.B().Fcall().Function(s.library.op).Numkeys(3).Key(at.group, at.held, at.mark).Arg(at.name, terms, ask)
	if now != "" {
		call = call.Arg(s.least, now)
	}

	return call.Build(), at.slot
}

// opBytes returns the terms and the ask of an op, as Lua reads them.
func opBytes(op *store.Op) (terms, ask string) {
	bytes := make([]byte, 0, 4+64+1+13*8+2+8*(len(op.Ask.Takes)+len(op.Ask.Needs)))
	bytes = appendTerms(bytes, &op.Terms)
	n := len(bytes)
	bytes = appendAsk(bytes, &op.Ask)

	return rueidis.BinaryString(bytes[:n]), rueidis.BinaryString(bytes[n:])
}

// Commands returns the commands that Apply would send for ops, each with its arguments: what Redis itself needs for
// them, and what all else around it adds, is measured by these.
func (s *Store) Commands(ops []store.Op) [][]string {
	commands := make([][]string, len(ops))
	for i := range ops {
		command, _ := s.command(&ops[i], "")
		commands[i] = slices.Clone(command.Commands())
	}

	return commands
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
