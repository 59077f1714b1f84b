package holder_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// After an outage, once every holder has reported its debt, the ledger is at
// least as full as a bucket that saw every admission, less what
// the rate refills between the first report and the last. So what it grants then is safe.
func TestDebtCoversLocalAdmissions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, _ := rate.NewBucket(rapid.SampledFrom([]int64{7, 10, 1000}).Draw(t, "limit"), 1_000_000, rapid.SampledFrom([]int64{10, 50, 1000}).Draw(t, "burst"))
		terms := ledger.Terms{Bucket: b, Version: 1, TTL: 500_000}
		n := rapid.Int64Range(1, 4).Draw(t, "holders")
		now, seq := int64(1_000_000_000), uint64(1)

		var (
			state ledger.State
			twin  rate.Time
		)

		leases := make([]*holder.Lease, n)
		for i := range leases {
			leases[i] = holder.New()
		}

		ask := func(i int64, need holder.Need) ledger.Answer {
			seq++
			need.Seq, need.Holder, need.Holders, need.TTL = seq, uint64(i+1), n, terms.TTL
			a := state.Apply(now, terms, leases[i].Ask(now, holder.Exact{}, need))
			leases[i].Hear(now, &a)

			return a
		}

		for i := range n {
			cost := rapid.Int64Range(1, b.Burst).Draw(t, "take")
			if rapid.Bool().Draw(t, "lease") {
				ask(i, holder.Need{Needs: []int64{cost}})
			} else if a := ask(i, holder.Need{Takes: []int64{cost}}); a.Taken != 0 {
				twin = b.Add(twin.Max(rate.At(now)), cost)
			}
		}

		var leased int64
		for i := range n {
			leased += leases[i].Balance()
		}

		for range rapid.IntRange(0, 60).Draw(t, "outage") {
			now += rapid.Int64Range(0, 400_000).Draw(t, "dt")
			l := leases[rapid.Int64Range(0, n-1).Draw(t, "holder")]
			cost := rapid.Int64Range(1, 3).Draw(t, "cost")

			l.Turn(now, now, holder.Exact{})

			if _, v, _ := l.Spend(now, cost); v.Passed() { // the lease is spent to its end
				twin = b.Add(twin.Max(rate.At(now)), cost)

				continue
			}

			l.BeginLocal(now, holder.Alone{Whole: b, Holders: n}, nil)

			if ok, _, _ := l.TakeLocal(now, cost); ok {
				twin = b.Add(twin.Max(rate.At(now)), cost)
			}
		}

		began := now

		for i := range n {
			ask(i, holder.Need{})

			now += rapid.Int64Range(0, 100_000).Draw(t, "dt")
		}

		full := b.Add(rate.At(now), b.Burst)
		if b.Add(state.TAT.Shift(now-began), leased).Less(twin.Min(full)) {
			t.Fatalf("the twin holds more than the ledger: %v against %v", twin, state.TAT)
		}
	})
}

// The local limit is the share, and starts where the bucket was.
func TestLocalIsAShare(t *testing.T) {
	t.Parallel()

	b, _ := rate.NewBucket(100, 1_000_000, 100)

	for _, c := range []struct {
		name    string
		holders int64
		used    int64 // when last heard
		after   int64 // µs later
		want    int64 // admitted at once
		refill  int64 // and then in a second
	}{
		{"never heard of: a share of the burst", 4, -1, 0, 20, 20},
		{"empty when last heard: nothing at once", 4, 100, 0, 0, 20},
		{"half used", 4, 50, 0, 10, 20},
		{"empty, but long ago", 4, 100, 1_000_000, 20, 20},
		{"more holders than tokens: one each", 1000, -1, 0, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			var (
				l     = holder.New()
				state ledger.State
			)

			now := int64(1_000_000_000)
			if c.used >= 0 {
				a := state.Apply(now, ledger.Terms{Bucket: b, Version: 1, TTL: 500_000},
					l.Ask(now, holder.Exact{}, holder.Need{Seq: 1, Holder: 1, Holders: 1, TTL: 500_000, Takes: []int64{c.used}}))
				l.Hear(now, &a)
			}

			now += c.after
			l.BeginLocal(now, holder.Alone{Whole: b, Holders: c.holders}, nil)

			count := func() (n int64) {
				for {
					if ok, _, _ := l.TakeLocal(now, 1); !ok {
						return n
					}

					n++
				}
			}

			if got := count(); got != c.want {
				t.Errorf("%d admitted at once, want %d", got, c.want)
			}

			now += 1_000_000

			if got := count(); got != c.refill {
				t.Errorf("%d admitted a second later, want %d", got, c.refill)
			}
		})
	}
}
