package holder_test

import (
	"math/rand/v2"
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// tally is a mark that forgets nothing: when each tick's first spend was, and how much was spent before it.
type tally struct {
	b       rate.Bucket
	pending []spend // since the last answer
	sent    int     // of them, what the last ask reported
	quick   int     // ticks that were turned quickly
}

type spend struct{ at, before int64 }

// lag returns what an ask at now says that reports S = spent, straight from the definition.
func (y *tally) lag(now, spent int64) (micros, frac int64) {
	if len(y.pending) == 0 {
		return 0, 0
	}

	latest := y.pending[0].at*y.b.Q - y.pending[0].before*y.b.P
	for _, s := range y.pending {
		latest = max(latest, s.at*y.b.Q-s.before*y.b.P)
	}

	end := latest + spent*y.b.P

	return now - end/y.b.Q, end % y.b.Q
}

// However a lease's ticks were turned, and whatever was granted, returned or lost meanwhile, an ask
// tells the lag that follows from each single spend.
func TestLagIsThatOfTheLatestSpend(t *testing.T) {
	t.Parallel()

	quick := 0

	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 7))
		b, _ := rate.NewBucket(3_000, 1_000_000, 1_000_000)
		terms := ledger.Terms{Bucket: b, Version: 1, TTL: 600_000_000}
		l, y := holder.New(), &tally{b: b}
		now, seq, flying := int64(1_000_000), uint64(0), ledger.Ask{}

		for step := range 200 {
			now += r.Int64N(3_000)

			switch r.IntN(6) {
			case 0:
				l.Lost(0)

				seq++
				flying = l.Ask(now, holder.Exact{}, holder.Need{Seq: seq, Needs: []int64{r.Int64N(200)}, TTL: terms.TTL, Holders: 1})

				if micros, frac := y.lag(now, flying.Spent); flying.Lag != micros || flying.LagFrac != frac {
					t.Fatalf("seed %d, step %d: a lag of %d µs and %d, want %d and %d", seed, step, flying.Lag, flying.LagFrac, micros, frac)
				}

				y.sent = len(y.pending)
			case 1:
				a := ledger.Answer{
					Seq: flying.Seq, Lease: 1, Granted: flying.Spent + r.Int64N(max(1, flying.RaiseTo-flying.Spent+1)),
					TTL: terms.TTL, Terms: terms, Others: r.Int64N(100), Holders: 1,
				}
				if flying.Seq != 0 && l.Hear(now, &a) {
					y.pending = y.pending[y.sent:]
				}

				flying.Seq = 0
			default:
				y.spend(l, now, 1+r.Int64N(20))
			}
		}

		quick += y.quick
	}

	if quick < 1_000 {
		t.Errorf("%d ticks were turned quickly: too few to prove anything", quick)
	}
}

// spend spends n tokens at now, if l has them, as a request does: the first one of a tick turns it, quickly if it may.
func (y *tally) spend(l *holder.Lease, now, n int64) {
	switch was := l.Tick(); {
	case was == now:
	case was > 0 && l.QuickTurn(now, was, &y.b):
		y.quick++
	default:
		l.Turn(now, now, holder.Exact{})
		l.Note(now, &y.b)
	}

	before := l.Spent()
	if _, v, _ := l.Spend(now, n); v.Passed() {
		y.pending = append(y.pending, spend{now, before})
	}
}
