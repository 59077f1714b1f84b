package coordinator

import (
	"context"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

// census is a store that knows only who lives.
type census struct {
	store.Store

	told int
}

func (c *census) Beat(_ context.Context, holders []uint64, _ time.Duration) (int64, error) {
	c.told += len(holders)

	return int64(c.told), nil
}

// Whoever invents incarnations fills a bounded map, and makes room again by going silent.
func TestInventedHoldersAreBounded(t *testing.T) {
	now := time.Unix(0, 0)
	c := &census{}
	p := newPresence(c, func() time.Time { return now })

	for holder := range uint64(maxPresent + 500) {
		p.see(t.Context(), &ledger.Batch{Holder: holder + 1}, nil)
	}

	if len(p.seen) != maxPresent || c.told != maxPresent {
		t.Errorf("%d remembered and %d told, want %d", len(p.seen), c.told, maxPresent)
	}

	now = now.Add(presenceTTL)

	if err := p.beat(t.Context()); err != nil {
		t.Fatal(err)
	}

	if len(p.seen) != 0 {
		t.Errorf("%d remembered after they went silent", len(p.seen))
	}

	p.see(t.Context(), &ledger.Batch{Holder: 1}, nil)

	if c.told != maxPresent+1 {
		t.Errorf("%d told: a holder that comes back is a new sight", c.told)
	}
}

// The store has forgotten who was silent for its TTL, so his return is news even before a beat noticed.
func TestWhoComesBackIsToldAgain(t *testing.T) {
	now := time.Unix(0, 0)
	c := &census{}
	p := newPresence(c, func() time.Time { return now })

	for _, step := range []struct {
		after time.Duration
		told  int
	}{{0, 1}, {presenceTTL - 1, 1}, {presenceTTL - 1, 1}, {presenceTTL, 2}, {0, 2}} {
		now = now.Add(step.after)

		p.see(t.Context(), &ledger.Batch{Holder: 1}, nil)

		if c.told != step.told {
			t.Errorf("%v after the last ask: told %d times, want %d", step.after, c.told, step.told)
		}
	}
}

func TestLogLinesAreRare(t *testing.T) {
	var n counts

	start := time.Unix(1_000, 0)
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Second, false}, {logEvery, true}, {logEvery + 1, false}, {2 * logEvery, true}, {0, true}} { // the last: the clock stepped back
		if got := n.mayLog(start.Add(step.after)); got != step.want {
			t.Errorf("after %v: %v, want %v", step.after, got, step.want)
		}
	}
}
