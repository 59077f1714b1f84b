package table

import "testing"

// Servers that lost their coordinator together do not ask for it together: each draws its pauses, from half to one and a half times
// what they are on average, which doubles up to a bound.
func TestPausesAreDrawn(t *testing.T) {
	t.Parallel()

	pauses := func(random func(n int64) int64) (until []int64) {
		o := outage{random: random}

		for range 4 {
			o.fail(0, 0)
			until = append(until, o.until.Load())
		}

		return until
	}

	least, most := pauses(func(int64) int64 { return 0 }), pauses(func(n int64) int64 { return n - 1 })

	for i, average := range []int64{firstBackoff, 2 * firstBackoff, maxBackoff, maxBackoff} {
		if least[i] != average/2 || most[i] != average/2+average {
			t.Errorf("pause %d is from %d to %d µs, want %d on average", i, least[i], most[i], average)
		}
	}
}
