//go:build unix

package faults

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

// slowRules are one rule of each kind that counts. Nothing of them comes back while a test runs.
const slowRules = `
rules:
  - {id: bucket, keyBy: user, limit: 100, window: 12h}
  - {id: leaky, keyBy: user, algorithm: leaky_bucket, limit: 100, window: 12h}
  - {id: fixed, keyBy: user, algorithm: fixed_window, limit: 100, window: 365d}
  - {id: sliding, keyBy: user, algorithm: sliding_window, limit: 100, window: 365d}
  - {id: log, keyBy: user, algorithm: sliding_log, limit: 100, window: 12h}
`

// A coordinator whose data directory is put back as it was: each budget is what it was then. So at most what was admitted since
// is admitted once more, and never more than one budget. A copy that was made while it ran says only when that was:
// then everything counts as used up at that time.
func TestStoreComesBackOlder(t *testing.T) {
	const before, since = 30, 40

	gone := float64(time.Now().UTC().Unix()%(365*86_400)) / (365 * 86_400)
	left := 100 - int(gone*100) // of a year, roughly

	for _, c := range []struct {
		name      string
		running   bool // when the copy was made
		want      map[string]int
		imprecise int // what the time of day makes of a window
	}{
		{"of one that had stopped", false, map[string]int{"bucket": 70, "leaky": 70, "fixed": 70, "sliding": 70, "log": 70}, 0},
		{"of one that ran", true, map[string]int{"bucket": 0, "leaky": 0, "fixed": left, "sliding": left, "log": 0}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			coordinator := newCoordinator(t, slowRules)
			spend(t, coordinator, before)

			if !c.running {
				coordinator.Finish(t)
			}

			if err := os.CopyFS(coordinator.path("old"), os.DirFS(coordinator.path("data"))); err != nil {
				t.Fatal(err)
			}

			if !c.running {
				coordinator.run(t)
			}

			spend(t, coordinator, since)
			coordinator.Kill()

			if err := os.RemoveAll(coordinator.path("data")); err != nil {
				t.Fatal(err)
			}

			if err := os.Rename(coordinator.path("old"), coordinator.path("data")); err != nil {
				t.Fatal(err)
			}

			coordinator.run(t)

			l := dial(t, 1, []string{coordinator.grpc}, leaseway.WithDeadline(unhurried))[0]

			for rule, want := range c.want {
				if n, local := times(t, l, 200, at{rule, "ada"}); max(n-want, want-n) > c.imprecise || local != 0 {
					t.Errorf("%s: %d more passed, and %d without a coordinator, want %d", rule, n, local, want)
				}
			}
		})
	}
}

// spend has a server that comes and goes take n times under each of the slowRules.
func spend(t *testing.T, c *program, n int) {
	t.Helper()

	l := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))[0]

	for _, rule := range l.Rules().Rules {
		if got, _ := times(t, l, n, at{rule.ID, "ada"}); got != n {
			t.Errorf("%s: %d of %d passed", rule.ID, got, n)
		}
	}

	if err := l.Close(t.Context()); err != nil { // gives back what is left
		t.Fatal(err)
	}
}

// What a server had leased of a long window when its coordinator went away, and did not spend before the lease ended, is there
// again when the coordinator is back: it would be lost for the year. So are the leases that the data of its coordinator had, when
// these are put back as they were then, of servers that still know them.
func TestALeaseThatEndsInAnOutageIsNotLost(t *testing.T) {
	const limit, rounds = 1_000, 3

	for _, algorithm := range []string{"fixed_window", "sliding_window"} {
		t.Run(algorithm, func(t *testing.T) {
			c := newCoordinator(t, fmt.Sprintf("rules: [{id: r, keyBy: user, algorithm: %s, limit: %d, window: 365d, onUnavailable: deny}]", algorithm, limit))
			l := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))[0]
			sum := 0

			for range rounds {
				for l.Stats().Leases == 0 || sum%10 != 0 { // until there is a lease
					n, _ := times(t, l, 1, at{"r", "ada"})
					sum += n
				}

				c.Finish(t)
				eventually(t, "the lease has ended", func() bool { return l.Stats().Leases == 0 })
				c.run(t)
				eventually(t, "it is well", func() bool {
					n, _ := times(t, l, 1, at{"r", "ada"})
					sum += n

					return n > 0
				})
			}

			eventually(t, "all of the limit is used", func() bool {
				n, _ := times(t, l, 100, at{"r", "ada"})
				sum += n

				return sum >= limit
			})

			if n, _ := times(t, l, 2*limit, at{"r", "ada"}); sum+n != limit {
				t.Errorf("%d were admitted of %d", sum+n, limit)
			}
		})
	}
}
