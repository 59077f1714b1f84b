package redis

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// batchOps is how many ops one call carries in the benchmarks.
const batchOps = 100

// BenchmarkTake measures what a take of a key that nobody leases costs on one server, in calls of batchOps: in all, and Redis alone.
func BenchmarkTake(b *testing.B) {
	s := openAt(b, []string{redistest.NewServer(b).Address})
	bucket, _ := rate.NewBucket(1000, 1_000_000, 1000)
	ops, results := make([]store.Op, batchOps), make([]store.Result, batchOps)
	before := s.processorTime(b)

	for i := 0; b.Loop(); i++ {
		for k := range ops {
			ops[k] = store.Op{
				Key:   store.Key{Rule: "r", Key: strconv.Itoa(k)},
				Terms: ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000},
				Ask:   ledger.Ask{Holder: 1, Seq: uint64(i + 1), Takes: []int64{1}},
			}
		}

		s.Apply(context.Background(), ops, results)

		if results[0].Err != nil {
			b.Fatal(results[0].Err)
		}
	}

	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/batchOps, "µs/op")
	b.ReportMetric((s.processorTime(b)-before)*1e6/float64(b.N)/batchOps, "redis-µs/op")
}

// BenchmarkIdleClients measures what a client costs that has used some of its
// budget and holds nothing: INFO's used_memory, before and after b.N of them.
//
//	go test -run none -bench IdleClients -benchtime 1000000x ./internal/store/redis
func BenchmarkIdleClients(b *testing.B) {
	perClient(b, func(i int) ledger.Ask { return ledger.Ask{Takes: []int64{1 + int64(i%7)}} })
}

// BenchmarkLeasedClients measures the same of a client of whom one holder has a lease.
func BenchmarkLeasedClients(b *testing.B) {
	perClient(b, func(int) ledger.Ask { return ledger.Ask{RaiseTo: 20, Keep: true} })
}

// perClient measures the memory of b.N clients, each after one ask.
func perClient(b *testing.B, ask func(i int) ledger.Ask) {
	b.Helper()

	const (
		batch = 1000
		long  = 3_600_000_000 // µs, of a lease: none ends while it is measured
	)

	s := openWith(b, Config{Addresses: []string{redistest.NewServer(b).Address}, DeadAfter: time.Minute}) // it need not be quick
	bucket, _ := rate.NewBucket(100, 60_000_000_000, 100)

	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()

	ops, results := make([]store.Op, 0, batch), make([]store.Result, batch)
	before := s.usedMemory(b)

	b.ResetTimer()

	for i := range b.N {
		op := store.Op{
			Key: store.Key{Rule: "r", Key: strconv.Itoa(i)}, Terms: ledger.Terms{Bucket: bucket, Version: 1, TTL: long}, Ask: ask(i),
		}
		op.Ask.Holder, op.Ask.Seq = 1, 1
		ops = append(ops, op)

		if len(ops) == batch || i == b.N-1 {
			s.Apply(ctx, ops, results)

			if results[0].Err != nil {
				b.Fatal(results[0].Err)
			}

			ops = ops[:0]
		}
	}

	b.ReportMetric(float64(s.usedMemory(b)-before)/float64(b.N), "B/client")
}

// usedMemory returns what Redis says that it uses, in bytes.
func (s *Store) usedMemory(b *testing.B) int64 {
	b.Helper()

	info, err := s.client.Do(context.Background(), s.client.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		b.Fatal(err)
	}

	n, err := strconv.ParseInt(field(info, "used_memory"), 10, 64)
	if err != nil {
		b.Fatal(err)
	}

	return n
}

// BenchmarkCall measures the same op as a function of a library, as a script of
// the same text, and a script that does nothing with the same arguments:
// pipelines of batchOps on one server.
func BenchmarkCall(b *testing.B) {
	body, err := libraryBody()
	if err != nil {
		b.Fatal(err)
	}

	s := openAt(b, []string{redistest.NewServer(b).Address})
	if _, err := s.Beat(b.Context(), nil, 0); err != nil { // which loads the functions
		b.Fatal(err)
	}

	bucket, _ := rate.NewBucket(1000, 1_000_000, 1000)
	op := store.Op{
		Terms: ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000},
		Ask:   ledger.Ask{Holder: 1, RaiseTo: 10, Keep: true},
	}
	at := s.names.place(op.Key)

	for _, kind := range []struct{ name, text string }{
		{"function", ""}, {"script", body + "return op(KEYS, ARGV)"}, {"nothing", "return 1"},
	} {
		sha := ""
		if kind.text != "" {
			if sha, err = s.client.Do(b.Context(), s.client.B().ScriptLoad().Script(kind.text).Build()).ToString(); err != nil {
				b.Fatal(err)
			}
		}

		b.Run(kind.name, func(b *testing.B) {
			commands := make([]rueidis.Completed, batchOps)

			for b.Loop() {
				for i := range commands {
					op.Ask.Seq++
					terms, ask := string(appendTerms(nil, &op.Terms)), string(appendAsk(nil, &op.Ask))

					if sha == "" {
						commands[i] = s.client.B().Fcall().Function(s.library.op).Numkeys(3).Key(at.group, at.held, at.mark).
							Arg(at.name, terms, ask, s.least, "").Build()
					} else {
						commands[i] = s.client.B().Evalsha().Sha1(sha).Numkeys(3).Key(at.group, at.held, at.mark).
							Arg(at.name, terms, ask, s.least, "").Build()
					}
				}

				for _, response := range s.client.DoMulti(b.Context(), commands...) {
					if err := response.Error(); err != nil {
						b.Fatal(err)
					}
				}
			}

			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/batchOps, "µs/op")
		})
	}
}
