package holder_test

import (
	"math/rand/v2"
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// coarse is a clock whose ticks last 1,000 µs.
type coarse struct{}

func (coarse) After(tick int64) int64 { return tick + 1000 }

// twins are two holders of one key that see and do the same, of which one turns
// the quick way whenever it can.
type twins struct {
	quick, plain *holder.Lease
	bucket       rate.Bucket
	turns, took  int // in all, and the quick ones
}

func (w *twins) turn(tick int64) {
	w.plain.Turn(tick, tick, coarse{})
	w.plain.Note(tick, &w.bucket)
	w.turns++

	if w.quick.QuickTurn(tick, coarse{}.After(w.quick.Tick()), &w.bucket) {
		w.took++

		return
	}

	w.quick.Turn(tick, tick, coarse{})
	w.quick.Note(tick, &w.bucket)
}

// spend takes n tokens from both, or from neither.
func (w *twins) spend(t *testing.T, tick, n int64) {
	t.Helper()

	if w.quick.Tick() != tick {
		w.turn(tick)
	}

	one, v, _ := w.quick.Spend(tick, n)
	if other, verdict, _ := w.plain.Spend(tick, n); one != other || v != verdict {
		t.Fatalf("%d of %d at %d: %d left (%v), or %d (%v)", n, w.bucket.Burst, tick, one, v, other, verdict)
	}
}

// Turned the quick way or not, a lease says the same: to requests, and to the ledger.
func TestAQuickTurnIsATurn(t *testing.T) {
	t.Parallel()

	const seeds = 3000

	all := twins{}

	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 11))
		limit := []int64{7, 100, 3000, 999_999, 1_000_000_000}[r.IntN(5)]
		b, _ := rate.NewBucket(limit, 1_000_000, []int64{20, limit, 3 * limit}[r.IntN(3)])
		w := twins{quick: holder.New(), plain: holder.New(), bucket: b}
		state, terms := ledger.State{}, ledger.Terms{Bucket: b, Version: 1, TTL: 500_000}
		now, seq := int64(1_000_000_000), uint64(0)

		ask := func() {
			seq++

			need := holder.Need{Seq: seq, Holder: 1, Holders: 1, TTL: terms.TTL, Takes: []int64{1}}
			one, other := w.quick.Ask(now, coarse{}, need), w.plain.Ask(now, coarse{}, need)

			if one.Spent != other.Spent || one.Lag != other.Lag || one.LagFrac != other.LagFrac || one.RaiseTo != other.RaiseTo {
				t.Fatalf("seed %d: it asks %+v, and %+v", seed, one, other)
			}

			if r.IntN(4) == 0 { // others take and lease, too
				state.Apply(now, terms, ledger.Ask{Holder: 2, Seq: seq, Takes: []int64{1 + r.Int64N(b.Burst)}, RaiseTo: r.Int64N(b.Burst)})
			}

			a := state.Apply(now, terms, one)
			w.quick.Hear(now, &a)
			w.plain.Hear(now, &a)
		}

		for range 300 {
			switch r.IntN(12) {
			case 0:
				ask()
			case 1:
				now += 1000 + r.Int64N(terms.TTL)
			default:
				now += 1000 * (1 + r.Int64N(4))
			}

			for range r.IntN(4) {
				w.spend(t, now, 1+r.Int64N(3))
			}

			if w.quick.Tick() == now && w.quick.Whole() != w.plain.Whole() {
				t.Fatalf("seed %d at %d: whole at %d, or %d", seed, now, w.quick.Whole(), w.plain.Whole())
			}
		}

		all.turns += w.turns
		all.took += w.took
	}

	if all.took < all.turns/10 {
		t.Errorf("of %d turns %d were quick: that proves little", all.turns, all.took)
	}
}
