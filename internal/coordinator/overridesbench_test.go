package coordinator_test

import (
	"strconv"
	"testing"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

// What overrides from outside the document add to an ask: nothing to look at, a rule without any, and a rule with some, all
// of whose keys are known.
func BenchmarkOverrides(b *testing.B) {
	for name, overrides := range map[string]*coordinator.Overrides{
		"document alone": nil,
		"none":           coordinator.NewOverrides(&negotiated{rows: map[string]coordinator.Override{}}, nil, nil),
		"known":          coordinator.NewOverrides(&negotiated{rows: map[string]coordinator.Override{"key/1": of(50, 3)}}, nil, nil),
	} {
		b.Run(name, func(b *testing.B) {
			kept, err := memory.New(memory.Config{})
			if err != nil {
				b.Fatal(err)
			}

			defer func() { _ = kept.Close(b.Context()) }()

			book := coordinator.NewBook(nil)

			set, err := rule.Parse("test", []byte("rules: [{id: r, keyBy: user, limit: 1000000, window: 1s}]"))
			if err == nil {
				_, err = book.Apply(set)
			}

			if err != nil {
				b.Fatal(err)
			}

			c, err := coordinator.New(coordinator.Config{Store: kept, Book: book, Overrides: overrides})
			if err != nil {
				b.Fatal(err)
			}

			batch := &ledger.Batch{Holder: 7, Asks: make([]ledger.KeyAsk, 100), Reply: &ledger.Answers{}}
			for i := range batch.Asks {
				batch.Asks[i] = ledger.KeyAsk{Rule: "r", Key: "key/" + strconv.Itoa(i), Ask: ledger.Ask{Takes: []int64{1}}}
			}

			for b.Loop() {
				batch.Seq++
				if _, err := c.Acquire(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}

			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(batch.Asks)), "ns/ask")
		})
	}
}
