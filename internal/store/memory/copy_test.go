package memory

import (
	"context"
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// A copy knows what was used, and not what is used after it was made; a store that
// begins after a loss has nothing to give at first.
func TestACopyGoesOnByItself(t *testing.T) {
	now := int64(1_000_000)
	cfg := Config{Clock: func() int64 { return now }}

	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}

	bucket, err := rate.NewBucket(10, 1_000_000, 10)
	if err != nil {
		t.Fatal(err)
	}

	seq := uint64(0)
	take := func(s *Store, n int64) bool {
		seq++
		op := store.Op{
			Key: store.Key{Rule: "r", Key: "k"}, Terms: ledger.Terms{Bucket: bucket, TTL: 500_000},
			Ask: ledger.Ask{Holder: 1, Seq: seq, Takes: []int64{n}},
		}
		results := make([]store.Result, 1)
		s.Apply(t.Context(), []store.Op{op}, results)

		if results[0].Err != nil {
			t.Fatal(results[0].Err)
		}

		return results[0].Answer.Taken == 1
	}

	if !take(s, 6) {
		t.Fatal("nothing was to be had at first")
	}

	c, err := s.Copy(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}

	if c.ID() != s.ID() {
		t.Error("the copy has an id of its own")
	}

	if take(c, 5) || !take(c, 4) || !take(s, 4) {
		t.Error("of 10 tokens with 6 taken, each should have 4 left")
	}

	cfg.Lost = now

	lost, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}

	if take(lost, 1) {
		t.Error("a token was to be had right after the loss")
	}

	for _, s := range []*Store{s, c, lost} {
		_ = s.Close(context.Background())
	}
}
