package memory

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store"
)

// fixture is a store on a clock that the test turns.
type fixture struct {
	*Store

	t   testing.TB
	now int64
	seq uint64
}

const noon = 1_800_000_000_000_000

func newFixture(tb testing.TB, cfg Config) *fixture {
	tb.Helper()

	f := &fixture{t: tb, now: noon}
	cfg.Clock = func() int64 { return atomic.LoadInt64(&f.now) }

	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}

	f.Store = s
	tb.Cleanup(func() { _ = s.Close(context.Background()) })

	return f
}

// minuteTerms refill limit tokens a minute.
func minuteTerms(limit int64) ledger.Terms {
	b, err := rate.NewBucket(limit, 60_000_000, limit)
	if err != nil {
		panic(err)
	}

	return ledger.Terms{Bucket: b, Version: 1, TTL: 500_000}
}

// ask sends one ask to key, with a new holder each time, under a limit of 100 a minute.
func (f *fixture) ask(key string, a ledger.Ask) ledger.Answer {
	f.t.Helper()

	f.seq++
	a.Seq = f.seq

	if a.Holder == 0 {
		a.Holder = f.seq
	}

	var result [1]store.Result

	f.Apply(context.Background(), []store.Op{{Key: store.Key{Rule: "r", Key: key}, Terms: minuteTerms(100), Ask: a}}, result[:])

	if result[0].Err != nil {
		f.t.Fatal(result[0].Err)
	}

	return result[0].Answer
}

func (f *fixture) take(key string, n int64) bool {
	f.t.Helper()

	return f.ask(key, ledger.Ask{Takes: []int64{n}}).Taken == 1
}

// sweepAll sweeps as often as it takes to come by everywhere.
func (f *fixture) sweepAll() {
	for range 8 * len(f.shards) {
		f.sweep(f.now)
	}
}

func TestIdleLedgersLeave(t *testing.T) {
	f := newFixture(t, Config{})

	const keys = 20_000

	for i := range keys {
		f.take(fmt.Sprint("take ", i), 1)
		f.ask(fmt.Sprint("lease ", i), ledger.Ask{RaiseTo: 10})
	}

	if s := f.Stats(); s.Keys != 2*keys || s.Held != keys || s.Leases != keys || s.Evicted != 0 {
		t.Fatalf("after %d takes and as many leases: %+v", keys, s)
	}

	atomic.AddInt64(&f.now, 600_000) // a token is back, and the leases have just ended: ten tokens are missing
	f.sweepAll()

	if s := f.Stats(); s.Keys != keys || s.Held != 0 || s.Leases != 0 {
		t.Errorf("when the takes are refilled and the leases over: %+v, want %d keys and no lease", s, keys)
	}

	atomic.AddInt64(&f.now, 60_000_000)
	f.sweepAll()

	if s := f.Stats(); s != (Stats{}) {
		t.Errorf("after a minute: %+v, want nothing", s)
	}

	for i := range f.shards {
		if n := cap(f.shards[i].table.slots); n > 0 {
			t.Errorf("shard %d still has %d slots", i, n)
		}
	}
}

func TestLedgerLeavesWhenItIsSeenFull(t *testing.T) {
	f := newFixture(t, Config{})

	f.take("taken", 1)
	f.ask("leased", ledger.Ask{RaiseTo: 10})

	atomic.AddInt64(&f.now, 60_000_000)
	f.ask("taken", ledger.Ask{})
	f.ask("leased", ledger.Ask{})

	if s := f.Stats(); s != (Stats{}) {
		t.Errorf("two ledgers were looked at when they were full: %+v, want nothing", s)
	}
}

// A ledger that goes from rest to a lease and back, and from terms to terms,
// must not leave references behind.
func TestTermsFollowTheLedger(t *testing.T) {
	f := newFixture(t, Config{})

	f.take("k", 50)
	f.ask("k", ledger.Ask{RaiseTo: 10})

	if s := f.Stats(); s.Terms != 0 || s.Held != 1 {
		t.Errorf("with a lease: %+v, want no terms of ledgers at rest", s)
	}

	atomic.AddInt64(&f.now, 1_000_000)
	f.take("k", 1)

	if s := f.Stats(); s.Terms != 1 || s.Held != 0 {
		t.Errorf("after the lease: %+v, want one", s)
	}

	var result [1]store.Result

	terms := minuteTerms(200)
	terms.Version = 2
	op := store.Op{Key: store.Key{Rule: "r", Key: "k"}, Terms: terms, Ask: ledger.Ask{Holder: 1, Seq: 1, Takes: []int64{1}}}
	f.Apply(context.Background(), []store.Op{op}, result[:])

	if s := f.Stats(); s.Terms != 1 {
		t.Errorf("after a rule change: %+v, want one", s)
	}
}

