package redis

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// batchOps is how many ops one call carries in the benchmarks.
const batchOps = 100

// BenchmarkApply measures one op on one server, in calls of batchOps: what a
// holder that renews leases costs, and what a take of a key that nobody leases does.
func BenchmarkApply(b *testing.B) {
	for _, kind := range []struct {
		name string
		ask  func(i int) ledger.Ask
	}{
		{"renew", func(i int) ledger.Ask { return ledger.Ask{RaiseTo: int64(i%3) * 10, Keep: true} }},
		{"take", func(int) ledger.Ask { return ledger.Ask{Takes: []int64{1}} }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			s := alone(b)
			bucket, _ := rate.NewBucket(1000, 1_000_000, 1000)
			ops := make([]store.Op, batchOps)
			results := make([]store.Result, batchOps)

			for i := 0; b.Loop(); i++ {
				for k := range ops {
					ask := kind.ask(i)
					ask.Holder, ask.Seq = 1, uint64(i+1)
					ops[k] = store.Op{
						Key:   store.Key{Rule: "r", Key: strconv.Itoa(k)},
						Terms: ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000},
						Ask:   ask,
					}
				}

				s.Apply(context.Background(), ops, results)

				if results[0].Err != nil {
					b.Fatal(results[0].Err)
				}
			}

			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/batchOps, "µs/op")
		})
	}
}

// alone opens a store on a server of its own.
func alone(tb testing.TB) *Store {
	tb.Helper()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	s, err := New(ctx, Config{Addresses: []string{redistest.NewServer(tb).Address}})
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() { _ = s.Close(context.Background()) })

	return s
}
