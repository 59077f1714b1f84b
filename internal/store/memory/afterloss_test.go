package memory

import (
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// After a loss a budget begins as spent when the data was lost, unless its rule says that it is whole.
func TestWhatABudgetIsAfterALoss(t *testing.T) {
	dir := t.TempDir()
	newFixture(t, Config{Dir: dir}).crash()

	f := newFixture(t, Config{Dir: dir})
	bucket, _ := rate.NewBucket(100, 3_600_000_000, 100)

	for key, whole := range map[string]bool{"cautious": false, "whole": true} {
		ops := []store.Op{{
			Key:   store.Key{Rule: "r", Key: key},
			Terms: ledger.Terms{Bucket: bucket, Version: 1, TTL: 500_000, Whole: whole},
			Ask:   ledger.Ask{Holder: 1, Seq: 1, Takes: []int64{50}},
		}}
		results := make([]store.Result, 1)
		f.Apply(t.Context(), ops, results)

		if got := results[0].Answer.Taken != 0; results[0].Err != nil || got != whole {
			t.Errorf("%s: half the burst is to be had: %v (%v)", key, got, results[0].Err)
		}
	}
}
