package table_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/table"
)

// With one holder every answer is the one that a central counter would give,
// whatever is leased, renewed and returned behind it.
func TestAloneItAnswersLikeACentralCounter(t *testing.T) {
	t.Parallel()

	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		limit := []int64{5, 7, 34, 100, 999, 1000, 20_000}[rnd.IntN(7)]
		burst := []int64{1, 10, 14, limit, 3 * limit}[rnd.IntN(5)]
		load := []float64{0.3, 0.8, 0.99, 2, 20}[rnd.IntN(5)]
		ttl := []string{"500ms", "10s"}[rnd.IntN(2)] // whatever the TTL
		r := newRig(t, 1, fmt.Sprintf("rules: [{id: r, keyBy: user, limit: %d, window: 1s, burst: %d, lease: {ttl: %s}}]", limit, burst, ttl))
		b, _ := rate.NewBucket(limit, sec, burst)
		gap := float64(sec) / (float64(limit) * load)

		var twin rate.Time

		for i := range 400 {
			n := int64(1)
			if rnd.IntN(20) == 0 {
				n = 1 + rnd.Int64N(min(burst, 5))
			}

			got := r.take(0, "r", "k", n)

			var want bool
			if twin, want = b.Take(r.now, twin, n); (got.Kind == table.Allowed) != want {
				t.Fatalf("seed %d (%d/s, burst %d, load %v), request %d for %d: %+v, a central counter says %v, %d left",
					seed, limit, burst, load, i, n, got, want, b.Avail(r.now, twin))
			}

			if !want && got.RetryAfter != b.Wait(r.now, twin, n) {
				t.Fatalf("seed %d, request %d: retry after %d, a central counter says %d", seed, i, got.RetryAfter, b.Wait(r.now, twin, n))
			}

			d := int64(rnd.ExpFloat64() * gap)
			if rnd.IntN(50) == 0 {
				d += rnd.Int64N(2 * sec)
			}

			r.wait(d)
		}
	}
}

// A low limit over several servers is neither multiplied nor divided away.
func TestLowLimitsOverSeveralHolders(t *testing.T) {
	t.Parallel()

	t.Run("ten requests to each of three", func(t *testing.T) {
		t.Parallel()

		r := newRig(t, 3, "rules: [{id: r, keyBy: user, limit: 10, window: 60s}]")
		if n := r.times(0, "r", "k", 10) + r.times(1, "r", "k", 10) + r.times(2, "r", "k", 10); n != 10 {
			t.Errorf("%d passed, want 10", n)
		}
	})

	t.Run("one request to each of sixteen", func(t *testing.T) {
		t.Parallel()

		r := newRig(t, 16, "rules: [{id: r, keyBy: user, limit: 5, window: 60s}]")

		for i := range 16 {
			if n := r.times(i, "r", "k", 1); (n == 1) != (i < 5) {
				t.Errorf("holder %d: %d passed", i, n)
			}
		}
	})

	t.Run("all through one of three", func(t *testing.T) {
		t.Parallel()

		r := newRig(t, 3, "rules: [{id: r, keyBy: user, limit: 7, window: 60s}]")
		if n := r.times(2, "r", "k", 20); n != 7 {
			t.Errorf("%d passed, want 7", n)
		}
	})
}

// A caller of several servers who wants all that there is of a slow limit has it soon: nothing is held back for hours
// because hardly anything comes back.
func TestASlowLimitIsGivenOutWhole(t *testing.T) {
	t.Parallel()

	for _, holders := range []int{2, 3, 8} {
		r := newRig(t, holders, "rules: [{id: r, keyBy: user, limit: 6000, window: 1h}]")
		passed := make([]int, holders)
		all := 0

		for range 10_000 {
			for i := range holders {
				n := r.times(i, "r", "k", 1)
				passed[i] += n
				all += n
			}

			r.wait(ms)
		}

		// 17 tokens have come back.
		if all < 5_950 || all > 6_017 {
			t.Errorf("%d servers: %d of 6,000 passed in 10 s: %d", holders, all, passed)
		}
	}
}

// Servers that want alike of a slow limit get alike: who has had a turn is remembered until the next one.
func TestASlowLimitIsSharedFairly(t *testing.T) {
	t.Parallel()

	for _, holders := range []int{2, 4} {
		r := newRig(t, holders, "rules: [{id: r, keyBy: user, limit: 6000, window: 1m}]")
		passed := make([]int, holders)

		for at := range 20_000 {
			if at == 10_000 { // what was there at the beginning is gone
				clear(passed)
			}

			for i := range holders {
				passed[(i+at)%holders] += r.times((i+at)%holders, "r", "k", 1)
			}

			r.wait(ms)
		}

		for i, n := range passed {
			if part := 1_000 / holders; n < part*85/100 || n > part*115/100 {
				t.Errorf("server %d of %d: %d of 1,000 passed, want %d", i, holders, n, part)
			}
		}
	}
}

