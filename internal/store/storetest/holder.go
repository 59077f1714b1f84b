package storetest

import (
	"context"
	"math/bits"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// terms are those of a bucket of burst that refills as many every window, with leases of ttl.
func terms(t *testing.T, burst int64, window, ttl time.Duration) ledger.Terms {
	t.Helper()

	b, err := rate.NewBucket(burst, window.Microseconds(), burst)
	if err != nil {
		t.Fatal(err)
	}

	return ledger.Terms{Bucket: b, Version: 1, TTL: ttl.Microseconds()}
}

// still are terms under which nothing refills while a test runs, and no lease ends.
func still(t *testing.T, burst int64) ledger.Terms {
	t.Helper()

	return terms(t, burst, 1000*time.Hour, time.Hour)
}

// A holder asks about one key, as a holder would: every ask with the next seq
// and the lease that it knows.
type holder struct {
	store store.Store
	key   store.Key
	terms ledger.Terms

	id      uint64
	seq     uint64
	lease   uint64
	granted int64
	spent   int64
}

// holder returns a holder of key; ids tell holders apart.
func (r *rig) holder(id uint64, key store.Key, terms ledger.Terms) *holder {
	return &holder{store: r.store, key: key, terms: terms, id: id}
}

// op returns the holder's next ask, to be sent as it is or changed first.
func (h *holder) op() store.Op {
	h.seq++

	return store.Op{Key: h.key, Terms: h.terms, Ask: ledger.Ask{
		Holder: h.id, Seq: h.seq, Lease: h.lease, Spent: h.spent, RaiseTo: h.granted,
	}}
}

// send applies one op and takes in the answer.
func (h *holder) send(t *testing.T, op store.Op) ledger.Answer {
	t.Helper()

	a := apply(t, h.store, op)[0]
	h.heard(a)

	return a
}

func (h *holder) heard(a ledger.Answer) {
	if a.Lease != h.lease {
		h.spent = 0
	}

	h.lease, h.granted = a.Lease, a.Granted
}

// take asks for n tokens at once, and reports whether it got them.
func (h *holder) take(t *testing.T, n int64) bool {
	t.Helper()

	op := h.op()
	op.Ask.Takes = []int64{n}

	return h.send(t, op).Taken == 1
}

// drain takes single tokens until one is refused or it has most of them, and returns how many it got.
func (h *holder) drain(t *testing.T, most int) int64 {
	t.Helper()

	var got int64

	for range most {
		if !h.take(t, 1) {
			break
		}

		got++
	}

	return got
}

// raise asks for a balance up to the total of n, or returns what is above.
func (h *holder) raise(t *testing.T, n int64) ledger.Answer {
	t.Helper()

	op := h.op()
	op.Ask.RaiseTo = n

	return h.send(t, op)
}

// apply applies ops in one call, and fails the test if one has an error.
func apply(t *testing.T, s store.Store, ops ...store.Op) []ledger.Answer {
	t.Helper()

	// Far more time than a request has: what is shown is arithmetic, and a store may leave out a node that is slow.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	results := make([]store.Result, len(ops))
	s.Apply(ctx, ops, results)

	answers := make([]ledger.Answer, len(ops))

	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("op %d on %q: %v", i, ops[i].Key, r.Err)
		}

		answers[i] = r.Answer
	}

	return answers
}

// given returns how many takes, of one token each, an answer gave.
func given(a ledger.Answer) int64 { return int64(bits.OnesCount64(a.Taken)) }
