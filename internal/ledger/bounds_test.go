package ledger_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// Terms at the edge of what can be counted, with as many holders as there may be:
// nobody is given what is not there, and nothing overflows.
func TestManyHoldersOfAwkwardTerms(t *testing.T) {
	t.Parallel()

	for _, row := range []struct{ limit, window, burst int64 }{
		{1, rate.MaxProduct, 1}, {1, rate.MaxProduct / 2, 2}, {1, rate.MaxProduct / 100, 100}, {8, rate.MaxProduct, 8},
		{1, 2_678_400_000_000, 1}, {1, 2_678_400_000_000, 100},
		{rate.MaxLimit, 1_000_000, 1}, {rate.MaxLimit, 1, 1_000_000_000_000}, {rate.MaxLimit - 1, 1_000_000, rate.MaxLimit - 1},
		{1_000, 1_000_000, 1_000},
	} {
		for _, algorithm := range []rate.Algorithm{rate.TokenBucket, rate.FixedWindow, rate.SlidingWindow} {
			bucket, err := rate.Average(row.limit, row.window, row.burst)
			if err != nil {
				t.Fatalf("%+v: %v", row, err)
			}

			terms := ledger.Terms{Algorithm: algorithm, Bucket: bucket, Version: 1, TTL: 500_000}
			if algorithm != rate.TokenBucket {
				terms.Length, terms.Bucket.Burst = row.window, min(row.burst, row.limit)
				bucket = terms.Bucket
			}

			if terms.Check() != nil {
				continue
			}

			var s ledger.State

			now, seq, given := int64(1_700_000_000_000_000), uint64(0), int64(0)

			for _, holders := range []uint64{2100, 50} {
				for h := range holders {
					seq++
					now += 7
					a := s.Apply(now, terms, ledger.Ask{Holder: h + 1, Seq: seq, Takes: []int64{1}, RaiseTo: bucket.Burst, Keep: true})

					given += int64(a.Taken & 1)

					if a.AskAgain < -1 || a.Granted < 0 || a.Others < 0 || a.Granted+a.Others > bucket.Burst {
						t.Fatalf("%v %+v: %+v", algorithm, row, a)
					}
				}
			}

			back := (now - 1_700_000_000_000_000) * bucket.Q / bucket.P
			if algorithm == rate.TokenBucket && bucket.Q < 1_000_000 && given+s.Outstanding() > bucket.Burst+back+1 {
				t.Errorf("%v %+v: %d given, %d out of %d and %d", algorithm, row, given, s.Outstanding(), bucket.Burst, back)
			}
		}
	}
}
