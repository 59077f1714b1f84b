package memory

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

// benchKeys are random-looking user ids of an ordinary length.
func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "user-" + strconv.FormatUint(uint64(i)*0x9e3779b97f4a7c15, 36)
	}

	return keys
}

func newBenchStore(b *testing.B) *Store {
	b.Helper()

	s, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}

	b.Cleanup(func() { _ = s.Close(context.Background()) })

	return s
}

// BenchmarkApply is a call with one ask: a take of a hot key, of one of a
// million keys, and a lease that is spent and raised again.
func BenchmarkApply(b *testing.B) {
	terms := minuteTerms(1_000_000_000)

	for _, n := range []int{1, 1_000_000} {
		b.Run(fmt.Sprintf("take/keys=%d", n), func(b *testing.B) {
			s, keys := newBenchStore(b), benchKeys(n)
			ops, results := []store.Op{{Terms: terms}}, make([]store.Result, 1)
			takes := []int64{1}

			b.ReportAllocs()

			for i := 0; b.Loop(); i++ {
				ops[0].Key = store.Key{Rule: "per-user", Key: keys[i%n]}
				ops[0].Ask = ledger.Ask{Holder: 1, Seq: uint64(i + 1), Takes: takes}
				s.Apply(context.Background(), ops, results)
			}
		})
	}

	b.Run("lease", func(b *testing.B) {
		s := newBenchStore(b)
		ops, results := []store.Op{{Key: store.Key{Rule: "per-user", Key: "user-1"}, Terms: terms}}, make([]store.Result, 1)

		b.ReportAllocs()

		for i := 0; b.Loop(); i++ {
			a := results[0].Answer
			ops[0].Ask = ledger.Ask{Holder: 1, Seq: uint64(i + 1), Lease: a.Lease, Spent: a.Granted, RaiseTo: a.Granted + 300}
			s.Apply(context.Background(), ops, results)
		}
	})
}

// BenchmarkApplyBatch is one call with 64 asks for 64 of a million keys; the time is a call's.
func BenchmarkApplyBatch(b *testing.B) {
	const size, n = 64, 1_000_000

	s, keys, terms := newBenchStore(b), benchKeys(n), minuteTerms(1_000_000_000)
	ops, results := make([]store.Op, size), make([]store.Result, size)
	takes := []int64{1}
	next := 0

	b.ReportAllocs()

	for b.Loop() {
		for i := range ops {
			next++
			ops[i] = store.Op{
				Key: store.Key{Rule: "per-user", Key: keys[next%n]}, Terms: terms,
				Ask: ledger.Ask{Holder: 1, Seq: uint64(next), Takes: takes},
			}
		}

		s.Apply(context.Background(), ops, results)
	}
}

// BenchmarkApplyParallel has all processors ask for tokens of a million keys that are kept already.
func BenchmarkApplyParallel(b *testing.B) {
	const n = 1_000_000

	s, keys, terms := newBenchStore(b), benchKeys(n), minuteTerms(1_000_000_000)

	for i, key := range keys {
		op := store.Op{Key: store.Key{Rule: "per-user", Key: key}, Terms: terms, Ask: ledger.Ask{Holder: 1, Seq: uint64(i + 1), Takes: []int64{1_000_000_000}}}
		s.Apply(context.Background(), []store.Op{op}, make([]store.Result, 1))
	}

	var holders atomic.Uint64

	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		holder := holders.Add(1)
		ops, results := []store.Op{{Terms: terms}}, make([]store.Result, 1)
		takes := []int64{1}

		for i := holder * 7919; pb.Next(); i++ {
			ops[0].Key = store.Key{Rule: "per-user", Key: keys[i%n]}
			ops[0].Ask = ledger.Ask{Holder: holder, Seq: i + 1, Takes: takes}
			s.Apply(context.Background(), ops, results)
		}
	})
}

// BenchmarkMemory reports what one client costs at rest, its key included. The
// most is what it costs at the least favorable number of clients, just after all tables have grown.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("clients=%d", n), func(b *testing.B) {
			terms := minuteTerms(100)

			for b.Loop() {
				before := heapInUse()
				s := newBenchStore(b)

				ops, results := []store.Op{{Terms: terms}}, make([]store.Result, 1)
				takes := []int64{100}

				for i := range n {
					ops[0].Key = store.Key{Rule: "per-user", Key: "user-" + strconv.Itoa(i)}
					ops[0].Ask = ledger.Ask{Holder: 1, Seq: uint64(i + 1), Takes: takes}
					s.Apply(context.Background(), ops, results)
				}

				stats, slots := s.Stats(), 0
				for i := range s.shards {
					slots += len(s.shards[i].table.slots)
				}

				b.ReportMetric(float64(heapInUse()-before)/float64(stats.Keys), "B/client")
				b.ReportMetric(float64(stats.Keys)/float64(slots)*100, "%full")
				b.ReportMetric(float64(stats.Keys), "clients")
				runtime.KeepAlive(s)
			}
		})
	}
}

func heapInUse() uint64 {
	runtime.GC()

	var m runtime.MemStats

	runtime.ReadMemStats(&m)

	return m.HeapAlloc
}
