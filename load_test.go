package leaseway_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
)

// The coarse time of day is never ahead, and two milliseconds late at most, in use and after any pause.
func TestTimeInFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := embedded(t, "rules: [{id: r, keyBy: user, limit: 1000000, window: 1s}]")

		for i, pause := range []time.Duration{0, time.Microsecond, 300 * time.Microsecond, time.Millisecond, time.Second, 5 * time.Second, time.Hour} {
			time.Sleep(pause)

			for range 3 {
				now := time.Now()
				if late := now.Sub(l.TimeIn(0)); late < 0 || late > 2*time.Millisecond {
					t.Errorf("pause %d: %v late", i, late)
				}

				if got, want := l.TimeIn(time.Minute).Sub(l.TimeIn(0)), time.Minute; got != want {
					t.Errorf("a minute from now is %v from now", got)
				}

				l.Decide(t.Context(), leaseway.Request{User: "u"})
				time.Sleep(100 * time.Microsecond)
			}
		}
	})
}
