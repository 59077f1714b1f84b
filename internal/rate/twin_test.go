package rate_test

import (
	"math/big"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/rate"
)

// The dumb twins remember every admission there ever was and count them anew
// for each question. Their clocks only go forward.

// fixedTwin counts per window.
type fixedTwin struct {
	limit, length int64
	counts        map[int64]int64 // by the window's number
}

func (w *fixedTwin) left(now int64) int64 { return w.limit - w.counts[now/w.length] }
func (w *fixedTwin) add(now, n int64)     { w.counts[now/w.length] += n }

func (w *fixedTwin) wait(now, n int64) int64 {
	return search(now, n, w.length, w.left)
}

// slidingTwin weighs the admissions of the previous window in exact fractions.
type slidingTwin struct {
	limit, length int64
	all           []rate.Admission
}

func (w *slidingTwin) left(now int64) int64 {
	var used, prev int64

	for _, a := range w.all {
		switch now/w.length - a.At/w.length {
		case 0:
			used += a.N
		case 1:
			prev += a.N
		}
	}

	// limit - used - prev × (1 - elapsed/window)
	free := big.NewRat(now%w.length, w.length)
	free.Sub(big.NewRat(1, 1), free).Mul(free, big.NewRat(prev, 1))
	free.Sub(big.NewRat(w.limit-used, 1), free)

	return max(0, floor(free))
}

func (w *slidingTwin) add(now, n int64) { w.all = append(w.all, rate.Admission{At: now, N: n}) }

func (w *slidingTwin) wait(now, n int64) int64 { return search(now, n, 2*w.length, w.left) }

// logTwin counts the admissions of the last window. It can give some back.
type logTwin struct {
	limit, length int64
	all           []rate.Admission
}

func (w *logTwin) left(now int64) int64 {
	free := w.limit

	for _, a := range w.all {
		if a.At > now-w.length {
			free -= a.N
		}
	}

	return max(0, free)
}

func (w *logTwin) add(now, n int64)        { w.all = append(w.all, rate.Admission{At: now, N: n}) }
func (w *logTwin) wait(now, n int64) int64 { return search(now, n, w.length, w.left) }

// leakyTwin is a queue whose head leaves every window/limit µs.
type leakyTwin struct {
	each  *big.Rat // µs of one token
	burst int64
	last  *big.Rat // when all that is queued has left
}

func newLeakyTwin(limit, window, burst int64) *leakyTwin {
	return &leakyTwin{each: big.NewRat(window, limit), burst: burst, last: new(big.Rat)}
}

// queued returns the µs until all that is queued at now has left.
func (w *leakyTwin) queued(now int64) *big.Rat {
	d := new(big.Rat).Sub(w.last, big.NewRat(now, 1))
	if d.Sign() < 0 {
		d.SetInt64(0)
	}

	return d
}

func (w *leakyTwin) left(now int64) int64 {
	room := new(big.Rat).Mul(w.each, big.NewRat(w.burst, 1))

	return max(0, floor(room.Sub(room, w.queued(now)).Quo(room, w.each)))
}

func (w *leakyTwin) add(now, n int64) {
	w.last = w.queued(now).Add(w.queued(now), big.NewRat(now, 1))
	w.last.Add(w.last, new(big.Rat).Mul(w.each, big.NewRat(n, 1)))
}

func (w *leakyTwin) wait(now, n int64) int64 {
	full := new(big.Rat).Mul(w.each, big.NewRat(w.burst, 1))

	return search(now, n, ceil(full), w.left)
}

func (w *leakyTwin) delay(now int64) int64 { return ceil(w.queued(now)) }

// search finds the first µs from now at which left says n, if nothing more is
// taken. It is far µs away at most; a window that is clear by then and holds
// less than n never has it.
func search(now, n, far int64, left func(at int64) int64) int64 {
	if left(now+far) < n {
		return -1
	}

	return int64(sort.Search(int(far), func(d int) bool { return left(now+int64(d)) >= n }))
}

