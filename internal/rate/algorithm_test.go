package rate_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// every returns one counter of each algorithm. A bucket's burst is its limit.
func every(t *testing.T, limit, length int64) map[string]counter {
	t.Helper()

	return map[string]counter{
		"token bucket":    bucketOf(t, limit, length, limit),
		"leaky bucket":    bucketOf(t, limit, length, limit),
		"fixed window":    aligned(limit, length),
		"sliding counter": slide(limit, length),
		"sliding log":     logOf(limit, length),
	}
}

func TestAlgorithmsThatLease(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		algorithm        rate.Algorithm
		leases, windowed bool
	}{
		{rate.TokenBucket, true, false},
		{rate.FixedWindow, true, true},
		{rate.SlidingWindow, true, true},
		{rate.SlidingLog, false, false},
		{rate.LeakyBucket, false, false},
	} {
		if c.algorithm.Leases() != c.leases || c.algorithm.Windowed() != c.windowed {
			t.Errorf("algorithm %d: leases %v, windowed %v", c.algorithm, c.algorithm.Leases(), c.algorithm.Windowed())
		}
	}
}

// The limit, and not one less or more, whatever the algorithm.
func TestLimitIsTheLimit(t *testing.T) {
	t.Parallel()

	for _, limit := range []int64{1, 5, 7} {
		for name, c := range every(t, limit, 60*sec) {
			for left := limit - 1; left >= 0; left-- {
				if !take(c, 0, 1) || c.left(0) != left {
					t.Errorf("%s of %d: %d left, want %d", name, limit, c.left(0), left)
				}
			}

			if take(c, 0, 1) || c.left(0) != 0 || c.wait(0, 1) <= 0 {
				t.Errorf("%s of %d: one more passed, or %d left, or a wait of %d", name, limit, c.left(0), c.wait(0, 1))
			}
		}
	}
}

func TestRefusedCostTakesNothing(t *testing.T) {
	t.Parallel()

	for name, c := range every(t, 10, 60*sec) {
		for i, s := range []struct {
			n, left int64
			ok      bool
		}{{8, 2, true}, {5, 2, false}, {1, 1, true}, {0, 1, true}, {1, 0, true}, {1, 0, false}} {
			if ok := take(c, 0, s.n); ok != s.ok || c.left(0) != s.left {
				t.Errorf("%s, step %d: allowed %v, left %d; want %v, %d", name, i, ok, c.left(0), s.ok, s.left)
			}
		}
	}
}

func TestCostAboveTheCapacityNeverPasses(t *testing.T) {
	t.Parallel()

	for name, c := range every(t, 3, 2*sec) {
		if take(c, 0, 4) || c.wait(0, 4) != -1 {
			t.Errorf("%s: a cost of 4 of 3 passed, or is told to wait %d", name, c.wait(0, 4))
		}

		if !take(c, 0, 3) || c.wait(0, 4) != -1 {
			t.Errorf("%s: a cost of 3 of 3 was refused, or 4 told to wait %d", name, c.wait(0, 4))
		}
	}
}

// What a double burst around an edge gets: only fixed windows let it through.
func TestDoubleBurstAtAnEdge(t *testing.T) {
	t.Parallel()

	second := map[string]int64{"fixed window": 60, "token bucket": 0, "leaky bucket": 0, "sliding counter": 0, "sliding log": 0}
	for name, c := range every(t, 60, 60*sec) {
		if n := admits(c, 59_900*ms, 60); n != 60 {
			t.Errorf("%s: %d of 60 before the edge", name, n)
		}

		if n := admits(c, 60*sec, 60); n != second[name] {
			t.Errorf("%s: %d of 60 after the edge, want %d", name, n, second[name])
		}
	}
}

// The first period of a greedy caller: a bucket admits its burst and what
// refills, a log its limit.
func TestFirstPeriodOfAGreedyCaller(t *testing.T) {
	t.Parallel()

	want := map[string]int64{"token bucket": 29, "leaky bucket": 29, "fixed window": 15, "sliding counter": 15, "sliding log": 15}
	for name, c := range every(t, 15, 60*sec) {
		var got int64
		for now := int64(0); now < 60*sec; now += 50 * ms {
			got += admits(c, now, 1)
		}

		if got != want[name] {
			t.Errorf("%s: %d in the first minute, want %d", name, got, want[name])
		}
	}

	var (
		b   = bucketOf(t, 17, 30*sec, 17)
		got int64
	)

	for i := range int64(30) {
		got += admits(b, i*sec, 1) + admits(b, i*sec+250*ms, 1)
	}

	if got != 33 {
		t.Errorf("two a second of 17 in 30 s: %d, want 33", got)
	}
}

// 8 in 5 s is 1.6 a second: neither 2 nor 1.
func TestLimitBetweenWholeRates(t *testing.T) {
	t.Parallel()

	var (
		b   = bucketOf(t, 8, 5*sec, 1)
		got int64
	)

	for now := int64(0); now < 50*sec; now += 10 * ms {
		got += admits(b, now, 1)
	}

	if got != 80 {
		t.Errorf("%d in 50 s, want 80", got)
	}
}

// After ten idle years there is one limit, and not one more.
func TestTenIdleYears(t *testing.T) {
	t.Parallel()

	for _, limit := range []int64{1, 7, 1_500, 600_000, 999_999} {
		for name, c := range every(t, limit, sec) {
			if !take(c, 0, limit) || !take(c, 3650*day, limit) || take(c, 3650*day, 1) {
				t.Errorf("%s of %d: not one limit after ten years, %d left", name, limit, c.left(3650*day))
			}
		}
	}
}

// No drift over long runs: a greedy caller who comes back exactly when told
// gets the exact count.
func TestGreedyCallersDoNotDrift(t *testing.T) {
	t.Parallel()

	const periods = 3

	for _, limit := range []int64{7, 1_500, 600_000, 999_999} {
		want := map[string]int64{
			"token bucket": limit + periods*limit,
			"leaky bucket": limit + periods*limit,
			"fixed window": limit * (periods + 1),
			"sliding log":  limit * (periods + 1),
			// The last token of each window that has a previous one comes back at
			// its very end, which is the next window's start: limit - 1 in each,
			// and the one of the edge.
			"sliding counter": limit + (periods-1)*(limit-1) + 1,
		}
		for name, c := range every(t, limit, sec) {
			var now, got int64
			for now <= periods*sec {
				n := c.left(now)
				c.add(now, n)
				got += n
				now += c.wait(now, 1)
			}

			if got != want[name] {
				t.Errorf("%s of %d: %d tokens in %d s, want %d", name, limit, got, periods, want[name])
			}
		}
	}
}
