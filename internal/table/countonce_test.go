package table_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
)

// crowd are tables of one store of which the second leases what the others borrow, and what was decided by each.
type crowd struct {
	*bank

	tables          [3]*table.Table
	net             [2]atomic.Int64 // tokens that were taken and not given back, by key
	allowed, denied [3]atomic.Int64 // requests, by table
}

func (c *crowd) key(k int) string { return string(rune('a' + k)) }

// owed is a charge that is to be given back later.
type owed struct {
	charge table.Charge
	key    int
	tokens int64
}

// act sends requests to a table, of which some are given back, now or much later.
func (c *crowd) act(at int, random *rand.Rand) {
	tb := c.tables[at]
	r, other, window := tb.Rule("r"), tb.Rule("other"), tb.Rule("w")

	var back []owed

	for range 2_000 {
		k, n := random.IntN(len(c.net)), 1+random.Int64N(3)
		hits := []table.Hit{{Rule: r, Key: c.key(k), Cost: n}, {Rule: other, Key: "all", Cost: n}, {Rule: window, Key: "all", Cost: n}}
		var passed bool

		switch random.IntN(12) {
		case 0:
			tb.Stats()

			continue
		case 1:
			if len(back) > 0 {
				tb.Refund(back[0].charge)
				c.net[back[0].key].Add(-back[0].tokens)
				back = back[1:]
			}

			continue
		case 2:
			if c.remote(c.key(k)) {
				c.net[k].Add(1)
			}

			continue
		case 3, 4:
			passed = tb.TakeAll(context.Background(), hits) < 0
		default:
			r.Take(context.Background(), c.key(k), n, &hits[0].Out)
			passed = hits[0].Out.Kind == table.Allowed
		}

		switch {
		case passed:
			c.allowed[at].Add(1)
			c.net[k].Add(n)

			if random.IntN(3) == 0 {
				back = append(back, owed{hits[0].Out.Charge, k, n})
			}
		case hits[0].Out.Kind != table.Allowed:
			c.denied[at].Add(1)
		}
	}
}

// Each request is counted once, and each token is somewhere, where some borrow buckets whole that others lease tokens of.
func TestBorrowedAndLeasedEachIsCountedOnce(t *testing.T) {
	t.Parallel()

	const (
		burst = 3_000
		doc   = "rules: [{id: r, keyBy: user, limit: 3000, window: 8784h}, {id: other, keyBy: user, limit: 800, window: 8784h}, " +
			"{id: w, keyBy: user, algorithm: fixed_window, limit: 100000000, window: 8784h}]"
	)

	c := &crowd{bank: newBank(t, nil, memory.Config{})}
	c.book.Lengthen(time.Hour)

	for i := range c.tables { // none decides by itself, and no lease expires, however slow this machine is
		c.tables[i] = table.New(c.coord, table.Config{Inline: i != 1, Deadline: time.Minute})
	}

	c.apply(doc, c.tables[:]...)

	var running, acting sync.WaitGroup

	ctx, stop := context.WithCancel(t.Context())

	for _, tb := range c.tables {
		running.Go(func() { tb.Run(ctx) })
	}

	for w := range 6 {
		acting.Go(func() { c.act(w%len(c.tables), rand.New(rand.NewPCG(uint64(w), 1))) })
	}

	acting.Wait()

	for _, tb := range c.tables {
		if err := tb.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}

	stop()
	running.Wait()

	for i, tb := range c.tables {
		var allowed, denied int64

		of := tb.Stats().Rules[0]
		for origin := range of.Allowed {
			allowed, denied = allowed+of.Allowed[origin], denied+of.Denied[origin]
		}

		if allowed != c.allowed[i].Load() || denied != c.denied[i].Load() {
			t.Errorf("table %d counted %d allowed and %d denied; there were %d and %d",
				i, allowed, denied, c.allowed[i].Load(), c.denied[i].Load())
		}
	}

	for k := range c.net {
		left := int64(0)
		for c.remote(c.key(k)) {
			left++
		}

		if got := c.net[k].Load() + left; got > burst {
			t.Errorf("key %s: %d taken and %d left, %d in all, of %d", c.key(k), c.net[k].Load(), left, got, burst)
		}
	}
}

// A request that is paid with what is left of a lease and a take for the rest is one request.
func TestARequestOfLeaseAndTakeIsCountedOnce(t *testing.T) {
	t.Parallel()

	now := rigStart
	b := newBank(t, func() int64 { return now }, memory.Config{})
	clock := table.NewVirtualClock(now)
	tb := table.New(b.coord, table.Config{Inline: true, Clock: clock})
	b.apply("rules: [{id: r, keyBy: user, algorithm: fixed_window, limit: 1000, window: 1h}]", tb)

	var want, got int64

	for i := range int64(40) {
		var out table.Outcome

		tb.Rule("r").Take(t.Context(), "k", 1+i*7%40, &out)

		if out.Kind == table.Allowed {
			want++
		}
	}

	for _, n := range tb.Stats().Rules[0].Allowed {
		got += n
	}

	if got != want {
		t.Errorf("counted %d requests, want %d", got, want)
	}
}