// Of two ops that meet on a ledger the later may have read the clock first.
func TestTimeOfALedgerNeverStepsBack(t *testing.T) {
	f := newFixture(t, Config{})
	f.ask("k", ledger.Ask{RaiseTo: 80, Holder: 1})

	var result store.Result

	op := store.Op{Key: store.Key{Rule: "r", Key: "k"}, Terms: minuteTerms(100), Ask: ledger.Ask{Holder: 2, Seq: 9}}
	f.apply(f.now-1_000_000, &op, &result)

	atomic.AddInt64(&f.now, 600_000)

	if a := f.ask("k", ledger.Ask{Holder: 3}); a.Others != 0 {
		t.Errorf("a lease of 500 ms is there after 600 ms, with %d tokens", a.Others)
	}

	f.take("k2", 100)
	op.Key.Key = "k2"
	f.apply(f.now-1_000_000, &op, &result)

	if want := int64(60_000_000); result.Answer.Level.Micros != want {
		t.Errorf("an empty bucket is full in %d µs for an op that is late, want %d", result.Answer.Level.Micros, want)
	}
}

// A holder that reports ever more debt under the slowest of limits must not
// drive the ledger's instant around the end of the integers, where it would be full.
func TestDebtHasAnEnd(t *testing.T) {
	f := newFixture(t, Config{})

	var result [1]store.Result

	slowest := ledger.Terms{Bucket: rate.Bucket{P: rate.MaxProduct, Q: 1, Burst: 1}, Version: 1, TTL: 500_000}

	for i := range int64(10_000) {
		ask := ledger.Ask{Holder: 1, Seq: uint64(i + 1), Debt: i, Keep: true}
		f.Apply(context.Background(), []store.Op{{Key: store.Key{Rule: "r", Key: "k"}, Terms: slowest, Ask: ask}}, result[:])

		if level := result[0].Answer.Level.Micros; i > 0 && level < rate.MaxProduct {
			t.Fatalf("after %d tokens of debt the bucket is full in %d µs", i, level)
		}
	}
}

// A long call reads the clock again now and then, and looks whether it is still wanted.
func TestLongCallReadsTheClockAgain(t *testing.T) {
	reads := 0

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	s, err := New(Config{Clock: func() int64 {
		reads++

		if reads == 2 {
			cancel()
		}

		return noon
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())

	ops := make([]store.Op, 3*refresh)
	for i := range ops {
		ops[i] = store.Op{Key: store.Key{Rule: "r", Key: strconv.Itoa(i)}, Terms: minuteTerms(1), Ask: ledger.Ask{Holder: 1, Seq: 1, Takes: []int64{1}}}
	}

	results := make([]store.Result, len(ops))
	s.Apply(ctx, ops, results)

	for i, r := range results {
		if late := i >= 2*refresh; late != (r.Err != nil) {
			t.Fatalf("op %d of a call that was canceled after %d: %+v", i, 2*refresh, r)
		}
	}
}

// Ops alone must bring memory back: one hot key is all that goes on here.
func TestOpsPushTheSweep(t *testing.T) {
	f := newFixture(t, Config{})

	for i := range 50_000 {
		f.take(strconv.Itoa(i), 1)
	}

	atomic.AddInt64(&f.now, 60_000_000)

	for range 64 * 1000 {
		f.take("hot", 1)
	}

	if s := f.Stats(); s.Keys > 1 {
		t.Errorf("%d keys are kept, want the hot one", s.Keys)
	}
}

func TestFullStoreEvicts(t *testing.T) {
	const maxKeys = 8192

	f := newFixture(t, Config{MaxKeys: maxKeys})

	// A caller that is over its limit and one with a lease, among a flood of
	// keys that took a token each.
	for i := range 500 {
		f.take(fmt.Sprint("over ", i), 100)
		f.ask(fmt.Sprint("lease ", i), ledger.Ask{RaiseTo: 50, Holder: 1})
	}

	for i := range 20 * maxKeys {
		f.take(fmt.Sprint("flood ", i), 1)
	}

	s := f.Stats()
	if s.Keys > maxKeys {
		t.Errorf("%d keys are kept, more than %d", s.Keys, maxKeys)
	}

	if s.Keys < maxKeys*9/10 || s.Evicted < 18*maxKeys {
		t.Errorf("the flood did not fill the store: %+v", s)
	}

	if s.EvictedOverLimit != 0 || s.EvictedHeld != 0 {
		t.Errorf("a flood of nearly full keys evicted others: %+v", s)
	}

	for i := range 500 {
		if f.take(fmt.Sprint("over ", i), 1) {
			t.Fatalf("caller %d, over its limit, was freed by the flood", i)
		}

		if a := f.ask(fmt.Sprint("lease ", i), ledger.Ask{Holder: 2}); a.Others != 50 {
			t.Fatalf("lease %d was lost in the flood: others have %d", i, a.Others)
		}
	}
}

func TestFullStoreDropsIdleFirst(t *testing.T) {
	const maxKeys = sampleKeys // so few that all are looked at, and that the sweep does not come by

	f := newFixture(t, Config{MaxKeys: maxKeys})

	for i := range maxKeys / 2 {
		f.take(fmt.Sprint("idle ", i), 1)
	}

	atomic.AddInt64(&f.now, 600_000)

	for i := range maxKeys {
		f.take(fmt.Sprint("busy ", i), 100)
	}

	if f.shards[0].ops >= sweepEvery {
		t.Fatal("the sweep came by, so this shows nothing")
	}

	if s := f.Stats(); s.Keys != maxKeys || s.Evicted != 0 {
		t.Errorf("%+v, want %d keys and none evicted: half of them were idle", s, maxKeys)
	}
}

// Where every ledger is over its limit, or leased, one has to go: counted, never silently.
func TestEvictionIsCounted(t *testing.T) {
	f := newFixture(t, Config{MaxKeys: 100})

	// One has a lease of a single token: nearest to full, and not to be touched.
	f.ask("held", ledger.Ask{RaiseTo: 1})

	for i := range 109 {
		f.take(fmt.Sprint("over ", i), 100)
	}

	if s := f.Stats(); s.Keys != 100 || s.Evicted != 10 || s.EvictedOverLimit != 10 || s.EvictedHeld != 0 || s.Held != 1 {
		t.Errorf("of 109 empty buckets and a lease: %+v, want 10 evicted over limit", s)
	}

	atomic.AddInt64(&f.now, 60_000_000)

	for i := range 105 {
		f.ask(fmt.Sprint("lease ", i), ledger.Ask{RaiseTo: 10})
	}

	if s := f.Stats(); s.Keys != 100 || s.Held != 100 || s.Leases != 100 || s.EvictedHeld != 5 || s.EvictedOverLimit != 10 {
		t.Errorf("of 105 leased ledgers: %+v, want 5 evicted held", s)
	}
}

// A panic that the coordinator recovers must not leave a lock behind.
func TestPanicReleasesTheLock(t *testing.T) {
	f := newFixture(t, Config{MaxKeys: 1})
	f.take("k", 1)
	f.shards[0].terms = nil // makes the next op on it panic

	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing panicked, so this shows nothing")
			}
		}()

		f.take("k", 1)
	}()

	f.shards[0].terms = f.terms

	if !f.take("k", 1) {
		t.Error("the key has no token after a panic")
	}
}

