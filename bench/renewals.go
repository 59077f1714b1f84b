package main

import (
	"fmt"

	"github.com/leaseway/leaseway/internal/ledger"
)

// renewals are leases that are reported as spent and raised again, in turn.
type renewals struct {
	keys  []string
	known []ledger.Answer
	batch ledger.Batch
	next  int
}

func newRenewals(n int) *renewals {
	r := &renewals{
		keys: make([]string, n), known: make([]ledger.Answer, n), batch: ledger.Batch{Holder: 1, Reply: &ledger.Answers{}},
	}
	for i := range r.keys {
		r.keys[i] = fmt.Sprintf("user-%06d", i)
	}

	return r
}

// asks fills the batch with the next asks, size of them.
func (r *renewals) asks(size int) *ledger.Batch {
	r.batch.Seq++
	r.batch.Asks = r.batch.Asks[:0]

	for i := range size {
		at := (r.next + i) % len(r.keys)
		a := &r.known[at]
		r.batch.Asks = append(r.batch.Asks, ledger.KeyAsk{Rule: "r", Key: r.keys[at], Ask: ledger.Ask{
			Holder: 1, Seq: r.batch.Seq, Lease: a.Lease, Spent: a.Granted, RaiseTo: a.Granted + grantSize,
		}})
	}

	return &r.batch
}

// renew makes one call.
func (r *renewals) renew(g *granter, size int) error {
	batch := r.asks(size)

	answers, err := g.acquire(batch)
	if err != nil {
		return err
	}

	for i := range answers.Keys {
		k, known := &answers.Keys[i], &r.known[(r.next+i)%len(r.keys)]
		if k.Code != ledger.KeyOK || k.Answer.Granted <= known.Granted {
			return fmt.Errorf("%s was granted nothing", batch.Asks[i].Key)
		}

		*known = k.Answer
	}

	r.next += size

	return nil
}

// all renews each lease once.
func (r *renewals) all(g *granter, size int) error {
	for range len(r.keys) / size {
		if err := r.renew(g, size); err != nil {
			return err
		}
	}

	return nil
}
