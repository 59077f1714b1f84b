package redis

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// A group lives for as long as each ledger of it says something, whatever its head says, and however its rule changes.
func TestAGroupLivesAsLongAsItsLedgers(t *testing.T) {
	s := open(t, servers.Prefix(), nil) // heads are for Redis's own time

	beat(t, s, nil, 0) // which loads the functions

	run, version := 0, uint64(0)

	rapid.Check(t, func(r *rapid.T) {
		run++

		base := s.names.place(store.Key{Rule: strconv.Itoa(run)})

		for range rapid.IntRange(1, 20).Draw(r, "takes") {
			window := rapid.SampledFrom([]int64{100_000, 1_000_000, 10_000_000, 100_000_000}).Draw(r, "window")
			bucket, _ := rate.NewBucket(10, window, 10)

			version++

			at := base
			at.name = fmt.Sprintf("%012d", rapid.IntRange(0, 3).Draw(r, "ledger"))
			at.held = base.group + "." + at.name

			op := store.Op{
				Terms: ledger.Terms{Bucket: bucket, Version: version / 4, TTL: 500_000},
				Ask:   ledger.Ask{Holder: 1, Seq: version, Takes: []int64{rapid.Int64Range(1, 10).Draw(r, "cost")}},
			}

			before := time.Now()

			a, err := s.applyAt(t, &op, at, 0)
			if err != nil {
				r.Fatal(err)
			}

			left, err := s.client.Do(t.Context(), s.client.B().Pttl().Key(at.group).Build()).AsInt64()
			if err != nil {
				r.Fatal(err)
			}

			if needs := a.Level.Micros - time.Since(before).Microseconds(); a.Taken == 1 && needs > 0 && left*1000 < needs-1000 {
				r.Fatalf("the group lives for %d ms, and a ledger of it for %d µs", left, needs)
			}
		}
	})
}
