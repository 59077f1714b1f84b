package redis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/store"
)

// looks is how often an op looks for its ledger in a slot that is on its way: it may be put elsewhere meanwhile.
const looks = 3

// A where says in which key of its hash slot an op is to look for its ledger, in the words of move.lua.
type where string

const (
	inHeld  where = "held"
	inGroup where = "group"
	inMark  where = "mark"
	begun   where = "begun" // in the group, where it begins if it is not there
)

// A mover is an op whose hash slot is on its way to another node, so that only
// commands that name one key are run: see move.lua.
type mover struct {
	op   int // in the call
	at   place
	loss string // of the slot, µs; "" while it is not known
}

// move does the ops one key at a time, all of them at once, and sees to the result of each.
func (c *call) move(ctx context.Context, ops []int) {
	c.store.counts.again.Add(int64(len(ops)))

	movers := make([]mover, len(ops))
	for k, i := range ops {
		movers[k] = mover{op: i, at: c.store.names.place(c.ops[i].Key)}
	}

	next := inGroup

	for range looks {
		movers = c.look(ctx, movers, inHeld)
		movers = c.look(ctx, movers, next)

		if len(movers) == 0 {
			return
		}

		if next == inGroup {
			movers, next = c.look(ctx, movers, inMark), begun
		}
	}

	for k := range movers {
		c.fail(movers[k].op, fmt.Errorf("its slot is on its way to another node, and it was not found on either in %d tries", looks))
	}
}

// look has the movers look in one of their keys, and returns those that have to look on.
func (c *call) look(ctx context.Context, movers []mover, in where) (on []mover) {
	for _, again := range []bool{true, false} {
		if len(movers) == 0 {
			break
		}

		seen := c.store.library.loads.Load()
		found, unknown := c.lookOnce(ctx, movers, in)
		on = append(on, found...)

		if again && len(unknown) > 0 { // a node that is new to the cluster
			c.store.library.load(ctx, c.store.client, seen)
		}

		movers = unknown
	}

	return on
}

// lookOnce sends what look says. unknown are those of a node that does not know the function.
func (c *call) lookOnce(ctx context.Context, movers []mover, in where) (on, unknown []mover) {
	commands := make([]rueidis.Completed, len(movers))
	now := c.store.told()

	for k := range movers {
		commands[k] = c.store.lookCommand(&c.ops[movers[k].op], &movers[k], in, now)
	}

	for k, response := range c.store.client.DoMulti(ctx, commands...) {
		m := movers[k]

		bytes, err := response.AsBytes()

		switch {
		case err != nil:
			c.fail(m.op, err)

			if refusalOf(err) == unknownFunction {
				unknown = append(unknown, m)
			}
		case in == inMark:
			m.loss = string(bytes)
			on = append(on, m)
		case len(bytes) == 0:
			on = append(on, m)
		default:
			c.take(m.op, bytes)
		}
	}

	return on, unknown
}

// lookCommand returns what Redis is told of one look.
func (s *Store) lookCommand(op *store.Op, m *mover, in where, now string) rueidis.Completed {
	key := m.at.group

	switch in {
	case inHeld:
		key = m.at.held
	case inMark:
		key = m.at.mark
	case inGroup, begun:
	}

	return s.client.B().Fcall().Function(s.library.move).Numkeys(1).Key(key).
		Arg(m.at.name, termsBytes(&op.Terms), askBytes(&op.Ask), s.least, now, string(in), m.at.held, m.loss).Build()
}
