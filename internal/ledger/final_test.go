package ledger

import (
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// A lease that ended in its window counts as spent until its holder says how much really was: once, while the ledger listens, and
// not for any other window.
func TestAFinalSCountsInTheWindowOfItsLease(t *testing.T) {
	t.Parallel()

	const (
		second, minute = 1_000_000, 60_000_000
		hour           = 60 * minute
		start          = 1000 * hour
	)

	for _, c := range []struct {
		name  string
		at    int64 // of the final S
		seen  bool  // another holder asked for one token before, after the lease's end
		spent int64
		used  int64 // in the window at `at`, with one token that the ask takes
		prev  int64 // in the one before
	}{
		{"the ledger has noticed", 10 * second, true, 20, 22, 0},
		{"it has not", 10 * second, false, 20, 21, 0},
		{"the lease lives there", second / 10, false, 20, 21, 0},
		{"all was spent", 10 * second, true, 60, 62, 0},
		{"more was spent than the ledger knows of", 10 * second, true, 63, 65, 0},
		{"nothing was", 10 * second, true, 0, 2, 0},
		{"nobody listens any more", 11 * minute, true, 20, 62, 0},
		{"the window is over", hour, true, 20, 1, 61},
	} {
		for name, algorithm := range map[string]rate.Algorithm{"fixed": rate.FixedWindow, "sliding": rate.SlidingWindow} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				t.Parallel()

				bucket, err := rate.Average(100, hour, 100)
				if err != nil {
					t.Fatal(err)
				}

				terms := Terms{Algorithm: algorithm, Bucket: bucket, Length: hour, TTL: second / 2, Version: 1}

				var s State

				lease := s.Apply(start, terms, Ask{Holder: 1, Seq: 1, RaiseTo: 60})
				if lease.Granted != 60 {
					t.Fatalf("granted: %+v", lease)
				}

				if c.seen {
					s.Apply(start+5*second, terms, Ask{Holder: 2, Seq: 1, Takes: []int64{1}})
				}

				last := Ask{Holder: 1, Seq: 2, Ended: lease.Lease, EndedSpent: c.spent, Takes: []int64{1}}
				s.Apply(start+c.at, terms, last)

				check := func(when string, used int64) {
					t.Helper()

					if s.Window.Used != used || s.Window.Prev != c.prev {
						t.Errorf("%s: %d are used, and %d of the window before, want %d and %d", when, s.Window.Used, s.Window.Prev, used, c.prev)
					}
				}

				check("told", c.used)
				s.Apply(start+c.at, terms, last)

				last.Seq++
				s.Apply(start+c.at, terms, last)
				check("told three times, with one more take", c.used+2)
			})
		}
	}
}
