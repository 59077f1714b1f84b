package holder_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// A request that holds tokens while their lease ends counts when it is admitted, and only then.
func TestWhatIsReservedWhileTheLeaseEndsIsCounted(t *testing.T) {
	t.Parallel()

	b, _ := rate.NewBucket(1000, 1_000_000, 1000)

	for _, admitted := range []bool{true, false} {
		o := &lone{lease: holder.New(), terms: ledger.Terms{Bucket: b, Version: 1, TTL: 500_000}}
		now := int64(1_000_000_000)

		for ; o.lease.Balance() < 3; now += 1000 { // until it is worth a lease
			o.take(now, 1)
		}

		tick, epoch := o.lease.Turn(now, now, holder.Exact{}), o.lease.Epoch()
		before := o.lease.Admitted()

		if _, v, _ := o.lease.Reserve(tick, 3); !v.Passed() {
			t.Fatalf("nothing to reserve: %v", v)
		}

		o.lease.Turn(o.lease.Until(), o.lease.Until(), holder.Exact{}) // the lease is over

		if o.lease.Epoch() == epoch {
			t.Fatal("the lease has not ended")
		}

		want := int64(0)

		if admitted {
			o.lease.Commit(3)

			want = 3
		} else {
			o.lease.Cancel(epoch, 3)
		}

		if got := o.lease.Admitted(); got != want {
			t.Errorf("admitted %v: %d count after %d before, want %d", admitted, got, before, want)
		}
	}
}

// What a holder spends while its ledger takes tokens back, since the limit was lowered, is counted, told, and charged.
func TestWhatIsSpentWhileALowerLimitTakesItBackIsTold(t *testing.T) {
	t.Parallel()

	b, _ := rate.NewBucket(1, 86_400_000_000, 100)
	o := &lone{lease: holder.New(), terms: ledger.Terms{Bucket: b, Version: 1, TTL: 60_000_000}}
	now := int64(1_000_000_000)

	for ; o.lease.Balance() < 3; now += 1000 { // until it is worth a lease
		o.take(now, 1)
	}

	before := o.lease.Spent()
	o.seq++
	ask := o.lease.Ask(now, holder.Exact{}, holder.Need{Seq: o.seq, Holder: 1, Holders: 1, TTL: o.terms.TTL})

	for range 2 { // on the way
		if !o.take(now, 1) {
			t.Fatal("there was a balance")
		}
	}

	o.terms.Bucket.Burst, o.terms.Version = 40, 2
	a := o.state.Apply(now, o.terms, ask)
	o.lease.Hear(now, &a)

	if got := o.lease.Spent(); got != before+2 || o.lease.Balance() != 0 {
		t.Errorf("%d spent, %d left; want %d and none", got, o.lease.Balance(), before+2)
	}

	full := o.state.TAT
	o.ask(now)

	if got, want := o.state.TAT, o.terms.Bucket.Add(full, 2); got != want {
		t.Errorf("the bucket is full at %v after %v, want %v", got, full, want)
	}
}
