package holder_test

import (
	"math/rand/v2"
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// rests has every holder forget what is at rest, but for its trace; it returns how many did.
func (m *model) rests() (n int) {
	for _, p := range m.holders {
		t, ok := p.lease.Trace(m.now + p.offset)
		if !ok {
			continue
		}

		p.lease = holder.New()
		p.lease.Resume(&t)

		for i := range p.paid { // the lease that paid is gone
			p.paid[i].Epoch = storeEpoch
		}

		n++
	}

	return n
}

// Keys that rest at each chance admit no more than those that stay.
func TestNothingAboveTheBoundWhenKeysRest(t *testing.T) {
	t.Parallel()

	const runs = 5_000

	rested := 0

	for seed := range uint64(runs) {
		m := newModel(randChooser{rand.New(rand.NewPCG(seed, 2))})

		for range 100 {
			if err := m.step(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}

			rested += m.rests()
		}
	}

	if rested < runs {
		t.Errorf("keys rested %d times in %d runs: they should more often", rested, runs)
	}
}

// What goes on from a trace says and asks the same as what never rested, whenever it is asked.
func TestATraceGoesOn(t *testing.T) {
	t.Parallel()

	for name, terms := range map[string]ledger.Terms{
		"token bucket":   {Algorithm: rate.TokenBucket, Bucket: bucketOf(t, 7, 60), Version: 1, TTL: 500_000},
		"leaky bucket":   {Algorithm: rate.LeakyBucket, Bucket: bucketOf(t, 7, 60), Version: 1, TTL: 500_000},
		"fixed window":   {Algorithm: rate.FixedWindow, Bucket: bucketOf(t, 10, 30), Length: 3_000_000, Version: 1, TTL: 500_000},
		"sliding window": {Algorithm: rate.SlidingWindow, Bucket: bucketOf(t, 200, 200), Length: 3_000_000, Version: 1, TTL: 500_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			r := rand.New(rand.NewPCG(1, 3))
			o := &lone{lease: holder.New(), terms: terms}
			now, rested, refused := int64(1_000_000_000), 0, 0

			var common *holder.Common

			for range 500 {
				o.catchUp(now)
				o.take(now, 1+r.Int64N(3))

				now += r.Int64N(300_000)

				if trace, ok := o.lease.Trace(now); ok {
					rested++

					if _, denied := o.lease.Denied(now, 3); denied {
						refused++
					}

					packed, ok := trace.Pack(common)
					if got := packed.Trace(); !ok || got != trace || packed.At() != trace.At || packed.Until() != trace.Until() {
						t.Fatalf("packed it is %+v, not %+v", got, trace)
					}

					if c, ok := packed.Common(trace.Terms); ok {
						common = c
					}

					resumed := holder.New()
					resumed.Resume(&trace)

					if again, ok := resumed.Trace(now); !ok || again != trace {
						t.Fatalf("it leaves another trace: %+v after %+v", again, trace)
					}

					sameAs(t, o, resumed, now+r.Int64N(2_000_000))
				}
			}

			if rested < 50 {
				t.Errorf("it rested %d times of 500", rested)
			}

			if refused == 0 && name != "sliding window" { // which leaves no trace while it refuses
				t.Error("no key rested that was denied more")
			}
		})
	}
}

// A trace is packed whatever it says, but for instants that a process does not live to see; what it says like others it shares with them.
func TestTracesArePacked(t *testing.T) {
	t.Parallel()

	const years = int64(365 * 24 * 3600 * 1_000_000)

	terms := &ledger.Terms{Algorithm: rate.TokenBucket}
	first := holder.Trace{Terms: terms, At: 1, Note: 7}

	p, _ := first.Pack(nil)

	common, ok := p.Common(terms)
	if !ok {
		t.Fatal("there is nothing to share")
	}

	for _, c := range []struct {
		trace         holder.Trace
		packs, shares bool
	}{
		{holder.Trace{Terms: terms, At: 1, Note: 1<<16 - 1}, true, true},
		{holder.Trace{Terms: terms, At: 8 * years, Note: 1}, true, true},
		{holder.Trace{Terms: terms, At: 1, Note: 1 << 16}, true, false},
		{holder.Trace{Terms: &ledger.Terms{Algorithm: rate.TokenBucket}, At: 1}, true, false},
		{holder.Trace{Terms: terms, At: 9 * years}, false, false},
		{holder.Trace{Terms: terms, At: -1}, false, false},
	} {
		p, ok := c.trace.Pack(common)
		if ok != c.packs {
			t.Errorf("%+v packs: %v", c.trace, ok)
		}

		if !ok {
			continue
		}

		if got := p.Trace(); got != c.trace {
			t.Errorf("%+v is unpacked as %+v", c.trace, got)
		}

		if got, _ := p.Common(terms); (got == common) != c.shares {
			t.Errorf("%+v shares: %v", c.trace, got == common)
		}
	}
}

