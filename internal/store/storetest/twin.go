package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// likeLedger plays random asks to the store and to a plain map of ledgers that
// forgets nothing, and wants the same answers: how a store packs, drops, sweeps
// and groups must not show.
func likeLedger(r *rig) {
	r.needs(r.clock.virtual, "has a clock of its own, so it cannot be compared to the microsecond")

	plans := []ledger.Terms{
		terms(r.T, 1, time.Second, 50*time.Millisecond),
		terms(r.T, 7, time.Second, 200*time.Millisecond),
		terms(r.T, 1000, 7*time.Second, 500*time.Millisecond),
		inFlight(6, 3*time.Second),
		inFlight(1, 3*time.Second),
	}
	plans[len(plans)-1].Share = 80 // of what the holders offer

	run := uint64(0)

	rapid.Check(r.T, func(t *rapid.T) {
		run++ // new keys and holders for every run, on the same store

		twin := map[store.Key]*ledger.State{}
		seqs := map[uint64]uint64{}
		leases := map[store.Key]map[uint64]uint64{}
		version := uint64(1)

		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			r.advance(time.Duration(rapid.SampledFrom([]int{0, 1, 999, 50_000, 143_000, 2_000_000}).Draw(t, "µs")) * time.Microsecond)

			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				version++
			}

			ops := make([]store.Op, rapid.IntRange(1, 4).Draw(t, "ops"))
			for i := range ops {
				key := store.Key{Rule: "r", Key: string(rune('a'+rapid.IntRange(0, 2).Draw(t, "key"))) + string(rune(run))}
				id := run<<8 | uint64(rapid.IntRange(1, 3).Draw(t, "holder"))
				plan := plans[rapid.IntRange(0, len(plans)-1).Draw(t, "plan")]
				plan.Version = version

				if rapid.IntRange(0, 4).Draw(t, "repeat") > 0 || seqs[id] == 0 {
					seqs[id]++
				}

				ops[i] = store.Op{Key: key, Terms: plan, Ask: ledger.Ask{
					Holder:  id,
					Seq:     seqs[id],
					Lease:   leases[key][id],
					Spent:   rapid.Int64Range(0, 5).Draw(t, "spent"),
					Lag:     rapid.Int64Range(0, 100_000).Draw(t, "lag"),
					Debt:    rapid.Int64Range(0, 2).Draw(t, "debt"),
					Takes:   rapid.SliceOfN(rapid.Int64Range(1, 3), 0, 3).Draw(t, "takes"),
					RaiseTo: rapid.Int64Range(0, 9).Draw(t, "raiseTo"),
					Keep:    rapid.Bool().Draw(t, "keep"),
					Slots:   plan.Algorithm == rate.Concurrency,
					Offer:   rapid.Int64Range(0, 9).Draw(t, "offer"),
					Name:    uint64(rapid.IntRange(0, 2).Draw(t, "name")),
				}}
			}

			for i, got := range apply(r.T, r.store, ops...) {
				key, ask := ops[i].Key, ops[i].Ask
				if twin[key] == nil {
					twin[key], leases[key] = &ledger.State{}, map[uint64]uint64{}
				}

				want := twin[key].Apply(r.clock.now, ops[i].Terms, ask)
				if got != want {
					t.Fatalf("op %d %+v:\n got %+v\nwant %+v", i, ops[i], got, want)
				}

				leases[key][ask.Holder] = got.Lease
			}
		}
	})
}
