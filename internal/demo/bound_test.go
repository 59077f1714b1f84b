package demo

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/rate"
)

const msec = 1000 // µs

func bucket(t *testing.T, perSecond, burst int64) rate.Bucket {
	t.Helper()

	b, err := rate.NewBucket(perSecond, 1_000_000, burst)
	if err != nil {
		t.Fatal(err)
	}

	return b
}

// at returns n admissions at one instant, as far as a server's two looks at the clock can tell.
func at(micros int64, n int) []stay {
	all := make([]stay, n)
	for i := range all {
		all[i] = stay{micros, micros + 5}
	}

	return all
}

func join(parts ...[]stay) (all []stay) {
	for _, p := range parts {
		all = append(all, p...)
	}

	return all
}

// every returns admissions, one each period, beginning at from.
func every(from, period int64, n int) (all []stay) {
	for i := range n {
		all = append(all, at(from+int64(i)*period, 1)...)
	}

	return all
}

func TestFullest(t *testing.T) {
	// 100/s with a burst of 10: a token every 10 ms.
	for name, test := range map[string]struct {
		stays []stay
		want  int64
	}{
		"nothing":                 {nil, 0},
		"one":                     {at(0, 1), 1},
		"a whole burst at once":   {at(0, 10), 10},
		"one more than the burst": {at(0, 11), 11},
		"a burst, then the rate":  {join(at(0, 10), every(10*msec, 10*msec, 100)), 10},
		"a burst, then a little more than the rate": {join(at(0, 10), every(10*msec, 9*msec, 100)), 20},
		"two bursts too close":                      {join(at(0, 10), at(50*msec, 10)), 15},
		"two bursts far enough":                     {join(at(0, 10), at(100*msec, 10)), 10},
		// The stretch that is too full is neither the first nor the last, and not the longest.
		"too many in the middle": {join(every(0, 20*msec, 50), at(1010*msec, 12), every(1100*msec, 20*msec, 50)), 12},
		// Decided for 30 ms: the admission may lie anywhere in it, so it need not be in a stretch that ends before.
		"a slow decision is given the benefit": {join(at(0, 10), []stay{{0, 30 * msec}}), 10},
	} {
		if got := fullest(bucket(t, 100, 10), test.stays); got != test.want {
			t.Errorf("%s: %d beyond the rate, want %d", name, got, test.want)
		}
	}
}

// The dumb twin looks at every stretch by itself.
func TestFullestIsWhatAllStretchesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := rate.NewBucket(rapid.Int64Range(1, 2000).Draw(t, "limit"), 1_000_000, 10)
		if err != nil {
			t.Fatal(err)
		}

		var stays []stay
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			before := rapid.Int64Range(0, 20*msec).Draw(t, "before")
			stays = append(stays, stay{before, before + rapid.Int64Range(1, 3*msec).Draw(t, "took")})
		}

		var most int64

		for _, first := range stays {
			for _, last := range stays {
				var n int64

				for _, s := range stays {
					if s.before >= first.before && s.after <= last.after {
						n++
					}
				}

				if n > 0 {
					most = max(most, n*b.P-b.Q*(last.after-first.before))
				}
			}
		}

		if got, want := fullest(b, stays), (most+b.P-1)/b.P; got != want {
			t.Fatalf("%d, and all stretches say %d: %v", got, want, stays)
		}
	})
}
