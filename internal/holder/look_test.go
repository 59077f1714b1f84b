package holder_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// A key of a fixed window that was busy, and suddenly gets no more requests, is given back within a few looks, long
// before its lease is renewed. While it is busy no look asks.
func TestAKeyThatGoesQuietIsGivenBack(t *testing.T) {
	t.Parallel()

	bucket, err := rate.NewBucket(1_000, 1_000_000, 1_000)
	if err != nil {
		t.Fatal(err)
	}

	e := &edge{T: t, lease: holder.New(), terms: ledger.Terms{
		Algorithm: rate.FixedWindow, Bucket: bucket, Length: 1_000_000, Version: 1, TTL: 500_000,
	}}
	e.state.Apply(10_000_000, e.terms, ledger.Ask{Holder: 2, Seq: 1, RaiseTo: 1}) // another holder, which could use it

	now := int64(10_000_000)
	for ; now < 10_350_000; now += 1_000 { // a request each millisecond
		if e.lease.Look(now) {
			t.Fatalf("at %d: the key is quiet while it is busy", now)
		}

		if e.lease.Balance() == 0 || e.lease.Low() {
			e.lease.Refuse(1 - min(1, e.lease.Balance()))
			e.ask(now)
		}

		e.spend(now, 1)
	}

	idle, quiet := e.lease.Balance(), now
	for !e.lease.Look(now) {
		if now += 1_000; now > quiet+100_000 {
			t.Fatalf("%d tokens lie idle for 100 ms, until %d", idle, e.lease.Refresh())
		}
	}

	e.ask(now)

	if left := e.lease.Balance(); idle < 50 || left > idle/3 {
		t.Errorf("%d of %d tokens are kept", left, idle)
	}

	if e.state.Window.Used > 1+350+idle/3 {
		t.Errorf("the window counts %d of 350 spent", e.state.Window.Used)
	}
}

// Nobody looks where nothing is gained by it: of a bucket tokens come back, and alone nobody lacks them.
func TestWhatNobodyLacksIsNotLookedAt(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		name      string
		algorithm rate.Algorithm
		others    bool
		looks     bool
	}{
		{"a fixed window of several", rate.FixedWindow, true, true},
		{"a fixed window alone", rate.FixedWindow, false, false},
		{"a bucket of several", rate.TokenBucket, true, false},
		{"a sliding window of several", rate.SlidingWindow, true, false},
	} {
		bucket, err := rate.NewBucket(1_000, 1_000_000, 1_000)
		if err != nil {
			t.Fatal(err)
		}

		e := &edge{T: t, lease: holder.New(), terms: ledger.Terms{
			Algorithm: c.algorithm, Bucket: bucket, Length: 1_000_000, Version: 1, TTL: 500_000,
		}}

		if c.others {
			e.state.Apply(10_000_000, e.terms, ledger.Ask{Holder: 2, Seq: 1, RaiseTo: 1})
		}

		for now := int64(10_000_000); now < 10_200_000; now += 50_000 {
			e.ask(now)
			e.spend(now, 10)
			e.lease.Refuse(40)
		}

		if got := e.lease.LookAt() != 0; got != c.looks {
			t.Errorf("%s: looked at: %v", c.name, got)
		}
	}
}
