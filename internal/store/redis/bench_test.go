package redis

import (
	"context"
	"strconv"
	"strings"
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
			s := openAt(b, []string{redistest.NewServer(b).Address})
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

// BenchmarkIdleClients measures what a client costs that has used some of its
// budget and holds nothing: INFO's used_memory, before and after b.N of them.
//
//	go test -run none -bench IdleClients -benchtime 1000000x ./internal/store/redis
func BenchmarkIdleClients(b *testing.B) {
	s := openAt(b, []string{redistest.NewServer(b).Address})
	bucket, _ := rate.NewBucket(100, 60_000_000_000, 100)
	memory := func() int64 {
		info, err := s.client.Do(context.Background(), s.client.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			b.Fatal(err)
		}

		_, rest, _ := strings.Cut(info, "used_memory:")
		text, _, _ := strings.Cut(rest, "\r\n")

		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			b.Fatal(err)
		}

		return n
	}

	const batch = 1000

	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()

	ops, results := make([]store.Op, 0, batch), make([]store.Result, batch)
	before := memory()

	b.ResetTimer()

	for i := range b.N {
		ops = append(ops, store.Op{
			Key:   store.Key{Rule: "r", Key: strconv.Itoa(i)},
			Terms: ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000},
			Ask:   ledger.Ask{Holder: 1, Seq: 1, Takes: []int64{1 + int64(i%7)}},
		})

		if len(ops) == batch || i == b.N-1 {
			s.Apply(ctx, ops, results)

			if results[0].Err != nil {
				b.Fatal(results[0].Err)
			}

			ops = ops[:0]
		}
	}

	b.ReportMetric(float64(memory()-before)/float64(b.N), "B/client")
}
