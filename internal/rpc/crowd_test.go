package rpc

import (
	"testing"
	"time"
)

func TestPausesGrowWithTheFleet(t *testing.T) {
	for _, row := range []struct {
		live                   int64
		first, longest, spread time.Duration
	}{
		{0, minBackoff, maxBackoff, helloSpread}, // not known yet
		{3, minBackoff, maxBackoff, helloSpread},
		{200, minBackoff, maxBackoff, helloSpread},
		{1_000, minBackoff, 800 * msec, 400 * msec},
		{10_000, time.Second, maxSpread, 4 * time.Second},
		{1 << 62, maxSpread, maxSpread, maxSpread}, // whatever is claimed
	} {
		c := &crowd{}
		c.live.Store(row.live)

		if p := c.pauses(); p.first != row.first || p.longest != row.longest {
			t.Errorf("%d holders pause from %v to %v, want %v to %v", row.live, p.first, p.longest, row.first, row.longest)
		}

		if c.large() != (row.spread > helloSpread) {
			t.Errorf("whether %d holders are many: %v", row.live, c.large())
		}

		latest := time.Duration(0)

		for range 1_000 {
			latest = max(latest, c.arrive(helloSpread))
		}

		if latest > row.spread || latest < row.spread*9/10 {
			t.Errorf("of 1,000 arrivals among %d holders the latest comes after %v, want almost %v", row.live, latest, row.spread)
		}
	}
}
