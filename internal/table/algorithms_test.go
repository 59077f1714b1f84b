package table_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/table"
)

// central is one counter in one place, for any algorithm: what a fleet is measured against.
type central struct {
	algorithm string
	limit     int64
	length    int64 // µs
	bucket    rate.Bucket
	tat       rate.Time
	window    rate.Window
	log       []rate.Admission
}

func (c *central) roll(now int64) {
	c.window = c.window.Roll(rate.Aligned(now, c.length))
	c.log = rate.Log{Limit: c.limit, Length: c.length}.Prune(c.log, now)
}

func (c *central) avail(now int64) int64 {
	c.roll(now)

	switch c.algorithm {
	case "fixed_window":
		return max(0, c.limit-c.window.Used)
	case "sliding_window":
		return rate.Sliding{Limit: c.limit, Length: c.length}.Avail(c.window, now-c.window.Start)
	case "sliding_log":
		return c.limit - rate.Log{Limit: c.limit, Length: c.length}.Used(c.log)
	default:
		return c.bucket.Avail(now, c.tat)
	}
}

func (c *central) take(now, n int64) bool {
	if n > c.avail(now) {
		return false
	}

	c.window.Used += n
	c.log = rate.Log{Limit: c.limit, Length: c.length}.Add(c.log, now, n)
	c.tat, _ = c.bucket.Take(now, c.tat, n)

	return true
}

func (c *central) wait(now, n int64) int64 {
	switch c.algorithm {
	case "fixed_window":
		return rate.Aligned(now, c.length).End - now
	case "sliding_window":
		return rate.Sliding{Limit: c.limit, Length: c.length}.Wait(c.window, now-c.window.Start, n)
	case "sliding_log":
		return rate.Log{Limit: c.limit, Length: c.length}.Wait(c.log, now, n)
	default:
		return c.bucket.Wait(now, c.tat, n)
	}
}

// With one holder every algorithm gives the answers of a central counter, leases or not.
func TestAloneEveryAlgorithmIsACentralCounter(t *testing.T) {
	t.Parallel()

	for _, algorithm := range []string{"fixed_window", "sliding_window", "sliding_log", "leaky_bucket"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()

			for seed := range uint64(60) {
				rnd := rand.New(rand.NewPCG(seed, 11))
				limit := []int64{1, 5, 100, 1000}[rnd.IntN(4)]
				load := []float64{0.3, 0.8, 0.99, 2, 20}[rnd.IntN(5)]
				r := newRig(t, 1, fmt.Sprintf("rules: [{id: r, keyBy: user, algorithm: %s, limit: %d, window: 1s}]", algorithm, limit))
				bucket, _ := rate.NewBucket(limit, sec, limit)
				twin := &central{algorithm: algorithm, limit: limit, length: sec, bucket: bucket}
				gap := float64(sec) / (float64(limit) * load)

				for i := range 300 {
					n := int64(1)
					if rnd.IntN(20) == 0 {
						n = 1 + rnd.Int64N(min(limit, 5))
					}

					level := twin.bucket.Wait(r.now, twin.tat, limit)
					got := r.take(0, "r", "k", n)
					want := twin.take(r.now, n)

					if (got.Kind == table.Allowed) != want {
						t.Fatalf("seed %d (%d/s, load %v), request %d for %d at %d: %+v, a central counter says %v, %d left",
							seed, limit, load, i, n, r.now, got, want, twin.avail(r.now))
					}

					if wait := twin.wait(r.now, n); !want && got.RetryAfter != wait {
						t.Fatalf("seed %d (%d/s, load %v), request %d for %d at %d: retry after %d, a central counter says %d",
							seed, limit, load, i, n, r.now, got.RetryAfter, wait)
					}

					if got.Remaining != twin.avail(r.now) && got.Origin == table.FromStore {
						t.Fatalf("seed %d (%d/s), request %d: %d remaining, a central counter says %d", seed, limit, i, got.Remaining, twin.avail(r.now))
					}

					if want && algorithm == "leaky_bucket" && got.Delay != level {
						t.Fatalf("seed %d, request %d: a delay of %d, a central counter says %d", seed, i, got.Delay, level)
					}

					d := int64(rnd.ExpFloat64() * gap)
					if rnd.IntN(50) == 0 {
						d += rnd.Int64N(3 * sec)
					}

					r.wait(d)
				}
			}
		})
	}
}

