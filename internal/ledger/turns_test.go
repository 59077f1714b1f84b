package ledger

import (
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// Holders that wait for tokens of a sliding window come one gap apart. One that got
// most of the window so far has a longer one, and so more, unless many wait.
func TestTurnsInASlidingWindow(t *testing.T) {
	t.Parallel()

	const now = 1_100_000 // 900 ms are left of the window, so a round takes a thirtieth of it

	for _, c := range []struct {
		name    string
		granted []int64 // to each holder since the window began; the first asks
		due     []int64 // when each is to come, after now; the first one's does not count
		wait    int64
		share   int64 // of 100 tokens that are left
	}{
		{"all alike, nobody waits", []int64{50, 50, 50, 50, 50, 50, 50, 50}, nil, 4_166, 22},
		{"three wait", []int64{50, 50, 50, 50, 50, 50, 50, 50}, []int64{0, 900, 4_000, 2_000}, 8_166, 22},
		{"many: two rounds at most", []int64{50, 50, 50, 50, 50, 50, 50, 50}, []int64{0, 66_000}, 66_666, 22},
		{"one has nearly everything", []int64{500, 10, 10, 10, 10, 10, 10, 10}, nil, 16_666, 22},
		{"and all", []int64{500, 0, 0, 0, 0, 0, 0, 0}, nil, 33_333, 41},
		{"and many wait", []int64{500, 0, 0, 0, 0, 0, 0, 0}, []int64{0, 900, 4_000, 2_000}, 8_166, 22},
		{"a few, and two tokens at least", []int64{1, 1}, nil, 16_666, 66},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			bucket, err := rate.NewBucket(1_000, 1_000_000, 1_000)
			if err != nil {
				t.Fatal(err)
			}

			s := &State{Now: now, Terms: Terms{Algorithm: rate.SlidingWindow, Bucket: bucket, Length: 1_000_000, TTL: 500_000}}
			for i, n := range c.granted {
				s.Leases = append(s.Leases, Lease{Holder: uint64(i + 1), Granted: n, Spent: n})
				if i < len(c.due) && c.due[i] > 0 {
					s.Leases[i].Due = now + c.due[i]
				}
			}

			if got := s.share(&s.Leases[0], 100); got != c.share {
				t.Errorf("it gets %d of 100, not %d", got, c.share)
			}

			if got := s.turn(0); got != c.wait || s.Leases[0].Due != now+got {
				t.Errorf("its turn comes in %d µs and is noted for %d, not in %d", got, s.Leases[0].Due-now, c.wait)
			}
		})
	}
}

// Of a scarce bucket a holder gets what its turn brings, and leaves as much to each of many that is late for its own. One that waits
// for a turn to come is not late, nor is one that stayed away when its turn was long ago.
func TestATurnLeavesAPartToThoseThatAreLate(t *testing.T) {
	t.Parallel()

	const now, waits = 10_000_000, 90_000

	for _, c := range []struct {
		name  string
		due   []int64 // after now, of those that do not wait
		share int64   // of 10 tokens that are there
	}{
		{"none is late", nil, 7},
		{"one", []int64{-1}, 5},
		{"three", []int64{0, -1, -62_499}, 3},
		{"more", []int64{-1, -1, -1, -1, -1, -1}, 3},
		{"one stayed away", []int64{-62_500}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			bucket, err := rate.NewBucket(1_000, 1_000_000, 1_000)
			if err != nil {
				t.Fatal(err)
			}

			s := &State{Now: now, Terms: Terms{Bucket: bucket, TTL: 500_000}, Leases: []Lease{{Holder: 1, Due: now}}}
			for i := range 39 {
				s.Leases = append(s.Leases, Lease{Holder: uint64(i + 2), Due: now + waits})
				if i < len(c.due) {
					s.Leases[i+1].Due = now + c.due[i]
				}
			}

			if got := s.share(&s.Leases[0], 10); got != c.share {
				t.Errorf("it gets %d of 10, not %d", got, c.share)
			}
		})
	}
}
