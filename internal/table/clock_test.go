package table

import "testing"

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
