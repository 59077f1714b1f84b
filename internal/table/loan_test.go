package table_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// bank is tables in one process with a coordinator and its store, which lends them whole buckets.
type bank struct {
	tb    testing.TB
	store *memory.Store
	book  *coordinator.Book
	coord *coordinator.Coordinator
	seq   atomic.Uint64
	rules sync.Mutex // one change of them at a time
}

// newBank returns a bank whose store goes by clock; nil is the real one.
func newBank(tb testing.TB, clock func() int64, cfg memory.Config) *bank {
	tb.Helper()

	cfg.Clock = clock
	b := &bank{tb: tb, book: coordinator.NewBook(nil)}

	var err error
	if b.store, err = memory.New(cfg); err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() { _ = b.store.Close(context.Background()) })

	if b.coord, err = coordinator.New(coordinator.Config{Store: b.store, Book: b.book}); err != nil {
		tb.Fatal(err)
	}

	return b
}

// apply puts a document in force, at the coordinator and in tables.
func (b *bank) apply(doc string, tables ...*table.Table) {
	b.tb.Helper()

	set, err := rule.Parse("rules.yaml", []byte(doc))
	if err != nil {
		b.tb.Error(err)

		return
	}

	b.rules.Lock()
	defer b.rules.Unlock()

	if _, err := b.book.Apply(set); err != nil {
		b.tb.Error(err)
	}

	for _, t := range tables {
		if err := t.SetRules(b.book.Current()); err != nil {
			b.tb.Error(err)
		}
	}
}

// remote takes a token as a holder elsewhere does, and reports whether it was given.
func (b *bank) remote(key string) bool { return b.takeAs(99, key) }

// takeAs has a holder take a token of the coordinator, and reports whether it was given.
func (b *bank) takeAs(holder uint64, key string) bool {
	answers, err := b.coord.Acquire(context.Background(), &ledger.Batch{
		Holder: holder, Seq: b.seq.Add(1), Version: b.book.Current().Version,
		Asks: []ledger.KeyAsk{{Rule: "r", Key: key, Ask: ledger.Ask{Takes: []int64{1}}}},
	})
	if err != nil {
		b.tb.Error(err)

		return false
	}

	return answers.Keys[0].Answer.Taken == 1
}

// Whoever wants a bucket has it, one at a time: tokens of it are neither lost nor given twice, while tables of one process and
// a holder elsewhere take, give back, look, change the rule, forget keys and count, all at once.
func TestABucketIsInOnePlaceAtATime(t *testing.T) {
	t.Parallel()

	const (
		burst = 40_000
		keys  = 4
		rules = "rules: [{id: r, keyBy: user, limit: 40000, window: %s}, " +
			"{id: other, keyBy: user, limit: 40000, window: 8784h}]"
	)

	b := newBank(t, nil, memory.Config{MaxKeys: 64})
	b.book.Lengthen(time.Hour)                                    // nothing renews what is leased while rules change, and what expires is lost, on purpose
	patience := table.Config{Inline: true, Deadline: time.Minute} // no request decides by itself, however slow this machine is
	tables := []*table.Table{table.New(b.coord, patience), table.New(b.coord, patience)}
	slow, again := fmt.Sprintf(rules, "8784h"), fmt.Sprintf(rules, "8783h")
	b.apply(slow, tables...)

	var (
		wg  sync.WaitGroup
		net [keys]atomic.Int64
	)

	name := func(k int) string { return string(rune('a' + k)) }

	for w := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			tb := tables[w%2]
			r, other := tb.Rule("r"), tb.Rule("other")

			for range 3_000 {
				k := random.IntN(keys)

				var out table.Outcome

				switch n := 1 + random.Int64N(40); random.IntN(40) {
				case 0:
					if b.remote(name(k)) {
						net[k].Add(1)
					}
				case 1:
					tb.Stats()
				case 2:
					r.Peek(t.Context(), name(k), &out)
				case 3:
					b.apply([]string{slow, again}[random.IntN(2)], tables...)
				case 4: // keys that are in the way of the others, and can be forgotten
					other.Take(t.Context(), "x"+name(random.IntN(60)), 1, &out)
					tb.Refund(out.Charge)
				case 5, 6, 7:
					r.Take(t.Context(), name(k), n, &out)

					if out.Kind == table.Allowed {
						tb.Refund(out.Charge)
					}
				case 8, 9, 10:
					hits := []table.Hit{{Rule: r, Key: name(k), Cost: n}, {Rule: other, Key: "all", Cost: n}}
					if tb.TakeAll(t.Context(), hits) < 0 {
						net[k].Add(n)
					}
				case 11:
					r.ReturnLoans()
				case 12:
					r.StripeLent(name(k))
				default:
					r.Take(t.Context(), name(k), n, &out)

					if out.Kind == table.Allowed {
						net[k].Add(n)
					}
				}
			}
		})
	}

	wg.Wait()

	for _, tb := range tables {
		if err := tb.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}

	for k := range keys {
		left := int64(0)
		for b.remote(name(k)) {
			left++
		}

		if got := net[k].Load() + left; got != burst {
			t.Errorf("key %s: %d taken and %d left, %d in all, want %d", name(k), net[k].Load(), left, got, burst)
		}
	}
}

