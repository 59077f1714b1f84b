package rate_test

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/rate"
)

// script is Sliding in float64, which is all the numbers that a script in the
// store has. It notes the largest value that any step had.
type script struct {
	limit, length float64
	most          float64
}

// see notes a value of a step, and returns it.
func (s *script) see(v float64) float64 {
	s.most = max(s.most, math.Abs(v))

	return v
}

// div is ⌊a/b⌋.
func (s *script) div(a, b float64) float64 { return math.Floor(s.see(a) / s.see(b)) }

func (s *script) units(prev float64) (unit, length float64) {
	most := s.div(1<<53-1, prev+1)
	unit, length = 1, s.length

	for length > most {
		unit *= 10
		length = s.div(s.length+unit-1, unit)
	}

	return s.see(unit), s.see(length)
}

func (s *script) avail(used, prev, elapsed float64) float64 {
	unit, length := s.units(prev)
	gone := min(s.div(elapsed, unit), length)

	return max(0, s.see(s.limit-used-s.div(s.see(prev*(length-gone))+length-1, length)))
}

func (s *script) until(prev, free float64) float64 {
	if prev <= free {
		return 0
	}

	unit, length := s.units(prev)

	return min(s.see((length-s.div(s.see(free*length), prev))*unit), s.length)
}

func (s *script) wait(used, prev, elapsed, n float64) float64 {
	switch free := s.see(s.limit - n - used); {
	case n > s.limit:
		return -1
	case s.avail(used, prev, elapsed) >= n:
		return 0
	case free >= 0:
		return s.until(prev, free) - elapsed
	default:
		return s.length - elapsed + s.until(used, s.limit-n)
	}
}

// Every intermediate value of Sliding stays an integer below 2^53, up to the
// largest limit and window, so that floating point says the same to the last token.
func TestSlidingIsExactInFloatingPoint(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit, length := genLarge(t, "limit", rate.MaxLimit), genLarge(t, "length", 366*day)
		used, prev := genLarge(t, "used", 2*rate.MaxLimit), genLarge(t, "prev", 2*rate.MaxLimit)
		elapsed, n := genLarge(t, "elapsed", length-1), genLarge(t, "n", limit+1)

		s := &script{limit: float64(limit), length: float64(length)}
		avail := s.avail(float64(used), float64(prev), float64(elapsed))
		wait := s.wait(float64(used), float64(prev), float64(elapsed), float64(n))

		if s.most >= 1<<53 {
			t.Fatalf("a step had the value %.0f", s.most)
		}

		w, c := rate.Window{Used: used, Prev: prev}, rate.Sliding{Limit: limit, Length: length}
		if got := c.Avail(w, elapsed); got != int64(avail) {
			t.Fatalf("%d left, in floating point %.0f", got, avail)
		}

		if got := c.Wait(w, elapsed, n); got != int64(wait) {
			t.Fatalf("wait %d µs, in floating point %.0f", got, wait)
		}
	})
}

// genLarge draws from 1 to most, near to most as often as not.
func genLarge(t *rapid.T, name string, most int64) int64 {
	most = max(1, most)

	return rapid.OneOf(rapid.Just(most), rapid.Int64Range(max(1, most-1000), most), rapid.Int64Range(1, most), rapid.Int64Range(1, min(most, 1000))).Draw(t, name)
}

// In a coarser unit than µs a sliding counter is late by two units at most, and
// never early; and its wait is still exact for what it says itself.
func TestSlidingInACoarseUnit(t *testing.T) {
	t.Parallel()

	var coarse int

	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1_000_000, rate.MaxLimit).Draw(t, "limit")
		length := rapid.Int64Range(hour, 366*day).Draw(t, "length")
		prev := genLarge(t, "prev", limit)
		elapsed := rapid.Int64Range(0, length-1).Draw(t, "elapsed")
		w, s := rate.Window{Prev: prev}, rate.Sliding{Limit: limit, Length: length}

		// The unit, by trial: the first power of ten in which prev can be weighed.
		unit := int64(1)
		for tooLarge(prev, length, unit) {
			unit *= 10
		}

		if unit > 1 {
			coarse++
		}

		exact := func(at int64) int64 {
			twin := &slidingTwin{limit: limit, length: length}
			twin.add(0, prev)

			return twin.left(length + max(0, at))
		}

		late := 2 * unit
		if unit == 1 {
			late = 0
		}

		if got := s.Avail(w, elapsed); got > exact(elapsed) || got < exact(elapsed-late) {
			t.Fatalf("%d left; exactly %d, and two units of %d µs ago %d", got, exact(elapsed), unit, exact(elapsed-late))
		}
	})

	if coarse == 0 {
		t.Error("no case needed a coarse unit")
	}
}

// tooLarge reports whether prev, weighed in the unit, may reach 2^53.
func tooLarge(prev, length, unit int64) bool {
	product := new(big.Int).Mul(big.NewInt(prev+1), big.NewInt((length+unit-1)/unit))

	return product.BitLen() > 53
}

// FuzzSliding holds Avail and Wait against each other: waiting as told is
// enough, and one microsecond less is not.
func FuzzSliding(f *testing.F) {
	f.Add(int64(1), sec, int64(0), int64(1), int64(100_000), int64(1))
	f.Add(int64(7), int64(7), int64(7), int64(7), int64(6), int64(7))
	f.Add(int64(50), 60*sec, int64(80), int64(99), 10*sec, int64(1))
	f.Add(int64(999_999), 30*day, int64(999_998), int64(999_999), 15*day, int64(3))
	f.Add(int64(rate.MaxLimit), 366*day, int64(rate.MaxLimit), int64(rate.MaxLimit), 366*day-1, int64(rate.MaxLimit))
	f.Add(int64(3), sec, int64(1), int64(-1), int64(0), int64(3))
	f.Add(int64(3), int64(1), int64(0), int64(math.MaxInt64), int64(0), int64(2))
	f.Fuzz(func(t *testing.T, limit, length, used, prev, elapsed, n int64) {
		limit, length = within(limit, 1, rate.MaxLimit), within(length, 1, 366*day)
		used, elapsed, n = within(used, 0, 2*limit), within(elapsed, 0, length-1), within(n, 1, limit+1)

		// prev stays as it is, of any size and sign. The window begins at 2 × length: the one before it is not the first.
		s := &sliding{Sliding: rate.Sliding{Limit: limit, Length: length}, w: rate.Window{Start: 2 * length, Used: used, Prev: prev}}
		now := 2*length + elapsed
		left := func(at int64) int64 { c := *s; return c.left(at) }

		if got := left(now); got < 0 || got > limit || used+got > max(limit, used) {
			t.Fatalf("%d left of %d with %d used", got, limit, used)
		}

		wait := s.wait(now, n)
		if n > limit {
			if wait != -1 {
				t.Fatalf("%d of %d: wait %d µs", n, limit, wait)
			}

			return
		}

		if wait < 0 || wait > 2*length-elapsed || left(now+wait) < n {
			t.Fatalf("a wait of %d µs is not enough: %d left, want %d", wait, left(now+wait), n)
		}

		if wait > 0 && left(now+wait-1) >= n {
			t.Fatalf("a wait of %d µs is more than needed", wait)
		}

		if end := s.clear(now); left(now+end) != limit || end > 2*length {
			t.Fatalf("clear in %d µs, and then %d of %d left", end, left(now+end), limit)
		}
	})
}

// within folds v into the range from low to high.
func within(v, low, high int64) int64 {
	if v >= low && v <= high {
		return v
	}

	return low + int64(uint64(v)%uint64(high-low+1))
}
