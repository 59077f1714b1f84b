package rpc

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

const (
	surveyEvery   = 10 * time.Second
	resurveyEvery = time.Second // after a conflict
)

// survey asks, now and then and in the background, every replica which store it
// has. Calls go to one replica only, so nothing else would show that the one
// next to it, which other holders call, counts for itself. As a side effect a
// broken replica is probed before a request has to.
func (c *Client) survey() {
	if len(c.replicas) < 2 {
		return
	}

	every := surveyEvery
	if c.binding.mixed.Load() != nil {
		every = resurveyEvery
	}

	now, last := int64(max(1, c.now())), c.surveyed.Load()
	if last != 0 && now-last < int64(every) || !c.surveyed.CompareAndSwap(last, now) {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closing.Err() == nil {
		c.background.Go(c.compare)
	}
}

// compare asks every replica for its store, and notes two that differ.
func (c *Client) compare() {
	ctx, cancel := context.WithTimeout(c.closing, c.config.Timeout)
	defer cancel()

	var (
		first *replica
		store uint64
		mixed *MixedError
	)

	for _, r := range c.replicas {
		found, err := c.storeOf(ctx, r)

		switch {
		case err != nil:
			continue
		case first == nil:
			first, store = r, found
		case found != store && mixed == nil:
			mixed = &MixedError{A: first.url, B: r.url}
		}
	}

	if ctx.Err() != nil {
		return // half a survey says nothing
	}

	// A conflict is logged when it begins and when it is over, not with every call that it costs.
	switch before := c.binding.mixed.Swap(mixed); {
	case mixed != nil && before == nil:
		c.config.Logger.Error("nothing is leased: the coordinators do not fit together", "error", mixed)
	case mixed == nil && before != nil:
		c.config.Logger.Info("the coordinators fit together again")
	}
}

// storeOf asks one replica for its store, by a batch without asks.
func (c *Client) storeOf(ctx context.Context, r *replica) (uint64, error) {
	answers, err := c.greet(ctx, r, false)
	if err != nil {
		return 0, err
	}

	return answers.Store, nil
}

// greet sends one replica a batch without asks, which changes nothing. For a visit it is not counted among the holders.
func (c *Client) greet(ctx context.Context, r *replica, visit bool) (*ledger.Answers, error) {
	ok, probe := r.enter(c.now())
	if !ok {
		return nil, ErrUnavailable
	}

	// Batches without asks touch no ledger, so their seqs may be any that no other answer has.
	seq := maxNumber/2 + rand.Uint64N(maxNumber/2)
	batch := &ledger.Batch{Holder: c.config.Holder, Name: c.config.Name, Seq: seq, Version: c.newest.Load(), Visit: visit}

	return c.ask(ctx, call{r, probe, true, &batchWire{request: appendBatch(nil, batch)}, batch})
}
