package table

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// What was spent in a tick is dated when the next one began, however soon that was, and never later than now: a
// bucket that was dated ahead would refuse a token that it has, until that instant came.
func TestEveryTickIsDatedAtItsEnd(t *testing.T) {
	now := int64(1)
	c := NewDrivenClock(func() int64 { return now })

	turn := func(at int64) int64 {
		now = at

		return c.Turn(at)
	}

	var ticks []int64

	tick := func(at int64) { // as the ticker does, which knows nothing of when a request looked last
		now = at
		c.advance(at)

		if got := c.tick.Load(); len(ticks) == 0 || ticks[len(ticks)-1] != got {
			ticks = append(ticks, got)
		}
	}

	turn(30)
	tick(50_030) // a machine that was held up: a tick of 50 ms, so that what is guessed is that much too late
	tick(51_240)
	tick(51_260)

	for at := int64(52_000); at < 60_000; at += 300 {
		turn(at)
		tick(at + 10)
	}

	if len(ticks) < 8 {
		t.Fatalf("%d ticks, want at least 8", len(ticks))
	}

	for i, begin := range ticks[:len(ticks)-1] {
		if end := c.After(begin); end != ticks[i+1] {
			t.Errorf("tick %d: over at %d, want %d", begin, end, ticks[i+1])
		}
	}

	// One that was forgotten was over by now.
	if end := c.After(ticks[0] + 1); end > now {
		t.Errorf("a tick that nobody remembers: over at %d, now is %d", end, now)
	}
}

// However long ago a tick was, it is never dated before its end; nor long after it, though the process was held up for seconds, again and again.
func TestAPauseDoesNotMakeOtherTicksLong(t *testing.T) {
	const (
		pauses = 20
		most   = 2_000 // µs, of a tick without a pause
	)

	now := int64(1)
	c := NewDrivenClock(func() int64 { return now })
	random := rand.New(rand.NewPCG(1, 2))

	type tick struct{ begin, end int64 }

	var ticks []tick

	end := func(after int64) {
		begin := c.Turn(now)
		now += after
		c.advance(now)
		ticks = append(ticks, tick{begin, now})
	}

	var lengths []int64

	for i := range int64(pauses) {
		end(1_000_000 + i*100_000)
		lengths = append(lengths, ticks[len(ticks)-1].end-ticks[len(ticks)-1].begin)

		for range 2_000 {
			end(1_000 + random.Int64N(most-1_000))
		}

		// While there were no more pauses than are remembered, each is dated exactly, and others nearly so.
		late := int64(most)
		if len(lengths) > longTicks {
			late = lengths[len(lengths)-longTicks-1] // which are in order
		}

		if !slices.IsSorted(lengths) {
			t.Fatal("the pauses do not grow")
		}

		for _, tick := range ticks {
			if got := c.After(tick.begin); got < tick.end || got > tick.end+late {
				t.Fatalf("after %d pauses a tick from %d to %d is dated at %d", len(lengths), tick.begin, tick.end, got)
			}
		}
	}
}
