package rpc

import (
	"log/slog"
	"testing"
	"testing/synctest"
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

		earliest, latest := extremes(func() time.Duration { return c.arrive(helloSpread) })
		if earliest > row.spread/10 || latest > row.spread || latest < row.spread*9/10 {
			t.Errorf("of 1,000 arrivals among %d holders the first comes after %v, the last after %v, want almost 0 to %v",
				row.live, earliest, latest, row.spread)
		}
	}
}

// extremes returns the least and the most of a thousand draws.
func extremes(draw func() time.Duration) (least, most time.Duration) {
	least = draw()
	most = least

	for range 999 {
		d := draw()
		least, most = min(least, d), max(most, d)
	}

	return least, most
}

// Holders that failed together do not come back together: each draws when it does, whether its calls fail, or a coordinator told
// them all the same time. Nobody comes before that.
func TestHoldersComeBackApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes between two draws
		client := newClient(Config{Logger: slog.New(slog.DiscardHandler)}, trust{})
		defer client.close()

		for name, c := range map[string]struct {
			draw     func() time.Duration
			from, to time.Duration
		}{
			"between two watches": {func() time.Duration { return jittered(time.Second) }, time.Second / 2, time.Second},
			"after failures": {func() time.Duration {
				_, due := opened(t)

				return due
			}, minBackoff / 2, minBackoff},
			"when it was told to": {func() time.Duration {
				r := &replica{}
				client.failed(call{replica: r}, tooBusy("test", time.Hour))

				return time.Duration(r.rest.Load()) - client.now()
			}, maxComeBack, maxComeBack * 5 / 4},
		} {
			least, most := extremes(c.draw)
			if tenth := (c.to - c.from) / 10; least < c.from || least > c.from+tenth || most < c.to-tenth || most > c.to {
				t.Errorf("%s: of 1,000 the first comes after %v, the last after %v, want %v to %v", name, least, most, c.from, c.to)
			}
		}
	})
}