// A rule's bucket in the process gives the answers of one counter: what is left, when it is full again, when to come back.
func TestALentKeyIsAnsweredAsByOneCounter(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(rt *rapid.T) {
		now := rigStart
		b := newBank(t, func() int64 { return now }, memory.Config{})
		clock := table.NewVirtualClock(now)
		tb := table.New(b.coord, table.Config{Inline: true, Clock: clock})

		bucket, _ := rate.NewBucket(7, 1_000_000, 5)
		b.apply("rules: [{id: r, keyBy: user, limit: 7, window: 1s, burst: 5}]", tb)

		tat := rate.At(now)
		r := tb.Rule("r")

		var charges []table.Charge

		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			var out table.Outcome

			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				now += rapid.SampledFrom([]int64{1, 142_857, 142_858, 700_000, 5_000_000}).Draw(rt, "wait")
				clock.Set(now)
				tb.Advance(now)
			case 1: // the bucket comes back, and is lent again, as there is no other holder
				if b.takeAs(tb.Holder(), "k") {
					tat, _ = bucket.Take(now, tat, 1)
				} else if bucket.Avail(now, tat) > 0 {
					rt.Fatalf("the coordinator gave nothing of %d", bucket.Avail(now, tat))
				}
			case 2:
				r.Peek(context.Background(), "k", &out)

				if want := bucket.Avail(now, tat); out.Remaining != want || (out.Kind == table.Allowed) != (want > 0) {
					rt.Fatalf("a look: %+v, want %d left", out, want)
				}
			case 3:
				if len(charges) > 0 {
					tb.Refund(charges[0])

					tat = bucket.Add(tat, -1).Max(rate.At(min(now, tat.Micros)))
					charges = charges[1:]
				}
			default:
				n := rapid.SampledFrom([]int64{1, 1, 1, 2, 6}).Draw(rt, "cost")
				r.Take(context.Background(), "k", n, &out)

				next, ok := bucket.Take(now, tat, n)
				tat = next

				if ok && n == 1 {
					charges = append(charges, out.Charge)
				}

				wait := int64(0)
				if !ok && n <= bucket.Burst {
					wait = bucket.Wait(now, tat, n)
				}

				if (out.Kind == table.Allowed) != ok || out.RetryAfter != wait ||
					out.Remaining != bucket.Avail(now, tat) || out.Reset != bucket.Full(now, tat) {
					rt.Fatalf("at %d, %d tokens: %+v, want %v, %d left, full in %d, again in %d",
						now, n, out, ok, bucket.Avail(now, tat), bucket.Full(now, tat), wait)
				}
			}
		}
	})
}

