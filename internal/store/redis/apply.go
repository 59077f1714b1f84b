package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/store"
)

const (
	// maxRounds is how often an op goes out that a node refuses before it does anything.
	maxRounds = 4
	// firstPause is how long a slot that is on its way to another node is given; each time twice as long.
	firstPause = time.Millisecond
)

// A call is one Apply under way.
type call struct {
	store   *Store
	ops     []store.Op
	results []store.Result
	open    []int // ops without an answer that may go out
}

// Apply applies the ops, all nodes at once; see store.Store. Ops of a node that
// does not answer in three quarters of ctx's time, or a second without one, get an error.
func (s *Store) Apply(ctx context.Context, ops []store.Op, results []store.Result) {
	ops = ops[:min(len(ops), len(results))]

	c := &call{store: s, ops: ops, results: results}

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
	s, pause := c.store, firstPause

	s.counts.ops.Add(int64(len(c.open)))

	for round := 1; len(c.open) > 0; round++ {
		seen := s.library.loads.Load()
		refused := c.send(ctx)

		switch {
		case refused == none || round == maxRounds:
			return
		case refused == unknownFunction:
			s.counts.again.Add(int64(len(c.open)))
			s.library.load(ctx, s.client, seen)
		case !sleep(ctx, pause):
			return
		default:
			s.counts.again.Add(int64(len(c.open)))

			pause *= 2
		}
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

// send sends what is open, takes in what comes of it, and leaves open what was
// refused before anything was done.
func (c *call) send(ctx context.Context) (refused refusal) {
	commands := make([]rueidis.Completed, len(c.open))

	var now string
	if c.store.clock != nil {
		now = decimal(c.store.clock())
	}

	for k, i := range c.open {
		commands[k] = c.store.command(&c.ops[i], now)
	}

	sent := c.open
	c.open = sent[:0] // what is written lies behind what is read

	for k, response := range c.store.client.DoMulti(ctx, commands...) {
		i := sent[k]
		result := &c.results[i]
		*result = store.Result{}

		bytes, err := response.AsBytes()
		if err == nil {
			result.Answer, result.Err = readAnswer(bytes, &c.ops[i].Terms)

			continue
		}

		if again := refusalOf(err); again != none {
			refused = max(refused, again)
			c.open = append(c.open, i)
		}

		result.Err = fmt.Errorf("rule %q: Redis: %w", c.ops[i].Key.Rule, err)
	}

	return refused
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

// command returns one op as Redis is told it. It keeps no part of the op.
func (s *Store) command(op *store.Op, now string) rueidis.Completed {
	at := s.names.place(op.Key)
	bytes := make([]byte, 0, 4+64+1+13*8+2+8*(len(op.Ask.Takes)+len(op.Ask.Needs)))
	bytes = appendTerms(bytes, &op.Terms)
	n := len(bytes)
	bytes = appendAsk(bytes, &op.Ask)

	return s.client.B().Fcall().Function(s.library.op).Numkeys(3).Key(at.group, at.held, at.mark).
		Arg(at.name, rueidis.BinaryString(bytes[:n]), rueidis.BinaryString(bytes[n:]), s.least, now).Build()
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
