package rpc

import (
	"fmt"
	"testing"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
)

// renewals are batches of n asks, each of which reports a lease as spent and raises it again.
type renewals struct {
	batch *ledger.Batch
	known []ledger.Answer
}

func renew(n int) *renewals {
	r := &renewals{batch: &ledger.Batch{Holder: holderID, Name: "test", Asks: make([]ledger.KeyAsk, n)}, known: make([]ledger.Answer, n)}
	for i := range r.batch.Asks {
		r.batch.Asks[i] = ledger.KeyAsk{Rule: "fast", Key: fmt.Sprintf("user-%d-%06d", n, i)}
	}

	return r
}

// next returns the next batch.
func (r *renewals) next() *ledger.Batch {
	r.batch.Seq++

	for i := range r.batch.Asks {
		a := &r.known[i]
		r.batch.Asks[i].Ask = ledger.Ask{
			Holder: holderID, Seq: r.batch.Seq, Lease: a.Lease, Spent: a.Granted, RaiseTo: a.Granted + 300, Lag: 1000,
		}
	}

	return r.batch
}

// hear takes in the answers, and reports whether each granted something.
func (r *renewals) hear(answers *ledger.Answers) bool {
	for i := range answers.Keys {
		if answers.Keys[i].Code != ledger.KeyOK || answers.Keys[i].Answer.Granted <= r.known[i].Granted {
			return false
		}

		r.known[i] = answers.Keys[i].Answer
	}

	return true
}

// BenchmarkAcquire is a signed call of many keys over gRPC on this machine, both sides; the time is a key's.
func BenchmarkAcquire(b *testing.B) {
	book := coordinator.NewBook(nil)
	if _, err := book.Apply(parse(b, "rules: [{id: fast, keyBy: user, limit: 1000000000, window: 1s, lease: {ttl: 1m}}]")); err != nil {
		b.Fatal(err)
	}

	server := serve(b, ServerConfig{Coordinator: newCoordinator(b, newStore(b), book), Signer: signer(b, 1)})
	client := dialTo(b, nil, server)

	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			r := renew(n)
			b.ReportAllocs()

			for b.Loop() {
				answers, err := client.Acquire(b.Context(), r.next())
				if err != nil || !r.hear(answers) {
					b.Fatalf("not granted, error %v", err)
				}
			}

			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/key")
		})
	}
}