// Keys whose buckets are here leave when they are idle, and take their counts along.
func TestALoanEnds(t *testing.T) {
	t.Parallel()

	now := rigStart
	b := newBank(t, func() int64 { return now }, memory.Config{})
	clock := table.NewVirtualClock(now)
	tb := table.New(b.coord, table.Config{Inline: true, Clock: clock})
	b.apply("rules: [{id: r, keyBy: user, limit: 2, window: 1h}]", tb)

	var out table.Outcome

	for range 3 {
		tb.Rule("r").Take(t.Context(), "k", 1, &out)
	}

	if s := tb.Stats(); s.Keys != 1 || s.Leases != 1 || s.Calls != 1 || s.Rules[0].Allowed[table.FromStore] != 1 ||
		s.Rules[0].Allowed[table.FromLease] != 1 || s.Rules[0].Denied[table.FromLease] != 1 {
		t.Errorf("in use: %+v", s)
	}

	for range 4 {
		at, ok := tb.Next()
		if !ok {
			break
		}

		now = max(now, at)
		clock.Set(now)
		tb.Advance(now)
	}

	if s := tb.Stats(); s.Keys != 0 || s.Leases != 0 || s.Rules[0].Allowed[table.FromLease] != 1 {
		t.Errorf("idle: %+v", s)
	}

	if passed := now - rigStart; passed > 4*sec {
		t.Errorf("it took %d µs to leave", passed)
	}

	tb.Rule("r").Take(t.Context(), "k", 1, &out)

	if out.Kind != table.OverLimit {
		t.Errorf("when it comes back: %+v", out)
	}

	b.apply("rules: []", tb) // the rule is retired

	if s := tb.Stats(); s.Keys != 0 {
		t.Errorf("retired: %+v", s)
	}
}

// A rule that changes keeps its level in tokens, for keys that are lent as for all others.
func TestALentKeyFollowsItsRule(t *testing.T) {
	t.Parallel()

	now := rigStart
	b := newBank(t, func() int64 { return now }, memory.Config{})
	tb := table.New(b.coord, table.Config{Inline: true, Clock: table.NewVirtualClock(now)})
	b.apply("rules: [{id: r, keyBy: user, limit: 10, window: 1h}]", tb)

	var out table.Outcome

	take := func(want int64) {
		t.Helper()

		tb.Rule("r").Take(t.Context(), "k", 1, &out)

		if out.Kind != table.Allowed || out.Remaining != want {
			t.Errorf("%+v, want %d left", out, want)
		}
	}

	take(9)
	take(8)
	b.apply("rules: [{id: r, keyBy: user, limit: 20, window: 1h}]", tb)
	take(17)
	b.apply("rules: [{id: r, keyBy: user, limit: 20, window: 1h, overrides: [{key: k, limit: 30, window: 1h}]}]", tb)
	take(26)
	b.apply("rules: [{id: r, keyBy: user, algorithm: fixed_window, limit: 20, window: 1h}]", tb)
	take(15)
}

// The real clock runs while a key is lent: what is told of it is right, and a burst gets all that the bucket holds.
func TestALentKeyGivesItsBurst(t *testing.T) {
	t.Parallel()

	b := newBank(t, nil, memory.Config{})
	tb := table.New(b.coord, table.Config{Inline: true})
	b.apply("rules: [{id: r, keyBy: user, limit: 100, window: 10h}]", tb)

	began := time.Now()

	for i := range int64(101) {
		var out table.Outcome

		tb.Rule("r").Take(t.Context(), "k", 1, &out)

		if want := max(0, 99-i); (out.Kind == table.Allowed) != (i < 100) || out.Remaining != want {
			t.Fatalf("request %d, %v after the first: %+v, want %d left", i, time.Since(began), out, want)
		}
	}
}

