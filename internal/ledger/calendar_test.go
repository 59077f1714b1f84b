package ledger_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

const day = int64(86_400_000_000)

// A rule that goes from one calendar window to another keeps what was used.
func TestAnotherCalendarKeepsWhatWasUsed(t *testing.T) {
	t.Parallel()

	month := ledger.Calendar{Start: 100 * day, End: 131 * day, Next: 159 * day}
	today := ledger.Calendar{Start: 110 * day, End: 111 * day, Next: 112 * day}
	east := ledger.Calendar{Start: 110*day + day/3, End: 111*day + day/3, Next: 112*day + day/3}
	west := ledger.Calendar{Start: 109*day + 2*day/3, End: 110*day + 2*day/3, Next: 111*day + 2*day/3}

	for name, change := range map[string][2]ledger.Calendar{
		"month to day": {month, today}, "day to month": {today, month}, "zone east": {today, east}, "zone west": {today, west},
	} {
		bucket, _ := rate.Average(100, 31*day, 100)
		terms := ledger.Terms{Algorithm: rate.FixedWindow, Bucket: bucket, Calendar: change[0], Version: 1, TTL: 500_000}
		now := 110*day + day/2

		var s ledger.State

		take := func(seq uint64, n int64) bool {
			return s.Apply(now, terms, ledger.Ask{Holder: 1, Seq: seq, Takes: []int64{n}}).Taken == 1
		}

		if !take(1, 90) {
			t.Fatalf("%s: 90 of 100 are refused", name)
		}

		terms.Version, terms.Calendar = 2, change[1]
		now++

		if take(2, 11) {
			t.Errorf("%s: 101 are admitted within a moment, limit 100", name)
		}
	}
}