// Peeking tells what taking would get, and changes nothing.
func TestPeekChangesNothing(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 1, window: 1h}]")

	for i := range 3 {
		if got := r.peek(0, "r", "k"); got.Kind != table.Allowed || got.Remaining != 1 {
			t.Fatalf("peek %d: %+v", i, got)
		}
	}

	if n := r.times(0, "r", "k", 2); n != 1 {
		t.Fatalf("%d of 2 passed, want 1", n)
	}

	r.wait(2 * sec)

	if got := r.peek(0, "r", "k"); got.Kind != table.OverLimit || got.RetryAfter != 3598*sec {
		t.Fatalf("peek when empty: %+v", got)
	}
}

// Remaining counts down as a central counter's would, and a cost above the capacity is told apart.
func TestWhatADecisionSays(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 10, window: 60s}]")

	for i, c := range []struct {
		cost, remaining int64
		kind            table.Kind
	}{
		{8, 2, table.Allowed}, {5, 2, table.OverLimit}, {1, 1, table.Allowed}, {1, 0, table.Allowed},
		{1, 0, table.OverLimit}, {11, 0, table.CostExceeds},
	} {
		got := r.take(0, "r", "k", c.cost)
		if got.Kind != c.kind || got.Remaining != c.remaining || got.Burst != 10 {
			t.Errorf("step %d, cost %d: %+v", i, c.cost, got)
		}

		if (c.kind == table.OverLimit) != (got.RetryAfter > 0) {
			t.Errorf("step %d: retry after %d µs", i, got.RetryAfter)
		}
	}
}

// A refund is back at once, and never lifts the key above its limit.
func TestRefunds(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: r, keyBy: user, limit: 10, window: 1h}]")

	var paid []table.Charge

	for range 10 {
		out := r.take(0, "r", "k", 1)
		paid = append(paid, out.Charge)
	}

	if n := r.times(0, "r", "k", 1) + r.times(1, "r", "k", 1); n != 0 {
		t.Fatalf("%d passed above the limit", n)
	}

	r.holders[0].Refund(paid[0])

	if n := r.times(0, "r", "k", 2); n != 1 {
		t.Errorf("%d passed after one refund, want 1", n)
	}

	for _, c := range paid[1:] {
		for range 5 {
			r.holders[0].Refund(c)
		}
	}

	r.wait(sec)

	if n := r.times(0, "r", "k", 20); n != 10 {
		t.Errorf("%d passed after many refunds, want 10", n)
	}
}

// A request that one rule refuses is charged to none.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: wide, keyBy: user, limit: 100, window: 1h}, {id: tight, keyBy: user, limit: 5, window: 1h}]")
	passed := 0

	for i := range 40 {
		h := r.holders[i%2]
		hits := []table.Hit{{Rule: h.Rule("wide"), Key: "k", Cost: 1}, {Rule: h.Rule("tight"), Key: "k", Cost: 1}}

		switch worst := h.TakeAll(t.Context(), hits); {
		case worst < 0:
			passed++
		case hits[worst].Rule.ID() != "tight":
			t.Fatalf("request %d was refused by %q", i, hits[worst].Rule.ID())
		case hits[worst].Out.RetryAfter <= 0:
			t.Fatalf("request %d: no retry after: %+v", i, hits[worst].Out)
		}
	}

	if passed != 5 {
		t.Errorf("%d passed, want 5", passed)
	}

	r.wait(2 * sec) // what was leased for refused requests comes back

	if n := r.times(0, "wide", "k", 200); n != 95 {
		t.Errorf("%d left under the wide rule, want 95", n)
	}
}

// Costs larger than a lease may be pass under several rules, too.
func TestAllOrNothingWithLargeCosts(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 10, window: 1h}, {id: b, limit: 10, window: 1h}]")
	h := r.holders[0]
	hits := func() []table.Hit {
		return []table.Hit{{Rule: h.Rule("a"), Key: "k", Cost: 10}, {Rule: h.Rule("b"), Key: "", Cost: 10}}
	}

	if worst := h.TakeAll(t.Context(), hits()); worst >= 0 {
		t.Fatal("the whole capacity was refused")
	}

	if worst := h.TakeAll(t.Context(), hits()); worst < 0 {
		t.Fatal("the capacity was given twice")
	}
}

// Reset says when a central counter would be full again, however much of a lease is spent.
func TestResetCountsWhatWasSpentFromALease(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 1000, window: 1000s}]")

	for i := range int64(500) {
		got := r.take(0, "r", "k", 1)
		if want := (i + 1) * sec; got.Reset > want || got.Reset < want-(r.now-1_000_000_000)-1 || got.Remaining != 999-i {
			t.Fatalf("request %d: %+v, want a reset of about %d", i, got, want)
		}

		r.wait(ms)
	}
}