func TestSteadyClock(t *testing.T) {
	at := int64(1000)
	now := steady(func() int64 { return at }, 0)

	for _, step := range []struct{ read, want int64 }{
		{1000, 1000}, {1500, 1500},
		{100, 1500}, // back: time goes on from where it was
		{150, 1550}, {150, 1550}, {1150, 2550},
		{1149, 2550}, {1151, 2552}, // and once more
	} {
		if at = step.read; now() != step.want {
			t.Errorf("reading %d: not %d", step.read, step.want)
		}
	}

	at = 5
	if later := steady(func() int64 { return at }, 70); later() != 70 {
		t.Error("a clock that begins before its floor does not begin there")
	}
}

func TestDefaultClock(t *testing.T) {
	before := time.Now().UnixMicro()
	now := steady(nil, 0)()

	if after := time.Now().UnixMicro(); now < before || now > after {
		t.Errorf("the clock says %d between %d and %d", now, before, after)
	}

	ahead := time.Now().Add(time.Hour).UnixMicro()
	if first := steady(nil, ahead)(); first < ahead {
		t.Errorf("the clock begins at %d, before its floor %d", first, ahead)
	}
}

func TestBeatIsBounded(t *testing.T) {
	f := newFixture(t, Config{})
	holders := make([]uint64, maxHolders)

	for i := range holders {
		holders[i] = uint64(i)
	}

	ctx := context.Background()
	if live, err := f.Beat(ctx, holders, time.Second); err != nil || live != maxHolders {
		t.Fatalf("%d live, %v", live, err)
	}

	if live, err := f.Beat(ctx, []uint64{1 << 60}, time.Second); err == nil || live != maxHolders {
		t.Errorf("one too many: %d live, %v", live, err)
	}

	atomic.AddInt64(&f.now, time.Second.Microseconds())

	if live, err := f.Beat(ctx, []uint64{1 << 60}, time.Second); err != nil || live != 1 {
		t.Errorf("after all have ended: %d live, %v", live, err)
	}

	if live, err := f.Beat(ctx, []uint64{1 << 60}, 0); err != nil || live != 0 {
		t.Errorf("a holder that left: %d live, %v", live, err)
	}

	if _, err := f.Beat(ctx, nil, -1); err == nil {
		t.Error("a negative ttl is no error")
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := New(Config{MaxKeys: -1}); err == nil {
		t.Error("a negative MaxKeys is no error")
	}
}
