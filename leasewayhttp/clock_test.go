package leasewayhttp

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWallClockTellsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c wallClock
		// Within a second of the last look, at its end, and after a pause.
		for _, pause := range []time.Duration{0, 1, time.Millisecond, lookEvery - 1, lookEvery, time.Hour} {
			time.Sleep(pause)
			if got, want := c.now(), time.Now().UnixNano(); got != want {
				t.Errorf("%v later it is %d, want %d", pause, got, want)
			}
		}
	})
}

// A step of the system's clock is seen within a second.
func TestWallClockFollowsAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c wallClock
		c.now()
		c.seen.Store(&instant{mono: c.seen.Load().mono, unix: c.seen.Load().unix - int64(time.Hour)})
		time.Sleep(lookEvery - 1)
		if got, want := c.now(), time.Now().Add(-time.Hour).UnixNano(); got != want {
			t.Errorf("before the next look it is %d, want %d", got, want)
		}
		time.Sleep(time.Nanosecond)
		if got, want := c.now(), time.Now().UnixNano(); got != want {
			t.Errorf("afterwards it is %d, want %d", got, want)
		}
	})
}