// A key that several processors are busy with is lent anew, with what is left of it, and is one key all the while.
func TestABusyLoanIsStriped(t *testing.T) {
	t.Parallel()

	now := rigStart
	b := newBank(t, func() int64 { return now }, memory.Config{})
	clock := table.NewVirtualClock(now)
	tb := table.New(b.coord, table.Config{Inline: true, Clock: clock})
	b.apply("rules: [{id: r, keyBy: user, limit: 10000, window: 1h}]", tb)

	r := tb.Rule("r")
	take := func(n, want int64) (c table.Charge) {
		t.Helper()

		var out table.Outcome

		r.Take(t.Context(), "k", n, &out)

		if out.Kind != table.Allowed || out.Remaining != want {
			t.Errorf("%+v, want %d left", out, want)
		}

		return out.Charge
	}

	take(1, 9_999)
	c := take(1, 9_998)
	r.StripeLent("k")
	take(1, 9_997)
	tb.Refund(c) // of the loan that is over
	take(600, 9_398)

	now += 1_000
	clock.Set(now)

	for i := range int64(40) { // of its stripe, and once that is used up of the next
		take(1, 9_397-i)
	}

	if s := tb.Stats(); !r.Striped("k") || s.Keys != 1 || s.Leases != 1 || s.Rules[0].Allowed[table.FromLease] != 43 {
		t.Errorf("in use: %+v", s)
	}

	b.apply("rules: [{id: r, keyBy: user, limit: 20000, window: 1h}]", tb)
	take(1, 19_357)

	if r.Striped("k") {
		t.Error("what is lent under other limits is striped, though nobody wanted it yet")
	}

	r.StripeLent("k")
	b.apply("rules: []", tb)

	if s := tb.Stats(); s.Keys != 0 {
		t.Errorf("retired: %+v", s)
	}
}

// A bucket that a holder elsewhere wants, too, is lent to nobody while it is in use here: it would always be here when its next
// token is, and the other would get what is left over.
func TestABucketThatOthersWantIsNotLentAgain(t *testing.T) {
	t.Parallel()

	now := rigStart
	b := newBank(t, func() int64 { return now }, memory.Config{})
	clock := table.NewVirtualClock(now)
	tb := table.New(b.coord, table.Config{Inline: true, Clock: clock})
	b.apply("rules: [{id: r, keyBy: user, limit: 10, window: 1s}]", tb)
	b.remote("another key") // so it lives

	r := tb.Rule("r")
	here, there := 0, 0

	var out table.Outcome

	for range 2_000 { // 10 s
		now += 5_000
		clock.Set(now)
		tb.Advance(now)
		r.Take(t.Context(), "k", 1, &out)

		if out.Kind == table.Allowed {
			here++
		}

		// Elsewhere one comes as soon as here, and a little later.
		if now += 20; now%100_000 < 10_000 && b.remote("k") {
			there++
		}
	}

	if r.Lent("k") {
		t.Error("it is lent while both want it")
	}

	if both := here + there; both < 95 || both > 110 || there < both/8 || here < both/8 {
		t.Errorf("%d here and %d there, of 110, and neither may starve", here, there)
	}
}

// A crowd takes all that a striped key has, to the last token, and nothing else: whatever a request costs, alone or under
// another rule, looks and what is given back between.
func TestACrowdTakesAStripedKeyToTheLastToken(t *testing.T) {
	t.Parallel()

	const burst = 200_000

	b := newBank(t, nil, memory.Config{})
	tb := table.New(b.coord, table.Config{Inline: true, Deadline: time.Minute})
	b.apply("rules: [{id: r, keyBy: user, limit: 200000, window: 8784h}, "+
		"{id: all, keyBy: user, limit: 1000000, window: 8784h}]", tb)

	ctx, cancel := context.WithCancel(t.Context())

	var (
		running, crowd sync.WaitGroup
		taken, counted atomic.Int64
	)

	r, all := tb.Rule("r"), tb.Rule("all")

	running.Go(func() { tb.Run(ctx) })

	for w := range 4 {
		crowd.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 2))

			for left := true; left; {
				var out table.Outcome

				n := 1 + random.Int64N(20)

				switch random.IntN(100) {
				case 0:
					r.StripeLent("k")
				case 1:
					r.Peek(ctx, "k", &out)

					left = out.Remaining > 0
				case 2:
					tb.Stats()
				case 3, 4, 5:
					r.Take(ctx, "k", n, &out)

					if out.Kind == table.Allowed {
						tb.Refund(out.Charge)
						counted.Add(1)
					}
				case 6, 7, 8:
					if tb.TakeAll(ctx, []table.Hit{{Rule: r, Key: "k", Cost: n}, {Rule: all, Key: "k", Cost: n}}) < 0 {
						taken.Add(n)
						counted.Add(1)
					}
				default:
					r.Take(ctx, "k", n, &out)

					if out.Kind == table.Allowed {
						taken.Add(n)
						counted.Add(1)
					}
				}
			}
		})
	}

	crowd.Wait()

	if taken.Load() != burst {
		t.Errorf("%d taken of %d", taken.Load(), burst)
	}

	if got := tb.Stats().Rules[0].Allowed; got[table.FromLease]+got[table.FromStore] != counted.Load() {
		t.Errorf("counted %+v, of %d", got, counted.Load())
	}

	cancel()
	running.Wait()
}

