package holder_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// A reservation that is committed after its sliding window has ended counts in it.
func TestTheFinalSpentCountsReservations(t *testing.T) {
	bucket, err := rate.NewBucket(100, 1_000_000, 100)
	if err != nil {
		t.Fatal(err)
	}

	var (
		state ledger.State
		lease = holder.New()
		terms = ledger.Terms{Algorithm: rate.SlidingWindow, Bucket: bucket, Length: 1_000_000, Version: 1, TTL: 500_000}
	)

	ask := func(now int64, seq uint64, needs ...int64) ledger.Answer {
		a := state.Apply(now, terms, lease.Ask(now, holder.Exact{}, holder.Need{Seq: seq, Holder: 1, Needs: needs, Holders: 1, TTL: terms.TTL}))
		if !lease.Hear(now, &a) {
			t.Fatal("the answer was not taken")
		}

		return a
	}

	ask(10_500_000, 1, 80)
	lease.Turn(10_900_000, 10_900_000, holder.Exact{})

	if _, v, _ := lease.Reserve(10_900_000, 80); !v.Passed() { // another rule is asked meanwhile
		t.Fatalf("80 leased, 80 reserved: %v", v)
	}

	lease.Turn(11_000_500, 11_000_500, holder.Exact{}) // the lease is over
	lease.Commit(80)

	if a := ask(11_001_000, 2); a.Window.Prev != 80 {
		t.Errorf("80 were admitted in the window before, which counts %d", a.Window.Prev)
	}
}