// sameAs compares a lease that goes on from the trace of another with that.
func sameAs(t *testing.T, o *lone, resumed *holder.Lease, now int64) {
	t.Helper()

	old := o.lease.Clone()

	if !resumed.Known() || resumed.Terms() != old.Terms() {
		t.Fatalf("its terms are %+v, not %+v", resumed.Terms(), old.Terms())
	}

	for _, n := range []int64{1, 5, o.terms.Bucket.Burst} {
		if got, want := resumed.Wait(now, n), old.Wait(now, n); got != want {
			t.Fatalf("%d more have to wait for %d µs, not %d", n, got, want)
		}

		till, denied := resumed.Denied(now, n)
		if wantTill, want := o.lease.Denied(now, n); denied != want || denied && till != wantTill {
			t.Fatalf("%d more are denied until %d: %v, not %v until %d", n, till, denied, want, wantTill)
		}
	}

	if got, want := resumed.Remaining(now), old.Remaining(now); got != want {
		t.Fatalf("%d remain, not %d", got, want)
	}

	if got, want := resumed.Full(now), old.Full(now); got != want {
		t.Fatalf("it is full in %d µs, not in %d", got, want)
	}

	need := holder.Need{Seq: o.seq + 1, Holder: 1, Holders: 1, TTL: o.terms.TTL, Needs: []int64{2}}
	got, want := resumed.Ask(now, holder.Exact{}, need), old.Ask(now, holder.Exact{}, need)

	if diff := got.RaiseTo - want.RaiseTo; diff < -1 || diff > 1 { // the rate is remembered in fewer digits
		t.Fatalf("it wants %d, not %d", got.RaiseTo, want.RaiseTo)
	}

	if got.Spent != want.Spent || got.Lease != want.Lease || got.Lag != want.Lag || got.Debt != want.Debt || got.DebtAcked != want.DebtAcked || got.Keep != want.Keep {
		t.Fatalf("it asks %+v, not %+v", got, want)
	}
}

func bucketOf(t *testing.T, limit, burst int64) rate.Bucket {
	t.Helper()

	b, err := rate.NewBucket(limit, 1_000_000, burst)
	if err != nil {
		t.Fatal(err)
	}

	return b
}

// While something is at stake there is no trace that would do.
func TestWhatIsAtStakeLeavesNoTrace(t *testing.T) {
	t.Parallel()

	const start = int64(1_000_000_000)

	bucket := ledger.Terms{Bucket: bucketOf(t, 100, 100), Version: 1, TTL: 500_000}
	sliding := ledger.Terms{Algorithm: rate.SlidingWindow, Bucket: bucketOf(t, 100, 100), Length: 1_000_000, Version: 1, TTL: 500_000}
	log := ledger.Terms{Algorithm: rate.SlidingLog, Bucket: bucketOf(t, 100, 100), Length: 1_000_000, Version: 1, TTL: 500_000}

	for _, c := range []struct {
		name  string
		terms ledger.Terms
		act   func(o *lone)
		want  bool
	}{
		{"a take", bucket, func(*lone) {}, true},
		{"a take of a log", log, func(*lone) {}, false},
		{"an ask on its way", bucket, func(o *lone) { o.lease.Ask(start, holder.Exact{}, holder.Need{Seq: 2, Holder: 1}) }, false},
		{"an ask that was lost", bucket, func(o *lone) {
			o.lease.Ask(start+1, holder.Exact{}, holder.Need{Seq: 2, Holder: 1})
			o.lease.Lost(0)
		}, false},
		{"a refund", bucket, func(o *lone) { o.lease.Refund(start, holder.Payment{Epoch: storeEpoch, N: 1, End: start * 2}) }, false},
		{"a refusal", bucket, func(o *lone) { o.ask(start, 100) }, true},
		{"a refusal, and demand that was refused", bucket, func(o *lone) { o.ask(start, 100); o.lease.Refuse(1) }, true},
		{"a refusal of a sliding window", sliding, func(o *lone) { o.ask(start, 100) }, false},
		{"demand that was refused", bucket, func(o *lone) { o.lease.Refuse(1) }, false},
		{"the local limit", bucket, func(o *lone) { o.lease.BeginLocal(start, holder.Alone{Whole: o.terms.Bucket, Holders: 1}, nil) }, false},
		{"a lease", bucket, func(o *lone) {
			a := o.state.Apply(start, o.terms, o.lease.Ask(start, holder.Exact{}, holder.Need{Seq: 2, Holder: 1, Needs: []int64{5}}))
			o.lease.Hear(start, &a)
		}, false},
	} {
		o := &lone{lease: holder.New(), terms: c.terms}
		if _, ok := o.lease.Trace(start); ok {
			t.Fatal("a lease that heard nothing leaves a trace")
		}

		o.ask(start, 1)
		c.act(o)

		if _, ok := o.lease.Trace(start); ok != c.want {
			t.Errorf("%s: a trace %v, want %v", c.name, ok, c.want)
		}
	}
}