func floor(r *big.Rat) int64 { return new(big.Int).Div(r.Num(), r.Denom()).Int64() }
func ceil(r *big.Rat) int64  { return -floor(new(big.Rat).Neg(r)) }

var (
	limits  = []int64{1, 2, 3, 7, 100, 1_500, 600_000, 999_999, rate.MaxLimit}
	lengths = []int64{1, 7, ms, sec, 999_983, 60 * sec, hour, day, 30 * day, 366 * day}
)

// terms are a limit, or a burst, and the window, or one token's time, in µs.
type terms struct{ limit, length int64 }

// compare drives c and its twin along one random timeline. The two must say the same at every step.
func compare(t *rapid.T, c, twin counter, of terms) {
	now := rapid.Int64Range(0, 60*day).Draw(t, "start")
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		now += genGap(t, now, of.length)
		n := genCost(t, c.left(now), of.limit)

		if got, want := c.left(now), twin.left(now); got != want {
			t.Fatalf("at %d: %d left, the twin says %d", now, got, want)
		}

		if n >= 0 && take(c, now, n) {
			twin.add(now, n)
		}

		if got, want := c.wait(now, n), twin.wait(now, n); got != want {
			t.Fatalf("at %d: wait %d µs for %d, the twin says %d", now, got, n, want)
		}
	}
}

// genGap draws the time to the next step: none, a little, an edge, years.
func genGap(t *rapid.T, now, length int64) int64 {
	return rapid.OneOf(
		rapid.Just(int64(0)), rapid.Int64Range(0, 3), rapid.Int64Range(0, length), rapid.Int64Range(0, 3*length),
		rapid.SampledFrom([]int64{length - 1, length, length + 1, 2 * length, length - now%length, length - now%length - 1, 3650 * day}),
	).Draw(t, "gap")
}

// genCost draws a cost: small, all that is left, one more, anything, too much.
func genCost(t *rapid.T, left, limit int64) int64 {
	return rapid.OneOf(
		rapid.Int64Range(0, 3), rapid.SampledFrom([]int64{left, left + 1, (left + 1) / 2}), rapid.Int64Range(1, limit), rapid.Just(limit+1),
	).Draw(t, "cost")
}

func TestFixedWindowAgainstTwin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit, length := rapid.SampledFrom(limits).Draw(t, "limit"), rapid.SampledFrom(lengths).Draw(t, "length")
		compare(t, aligned(limit, length), &fixedTwin{limit: limit, length: length, counts: map[int64]int64{}}, terms{limit, length})
	})
}

func TestLogAgainstTwin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit, length := rapid.SampledFrom(limits).Draw(t, "limit"), rapid.SampledFrom(lengths).Draw(t, "length")
		compare(t, logOf(limit, length), &logTwin{limit: limit, length: length}, terms{limit, length})
	})
}

func TestSlidingAgainstTwin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.SampledFrom(lengths).Draw(t, "length")

		limit := rapid.SampledFrom(limits).Draw(t, "limit")
		for (1<<53-1)/(limit+1) < length {
			limit = limit/10 + 1 // a count that can be weighed in µs
		}

		compare(t, slide(limit, length), &slidingTwin{limit: limit, length: length}, terms{limit, length})
	})
}

func TestLeakyBucketAgainstTwin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit, length := rapid.SampledFrom(limits[:8]).Draw(t, "limit"), rapid.SampledFrom(lengths).Draw(t, "length")
		burst := rapid.Int64Range(1, 20).Draw(t, "burst")
		c, twin := bucketOf(t, limit, length, burst), newLeakyTwin(limit, length, burst)

		compare(t, c, twin, terms{burst, length/limit + 1})

		for _, later := range []int64{0, 1, length / limit} {
			now := c.tat.Micros - later
			if got, want := c.delay(now), twin.delay(now); got != want {
				t.Fatalf("at %d: a delay of %d µs, the twin says %d", now, got, want)
			}
		}
	})
}