// Several holders together never pass what one counter would admit in any window.
func TestHoldersTogetherKeepWindows(t *testing.T) {
	t.Parallel()

	for _, algorithm := range []string{"fixed_window", "sliding_window", "sliding_log"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()

			for seed := range uint64(20) {
				rnd := rand.New(rand.NewPCG(seed, 5))
				limit := []int64{1, 7, 100, 1000}[rnd.IntN(4)]
				r := newRig(t, 4, fmt.Sprintf("rules: [{id: r, keyBy: user, algorithm: %s, limit: %d, window: 1s}]", algorithm, limit))
				counts := map[int64]int64{} // by window, for the two that have edges

				var times []int64

				for range 3000 {
					if r.take(rnd.IntN(4), "r", "k", 1).Kind == table.Allowed {
						counts[r.now/sec]++
						times = append(times, r.now)
					}

					r.wait(rnd.Int64N(3*sec/limit+1) / 2)
				}

				admitted := int64(0)

				for w, n := range counts {
					admitted += n

					if n > limit {
						t.Fatalf("seed %d: %d admitted in window %d, limit %d", seed, n, w, limit)
					}
				}

				for i := int(limit); algorithm == "sliding_log" && i < len(times); i++ {
					if times[i]-times[i-int(limit)] < sec {
						t.Fatalf("seed %d: more than %d within a second at %d", seed, limit, times[i])
					}
				}

				if admitted == 0 {
					t.Fatalf("seed %d: nothing was admitted", seed)
				}
			}
		})
	}
}

// A day's budget ends with the day of its zone, whatever that day's length.
func TestCalendarWindows(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: day, keyBy: user, algorithm: fixed_window, limit: 5, window: 1d, timeZone: Europe/Berlin}]")

	if n := r.times(0, "day", "k", 4) + r.times(1, "day", "k", 4); n != 5 {
		t.Fatalf("%d passed, want 5", n)
	}

	// 1970-01-01 01:16:40 in Berlin.
	got := r.take(0, "day", "k", 1)
	if want := 23*3600*sec - 1000*sec; got.Kind != table.OverLimit || got.RetryAfter < want || got.RetryAfter > want+sec || got.Reset != want {
		t.Fatalf("%+v, want a wait of %d", got, want)
	}

	r.now += got.RetryAfter

	for _, h := range r.holders {
		h.clock.Set(r.now)
		h.Advance(r.now)
	}

	r.wait(100 * ms) // several holders come a little later than the edge, not all at once

	if n := r.times(0, "day", "k", 4) + r.times(1, "day", "k", 4); n != 5 {
		t.Fatalf("%d passed on the next day, want 5", n)
	}
}

// A request that a log or a leaky bucket refuses is charged to no other rule.
func TestAllOrNothingWithTakesOnly(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, `
rules:
  - {id: bucket, keyBy: user, limit: 100, window: 1h}
  - {id: log, keyBy: user, algorithm: sliding_log, limit: 3, window: 1h}
  - {id: leaky, keyBy: user, algorithm: leaky_bucket, limit: 3600, window: 1h, burst: 5}
`)
	h := r.holders[0]
	passed := 0

	for range 10 {
		hits := []table.Hit{{Rule: h.Rule("bucket"), Key: "k", Cost: 1}, {Rule: h.Rule("leaky"), Key: "k", Cost: 1}, {Rule: h.Rule("log"), Key: "k", Cost: 1}}
		if worst := h.TakeAll(t.Context(), hits); worst < 0 {
			passed++
		} else if hits[worst].Rule.ID() != "log" {
			t.Fatalf("refused by %q: %+v", hits[worst].Rule.ID(), hits[worst].Out)
		}
	}

	if passed != 3 {
		t.Errorf("%d passed, want 3", passed)
	}

	r.wait(2 * sec)

	if n := r.times(0, "bucket", "k", 200); n != 97 {
		t.Errorf("%d left in the bucket, want 97", n)
	}

	if n := r.times(0, "leaky", "k", 10); n != 4 {
		t.Errorf("%d left in the leaky bucket, want 2 and 2 that leaked", n)
	}
}

// A busy key's lease of the next window is there when that begins: nobody has to ask in the moment in which it turns.
func TestTheNextWindowIsLeasedAhead(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: r, keyBy: user, algorithm: fixed_window, limit: 10000, window: 1s}]")
	edge := r.now + sec

	for r.now < edge-5*ms {
		r.times(0, "r", "k", 5)
		r.times(1, "r", "k", 5)
		r.wait(5 * ms)
	}

	r.to(edge)

	for i, h := range r.holders {
		calls := h.gate.calls.Load()
		if out := r.take(i, "r", "k", 1); out.Kind != table.Allowed || out.Origin != table.FromLease || h.gate.calls.Load() != calls {
			t.Errorf("holder %d: the first request of the window: %+v, after %d calls", i, out, h.gate.calls.Load()-calls)
		}
	}

	// And together they still get no more than the limit in that window.
	passed := 2
	for range 30 {
		passed += r.times(0, "r", "k", 300) + r.times(1, "r", "k", 300)

		r.wait(30 * ms)
	}

	if passed != 10_000 {
		t.Errorf("%d passed in the window, want 10,000", passed)
	}
}