// So many keys are striped at most. Those that nobody is busy with any more are not, and leave room for others.
func TestFewKeysAreStripedAtOnce(t *testing.T) {
	t.Parallel()

	now := rigStart
	b := newBank(t, func() int64 { return now }, memory.Config{})
	clock := table.NewVirtualClock(now)
	tb := table.New(b.coord, table.Config{Inline: true, Clock: clock})
	b.apply("rules: [{id: r, keyBy: user, limit: 10000, window: 1h}]", tb)

	r := tb.Rule("r")
	take := func(key string, n int64) {
		t.Helper()

		var out table.Outcome
		r.Take(t.Context(), key, n, &out)

		if out.Kind != table.Allowed {
			t.Errorf("%s: %+v", key, out)
		}
	}
	striped := func() (n int) {
		for i := range 100 {
			if r.Striped(strconv.Itoa(i)) {
				n++
			}
		}

		return n
	}

	for i := range 100 {
		take(strconv.Itoa(i), 1)
		r.StripeLent(strconv.Itoa(i))
	}

	if n := striped(); n != table.MostStriped {
		t.Errorf("%d keys are striped", n)
	}

	for _, n := range []int64{600, 1} { // with one key they stay busy
		now += 1_000
		clock.Set(now)
		take("0", n)
	}

	now += 1_100_000
	clock.Set(now)
	tb.Advance(now)

	if n := striped(); n != 1 || !r.Striped("0") {
		t.Errorf("%d keys are striped after a while", n)
	}

	take("99", 1)
	r.StripeLent("99")

	if !r.Striped("99") {
		t.Error("there is no room for another")
	}
}

// Where several goroutines are busy with one key on several processors, it is striped by itself, and each token is taken once.
func TestACrowdHasAKeyStriped(t *testing.T) {
	t.Parallel()

	if min(runtime.GOMAXPROCS(0), runtime.NumCPU()) < 2 {
		t.Skip("one processor has nobody to compete with")
	}

	const burst = 1_000_000_000

	b := newBank(t, nil, memory.Config{})
	tb := table.New(b.coord, table.Config{Inline: true})
	b.apply("rules: [{id: r, keyBy: user, limit: 1, window: 1s, burst: 1000000000}]", tb)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var (
		running, crowd sync.WaitGroup
		taken, striped atomic.Int64
	)

	began := time.Now()
	r := tb.Rule("r")

	running.Go(func() { tb.Run(ctx) })

	for range 4 {
		crowd.Go(func() {
			mine := int64(0)

			for ctx.Err() == nil && striped.Load() < 1_000 {
				for range 100 {
					var out table.Outcome

					r.Take(ctx, "k", 1, &out)

					if out.Kind == table.Allowed {
						mine++
					}
				}

				if r.Striped("k") {
					striped.Add(1)
				}
			}

			taken.Add(mine)
		})
	}

	crowd.Wait()

	var out table.Outcome

	r.Peek(ctx, "k", &out)

	back := taken.Load() - (burst - out.Remaining)
	if most := time.Since(began) / time.Second; striped.Load() == 0 || back < 0 || back > 1+int64(most) {
		t.Errorf("striped %d times; %d taken, %d left", striped.Load(), taken.Load(), out.Remaining)
	}

	cancel()
	running.Wait()
}

