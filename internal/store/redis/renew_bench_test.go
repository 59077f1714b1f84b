package redis

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// BenchmarkRenew measures what a renewal costs Redis of a lease of a bucket that so many holders have leases of: one bucket has
// plenty, the other is used up, so that they wait for their turns. Redis's processor time is counted, which other work on the
// machine changes less than the time that passes.
//
//	go test -run none -bench Renew -benchtime 20000x ./internal/store/redis
func BenchmarkRenew(b *testing.B) {
	for _, kind := range []struct {
		name  string
		limit int64
	}{{"plenty", 1_000_000_000}, {"scarce", 100}} {
		for _, holders := range []int{1, 5, 20, 50} {
			b.Run(fmt.Sprintf("%s/holders=%d", kind.name, holders), func(b *testing.B) {
				benchmarkRenew(b, kind.limit, holders)
			})
		}
	}
}

func benchmarkRenew(b *testing.B, limit int64, holders int) {
	b.Helper()

	const keys = mostTogether

	s := openAt(b, []string{redistest.NewServer(b).Address})
	bucket, _ := rate.NewBucket(limit, 1_000_000, limit)
	terms := ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000}
	ops, results := make([]store.Op, keys), make([]store.Result, keys)
	known := make([][keys]ledger.Answer, holders)
	calls := 0

	renew := func() {
		last := &known[calls%holders]
		calls++

		for k := range ops {
			ops[k] = store.Op{Key: store.Key{Rule: "r", Key: strconv.Itoa(k)}, Terms: terms, Ask: ledger.Ask{
				Holder: 0x9e3779b97f4a7c15 * uint64(1+calls%holders), Seq: uint64(calls), Keep: true,
				Lease: last[k].Lease, Spent: last[k].Granted, RaiseTo: last[k].Granted + 20, Lag: 10_000,
			}}
		}

		s.Apply(context.Background(), ops, results)

		for k := range results {
			if results[k].Err != nil {
				b.Fatal(results[k].Err)
			}

			last[k] = results[k].Answer
		}
	}

	for range 2 * holders {
		renew()
	}

	before := s.processorTime(b)
	done := 0

	b.ResetTimer()

	for done < b.N {
		renew()

		done += keys
	}

	b.ReportMetric((s.processorTime(b)-before)*1e6/float64(done), "redis-µs/op")
}

// processorTime returns how many seconds of a processor Redis has used.
func (s *Store) processorTime(b *testing.B) (seconds float64) {
	b.Helper()

	info, err := s.client.Do(context.Background(), s.client.B().Info().Section("cpu").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}

	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		n, err := strconv.ParseFloat(field(info, name), 64)
		if err != nil {
			b.Fatal(err)
		}

		seconds += n
	}

	return seconds
}
