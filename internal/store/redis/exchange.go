package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// A reply is what came of one errand.
type reply struct {
	bytes []byte
	err   error
}

// A group is the errands that one node is sent by one call, and what came of them.
type group struct {
	node    *node
	index   []int // of the errands in the call
	errands []errand
	apart   bool // each is a command of its own
	replies []reply
}

// exchange sends errands to the nodes that have their slots, to all at once, each by itself if apart, and
// returns the replies, in order. A node that is silent fails its own errands
// only: what the others answer is not kept waiting beyond a part of ctx's time.
func (s *Store) exchange(ctx context.Context, errands []errand, apart bool) []reply {
	replies := make([]reply, len(errands))
	asked := s.admitted(patience(ctx), errands, replies)

	for i := range asked {
		asked[i].apart = apart
	}

	if len(asked) == 1 { // as most calls are when keys are few: nobody is kept waiting
		s.ask(ctx, &asked[0])
		asked[0].deliver(replies)

		return replies
	}

	answers := make(chan *group, len(asked))
	for i := range asked {
		s.work.Go(func() {
			s.ask(ctx, &asked[i])
			answers <- &asked[i]
		})
	}

	for _, g := range gather(ctx, answers, len(asked)) {
		g.deliver(replies)
		g.index = nil
	}

	for i := range asked { // those that were not waited for
		for _, k := range asked[i].index {
			replies[k].err = fmt.Errorf("%w (%s)", errLate, asked[i].node.address)
		}
	}

	return replies
}

// admitted sorts errands by node, and gives those of silent nodes their reply.
func (s *Store) admitted(wait time.Duration, errands []errand, replies []reply) []group {
	now := s.elapsed()
	l := s.layout.Load()
	groups := make([]group, len(l.nodes))

	for k := range errands {
		g := &groups[l.bySlot[errands[k].at.slot]]
		g.index, g.errands = append(g.index, k), append(g.errands, errands[k])
	}

	asked := groups[:0]

	for i := range groups {
		g := groups[i]
		g.node = l.nodes[i]

		switch {
		case len(g.index) == 0:
		case g.node.admits(now, wait):
			asked = append(asked, g)
		default:
			for _, k := range g.index {
				replies[k].err = fmt.Errorf("%w (%s)", errSilent, g.node.address)
			}
		}
	}

	return asked
}

// ask sends one node its errands.
func (s *Store) ask(ctx context.Context, g *group) {
	answered, began, least := false, s.elapsed(), patience(ctx)

	if client := g.node.several(began); client == nil || g.apart || len(g.errands) == 1 {
		g.replies = s.askEach(ctx, g.errands)
	} else {
		g.replies = s.askTogether(ctx, g.node, client, g.errands)
	}

	for i := range g.replies {
		err := g.replies[i].err
		if _, refused := rueidis.IsRedisErr(err); err == nil || refused {
			answered = true
		}
	}

	// A call that was given up at once says nothing of the node.
	if now := s.elapsed(); answered || ctx.Err() == nil || now-began >= int64(least) {
		g.node.heard(answered, now)
	}

	if !answered {
		s.look() //nolint:contextcheck // it goes on when this call has ended; the node may have a successor
	}
}

// deliver puts the replies of the group where the call has them.
func (g *group) deliver(replies []reply) {
	for i, k := range g.index {
		replies[k] = g.replies[i]
	}
}

// gather waits for n groups, but when its patience is over only until there is one.
func gather(ctx context.Context, answers <-chan *group, n int) (in []*group) {
	timer := time.NewTimer(patience(ctx))
	defer timer.Stop()

	over := false

	for len(in) < n && (!over || len(in) == 0) {
		select {
		case g := <-answers:
			in = append(in, g)
		case <-timer.C:
			over = true
		}
	}

	return in
}

// patience is how long a call waits for nodes that are silent while others answer.
func patience(ctx context.Context) time.Duration {
	whole := idleTimeout
	if deadline, ok := ctx.Deadline(); ok {
		whole = time.Duration(float64(time.Until(deadline)) / callPart) // ctx has that part only, see within
	}

	return max(leastPatience, time.Duration(float64(whole)*patiencePart))
}

// elapsed is the time since the store's start, ns.
func (s *Store) elapsed() int64 { return int64(time.Since(s.began)) }