// broken lends, and then fails to say so.
type broken struct{ *coordinator.Coordinator }

func (b broken) Lend(ask *ledger.LoanAsk, to ledger.Borrower) (ledger.Fleet, bool) {
	b.Coordinator.Lend(ask, to)

	return ledger.Fleet{}, false
}

// A bucket that was lent, and by a bug said not to be, is leased: it comes back whole, and blocks nobody.
func TestALoanThatWasDeniedComesBack(t *testing.T) {
	t.Parallel()

	now := rigStart
	b := newBank(t, func() int64 { return now }, memory.Config{})
	tb := table.New(broken{b.coord}, table.Config{Inline: true, Clock: table.NewVirtualClock(now)})
	b.apply("rules: [{id: r, keyBy: user, limit: 10, window: 1h}]", tb)

	var out table.Outcome

	tb.Rule("r").Take(t.Context(), "k", 1, &out)

	left := 0
	for b.remote("k") {
		left++
	}

	if out.Kind != table.Allowed || left != 9 {
		t.Errorf("%d left after %+v, want 9", left, out)
	}
}

// Whoever wants all of a store, as a copy does, has what was spent of all that is lent, of requests of class test apart.
func TestAStoreTakesBackAllThatIsLent(t *testing.T) {
	t.Parallel()

	now := rigStart
	clock := func() int64 { return now }
	b := newBank(t, clock, memory.Config{})
	tb := table.New(b.coord, table.Config{Inline: true, Clock: table.NewVirtualClock(now)})
	b.apply("rules: [{id: r, keyBy: user, limit: 10, window: 1h}]", tb)

	take := func(r *table.Rule, n int64) {
		var out table.Outcome

		r.Take(t.Context(), "k", n, &out)

		if out.Kind != table.Allowed || !r.Lent("k") {
			t.Errorf("not lent: %+v", out)
		}
	}

	take(tb.Rule("r"), 3)
	take(tb.Rule("r").Test(), 5)

	stored, err := b.store.Copy(t.Context(), memory.Config{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}

	take(tb.Rule("r"), 1) // which the copy does not know

	if b.coord, err = coordinator.New(coordinator.Config{Store: stored, Book: b.book}); err != nil {
		t.Fatal(err)
	}

	for key, want := range map[string]int{"k": 7, rule.TestKey("k"): 5} {
		left := 0
		for b.remote(key) {
			left++
		}

		if left != want {
			t.Errorf("%q: %d left, want %d", key, left, want)
		}
	}
}

// A bucket of very short tokens is lent only as long as its instants can be told, however long it is in use without a break.
func TestALoanEndsBeforeItsInstantsDo(t *testing.T) {
	t.Parallel()

	now := int64(1_000) // of a process that has just begun
	b := newBank(t, func() int64 { return rigStart + now }, memory.Config{})
	clock := table.NewVirtualClock(now)
	tb := table.New(b.coord, table.Config{Inline: true, Clock: clock})
	b.apply("rules: [{id: r, keyBy: user, limit: 999999999989, window: 1s, burst: 100}]", tb)

	for range 400 { // 40 s: four times what a cell can tell
		var out table.Outcome

		tb.Rule("r").Take(t.Context(), "k", 100, &out)

		if out.Kind != table.Allowed {
			t.Fatalf("after %d µs: %+v", now, out)
		}

		tb.Rule("r").Take(t.Context(), "k", 100, &out)

		if out.Kind != table.OverLimit {
			t.Fatalf("after %d µs, twice its burst: %+v", now, out)
		}

		now += sec / 10
		clock.Set(now)
		tb.Advance(now)
	}
}
