package rpc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/rule"
)

// The backoff between two watches that brought nothing.
const (
	minRewatch = 50 * time.Millisecond
	maxRewatch = 500 * time.Millisecond
)

// Watch calls apply with the rules in force, unless the holder knows them, and
// with every newer set, from one coordinator or the next, until ctx ends; then it
// returns ctx's error. Versions only move forward. A set that apply refuses is not offered again.
func (c *Client) Watch(ctx context.Context, known uint64, apply func(*rule.Set) error) error {
	w := &watch{client: c, known: known, apply: apply}
	c.learn(known)

	backoff, waited := minRewatch, false

	for at := c.sticky.Load(); ctx.Err() == nil; at++ {
		r := c.living(at)

		switch dead := r.dead(c.now()); {
		case dead: // there is no connection
			c.await(ctx, jittered(backoff))
			backoff, waited = min(maxRewatch, 2*backoff), true

			continue
		case waited && r.open() && c.await(ctx, c.crowd.arrive(helloSpread)): // others waited, too
			continue // a call was answered, and has had its turn
		}

		waited = false

		heard, err := w.from(ctx, r)
		if heard {
			backoff = minRewatch
		}

		if err != nil && ctx.Err() == nil {
			r.trouble.Store(&err)
			c.rarely("rules are not watched any more, another coordinator is next", r, err)
			c.await(ctx, jittered(backoff))
			backoff = min(max(maxRewatch, c.crowd.pauses().longest), 2*backoff)
		}
	}

	return ctx.Err()
}

// living returns the first replica from index at on that is not broken, or the one at at.
func (c *Client) living(at int64) *replica {
	n := int64(len(c.replicas))

	for i := range n {
		if r := c.replicas[(at+i)%n]; !r.open() {
			return r
		}
	}

	return c.replicas[at%n]
}

// learn notes that rules of a version exist.
func (c *Client) learn(version uint64) {
	for {
		newest := c.newest.Load()
		if version <= newest || c.newest.CompareAndSwap(newest, version) {
			return
		}
	}
}

// watch is the state that outlives a stream.
type watch struct {
	client *Client
	known  uint64
	apply  func(*rule.Set) error
}

// from watches one replica until its stream ends. heard reports whether a set came.
func (w *watch) from(ctx context.Context, r *replica) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	r.watch.Store(&cancel) // when calls to it fail, its stream is as good as dead
	defer r.watch.CompareAndSwap(&cancel, nil)

	config := &w.client.config

	stream, err := r.stub.WatchRules(ctx, &leasewayv1.WatchRulesRequest{
		Holder: config.Holder, Name: cleanName(config.Name), KnownVersion: w.known, Overrides: true,
	}, grpc.WaitForReady(false))
	if err != nil {
		return false, err
	}

	for {
		msg, err := stream.Recv()
		if err != nil {
			return heard, err
		}

		if changed := msg.GetOverrides(); changed != nil && msg.GetEnvelope() == nil {
			w.client.overrides.tell(changed.GetRules())

			continue
		}

		if err := w.take(r, msg); err != nil {
			return heard, err
		}

		heard = true
	}
}

// take checks one rule set and passes it on, if it is newer. The error is one
// for which the replica is not to be watched further.
func (w *watch) take(r *replica, msg *leasewayv1.WatchRulesResponse) error {
	c := w.client
	rules := &leasewayv1.Rules{}

	if refusal := c.trust.open(rulesContext, msg.GetEnvelope(), rules); refusal != nil {
		return c.refuse(r, refusal)
	}

	if v := rules.GetVersion(); v <= w.known || v > maxNumber {
		return c.refuse(r, &refusal{CauseOlderRules, fmt.Errorf("it has rules of version %d, and this holder has %d", v, w.known)})
	}

	set, err := rule.Parse("rules of "+r.url, rules.GetDocument())
	if err == nil && set.Version != rules.GetVersion() {
		err = fmt.Errorf("the document has version %d, its message %d", set.Version, rules.GetVersion())
	}

	// What this holder cannot read it never can: the last good rules go on, and the stream with them.
	w.known = rules.GetVersion()

	if err != nil {
		err = c.refuse(r, &refusal{CauseMalformed, err})
	} else {
		c.learn(w.known)
		err = w.apply(set)
	}

	if err != nil {
		c.rarely("the rules of a coordinator were not taken", r, err)
	}

	return nil
}

// await returns after d or when ctx ends; and before, with true, when a coordinator answers that was taken for gone.
func (c *Client) await(ctx context.Context, d time.Duration) (back bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return false
	case <-c.back:
		return true
	}
}
