package redis

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/store"
)

const (
	// mostTogether is how many ops one command has at most: Redis does nothing else meanwhile, for half a millisecond, or one where all
	// are leases that twenty share. More saves nothing: a call takes as long as half of an op.
	mostTogether = 32
	// apartFor is how long each op is a command of its own where a node did not have the keys of any of several.
	apartFor = time.Second
)

// askTogether sends a node errands of any slots by a few commands, and returns the replies, in order. The commands name no
// key, so that Redis looks at each one that an op uses, whether it is this node's to use, and refuses the op if it is
// not: see ops in lua. They go to this node and no other, since who follows a slot that is on its way may use keys there of
// which another part is still here, and Redis could not tell.
func (s *Store) askTogether(ctx context.Context, n *node, client rueidis.Client, errands []errand) []reply {
	commands := make([]rueidis.Completed, 0, (len(errands)+mostTogether-1)/mostTogether)
	now := s.told()

	for rest := errands; len(rest) > 0; {
		some := rest[:min(len(rest), mostTogether)]
		commands, rest = append(commands, s.severalCommand(some, now)), rest[len(some):]
	}

	replies := make([]reply, 0, len(errands))

	for _, response := range client.DoMulti(ctx, commands...) {
		answers, err := response.ToArray()
		several := min(len(errands)-len(replies), mostTogether)

		if err == nil && len(answers) != several {
			err = errAnswer
		}

		for k := range several {
			if err != nil {
				replies = append(replies, reply{err: err})

				continue
			}

			bytes, err := answers[k].AsBytes()
			replies = append(replies, reply{bytes, err})
		}
	}

	s.heardElsewhere(n, replies) //nolint:contextcheck // it may look for longer than this call lasts

	return replies
}

// heardElsewhere looks where the slots are, if an op came to a node that does not have its slot.
func (s *Store) heardElsewhere(n *node, replies []reply) {
	refused := 0

	for i := range replies {
		if refusalOf(replies[i].err) == elsewhere {
			refused++
		}
	}

	if refused > 0 {
		s.look()
	}

	if refused == len(replies) {
		n.apart.Store(s.elapsed() + int64(apartFor))
	}
}

// askEach sends errands as a command each, wherever their slots are, and returns the replies, in order.
func (s *Store) askEach(ctx context.Context, errands []errand) []reply {
	commands, replies := make([]rueidis.Completed, len(errands)), make([]reply, len(errands))
	now := s.told()

	for k := range errands {
		commands[k] = s.oneCommand(&errands[k], now)
	}

	for k, response := range s.client.DoMulti(ctx, commands...) {
		bytes, err := response.AsBytes()
		replies[k] = reply{bytes, err}
	}

	return replies
}

// oneCommand returns an errand as Redis is told it.
func (s *Store) oneCommand(e *errand, now string) rueidis.Completed {
	call := s.client.B().Fcall().Function(s.library.op).Numkeys(3).Key(e.at.group, e.at.held, e.at.mark).Arg(e.at.name, e.terms, e.ask)
	if now != "" {
		call = call.Arg(s.least, now)
	}

	return call.Build()
}

// severalCommand returns errands as Redis is told them at once.
func (s *Store) severalCommand(errands []errand, now string) rueidis.Completed {
	call := s.client.B().Fcall().Function(s.library.ops).Numkeys(0).Arg(s.least, now)
	last := ""

	for k := range errands {
		e := &errands[k]
		terms := e.terms

		if terms == last {
			terms = "" // as before
		}

		call, last = call.Arg(terms, e.at.group, e.at.held[len(e.at.group):]+e.at.name+shortAsk(e.ask)), e.terms
	}

	return call.Build()
}

// isElsewhere reports whether a node refused since it is not, or not any more, the one to ask.
func isElsewhere(err *rueidis.RedisError) bool {
	text := err.Error()

	return strings.Contains(text, "non local key") || strings.HasPrefix(text, "READONLY")
}

// Commands returns the commands that Apply would send for ops to one server, each with its arguments: what Redis itself needs for
// them, and what all else around it adds, is measured by these.
func (s *Store) Commands(ops []store.Op) (commands [][]string) {
	c := &call{store: s, ops: ops}
	all := make([]int, len(ops))

	for i := range all {
		all[i] = i
	}

	for some := range slices.Chunk(c.errands(all), mostTogether) {
		command := s.severalCommand(some, "")
		commands = append(commands, slices.Clone(command.Commands()))
	}

	return commands
}
