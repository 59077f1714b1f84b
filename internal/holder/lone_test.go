package holder_test

import (
	"math/rand/v2"
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// lone is one holder with a ledger at its elbow: what the table does, without goroutines.
type lone struct {
	lease *holder.Lease
	state ledger.State
	terms ledger.Terms
	seq   uint64
	calls int
}

func (o *lone) ask(now int64, takes ...int64) ledger.Answer {
	o.calls++
	o.seq++
	a := o.state.Apply(now, o.terms, o.lease.Ask(now, holder.Exact{}, holder.Need{
		Seq: o.seq, Holder: 1, Holders: 1, TTL: o.terms.TTL, Takes: takes,
	}))
	o.lease.Hear(now, &a)

	return a
}

// catchUp runs the timers that fell due before now.
func (o *lone) catchUp(now int64) {
	for r := o.lease.Refresh(); r != 0 && r <= now; r = o.lease.Refresh() {
		o.ask(r)
	}
}

func (o *lone) take(now, n int64) bool {
	for tick := now; ; {
		_, v, _ := o.lease.Spend(tick, n)

		switch v {
		case holder.Turned:
			tick = o.lease.Turn(now, now, holder.Exact{})

			continue
		case holder.SpentLow:
			if _, denied := o.lease.Denied(now, n); !denied {
				o.ask(now)
			}

			return true
		case holder.Spent:
			return true
		case holder.Dry, holder.SpentLate, holder.Missed, holder.Closed:
		}

		if _, denied := o.lease.Denied(now, n); denied {
			o.lease.Refuse(n)

			return false
		}

		// The balance and a take of the rest, both or neither.
		balance := o.lease.Balance()
		if n > o.terms.Bucket.Burst {
			balance = 0
		}

		epoch := o.lease.Epoch()
		o.lease.Reserve(tick, balance)

		if o.ask(now, n-balance).Taken != 0 {
			o.lease.Commit(balance)

			return true
		}

		o.lease.Cancel(epoch, balance)
		tick = o.lease.Turn(now, now, holder.Exact{})
		_, v, _ = o.lease.Spend(tick, n) // the refill that came with it may cover it

		return v == holder.Spent || v == holder.SpentLow
	}
}

// Alone, a holder gives the answer of one central counter to every request, leases or not.
func TestAloneItIsACentralCounter(t *testing.T) {
	t.Parallel()

	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		limit := []int64{5, 100, 1000, 20_000}[r.IntN(4)]
		burst := []int64{1, 10, limit, 3 * limit}[r.IntN(4)]
		b, _ := rate.NewBucket(limit, 1_000_000, burst)
		o := &lone{lease: holder.New(), terms: ledger.Terms{Bucket: b, Version: 1, TTL: 500_000}}
		load := []float64{0.3, 0.8, 0.99, 2, 20}[r.IntN(5)]
		gap := 1e6 / (float64(limit) * load)
		now := int64(1_000_000_000)

		var twin rate.Time

		for i := range 400 {
			n := int64(1)
			if r.IntN(20) == 0 {
				n = 1 + r.Int64N(min(burst, 5))
			}

			o.catchUp(now)

			got := o.take(now, n)

			var want bool
			if twin, want = b.Take(now, twin, n); got != want {
				t.Fatalf("seed %d (%d/s, burst %d, load %v), request %d for %d at %d: %v, a central counter says %v; balance %d, avail %d",
					seed, limit, burst, load, i, n, now, got, want, o.lease.Balance(), b.Avail(now, twin))
			}

			if left := o.lease.Remaining(now); left != b.Avail(now, twin) {
				t.Fatalf("seed %d (%d/s, burst %d, load %v), request %d: %d remaining, a central counter says %d",
					seed, limit, burst, load, i, left, b.Avail(now, twin))
			}

			if wait := o.lease.Wait(now, n); wait != b.Wait(now, twin, n) {
				t.Fatalf("seed %d, request %d: wait %d, a central counter says %d", seed, i, wait, b.Wait(now, twin, n))
			}

			now += int64(r.ExpFloat64() * gap)

			if r.IntN(50) == 0 {
				now += r.Int64N(2_000_000)
			}
		}
	}
}
