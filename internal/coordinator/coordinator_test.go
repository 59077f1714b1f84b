package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// A holder in the process takes its leases straight from a Coordinator.
var _ table.Source = (*coordinator.Coordinator)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const document = `
rules:
  - {id: ten, keyBy: user, limit: 10, window: 1m, overrides: [{key: acme, limit: 50, burst: 80}]}
  - {id: other, keyBy: user, limit: 10, window: 1m}
  - {id: closed, keyBy: user, block: true}
`

func parse(tb testing.TB, text string) *rule.Set {
	tb.Helper()

	set, err := rule.Parse("test", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}

	return set
}

// start returns a coordinator over a memory store, with the rules of document in force.
func start(tb testing.TB, wrap func(store.Store) store.Store) (*coordinator.Coordinator, *coordinator.Book) {
	tb.Helper()

	kept, err := memory.New(memory.Config{})
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() { _ = kept.Close(context.Background()) })

	book := coordinator.NewBook(nil)
	if _, err := book.Apply(parse(tb, document)); err != nil {
		tb.Fatal(err)
	}

	var over store.Store = kept
	if wrap != nil {
		over = wrap(kept)
	}

	c, err := coordinator.New(coordinator.Config{Store: over, Book: book})
	if err != nil {
		tb.Fatal(err)
	}

	return c, book
}

func take(ruleID, key string, costs ...int64) ledger.KeyAsk {
	return ledger.KeyAsk{Rule: ruleID, Key: key, Ask: ledger.Ask{Takes: costs}}
}

func acquire(tb testing.TB, c *coordinator.Coordinator, batch *ledger.Batch) *ledger.Answers {
	tb.Helper()

	answers, err := c.Acquire(tb.Context(), batch)
	if err != nil {
		tb.Fatal(err)
	}

	return answers
}

func TestEachKeyIsChargedUnderItsOwnRule(t *testing.T) {
	c, book := start(t, nil)
	answers := acquire(t, c, &ledger.Batch{Holder: 7, Seq: 1, Version: book.Current().Version, Asks: []ledger.KeyAsk{
		take("ten", "u1", 4), take("ten", "acme", 4), take("other", "u1", 4), take("ten", "u2", 11), take("ten", "acme", 1),
	}})

	for i, want := range []struct{ burst, avail int64 }{{10, 6}, {80, 76}, {10, 6}, {10, 10}, {80, 75}} {
		got := answers.Keys[i].Answer
		if b := got.Terms.Bucket; answers.Keys[i].Code != ledger.KeyOK || b.Burst != want.burst || b.Avail(0, got.Level) != want.avail {
			t.Errorf("key %d: code %v, burst %d, available %d; want OK, %d, %d",
				i, answers.Keys[i].Code, b.Burst, b.Avail(0, got.Level), want.burst, want.avail)
		}

		if v := book.Current().Rules[0].Version; got.Terms.Version != v || got.Terms.TTL != 500_000 || got.Seq != 1 {
			t.Errorf("key %d: terms %+v of seq %d, want version %d and 500 ms of seq 1", i, got.Terms, got.Seq, v)
		}
	}

	if answers.Store == 0 || answers.Live != 1 || answers.Version != book.Current().Version {
		t.Errorf("answers of store %d, live %d, version %d; want one holder under version %d", answers.Store, answers.Live, answers.Version, book.Current().Version)
	}
}

func TestAsksOutOfBoundsAreInvalidAloneAndTheOthersAnswered(t *testing.T) {
	const beyond = 1<<50 + 1

	with := func(change func(*ledger.KeyAsk)) ledger.KeyAsk {
		ask := take("ten", "u1", 1)
		change(&ask)

		return ask
	}

	for name, c := range map[string]struct {
		ask  ledger.KeyAsk
		want ledger.KeyCode
	}{
		"fine":               {take("ten", "u1", 1), ledger.KeyOK},
		"unknown rule":       {take("eleven", "u1", 1), ledger.KeyUnknownRule},
		"blocked rule":       {take("closed", "u1", 1), ledger.KeyInvalid},
		"empty key":          {take("ten", "", 1), ledger.KeyOK},
		"key at the bound":   {take("ten", strings.Repeat("k", coordinator.MaxKey), 1), ledger.KeyOK},
		"key beyond":         {take("ten", strings.Repeat("k", coordinator.MaxKey+1), 1), ledger.KeyInvalid},
		"huge rule id":       {take(strings.Repeat("r", 65), "u1", 1), ledger.KeyInvalid},
		"many takes":         {take("ten", "u1", make([]int64, ledger.MaxTakes)...), ledger.KeyOK},
		"too many takes":     {take("ten", "u1", make([]int64, ledger.MaxTakes+1)...), ledger.KeyInvalid},
		"too many needs":     {with(func(a *ledger.KeyAsk) { a.Ask.Needs = make([]int64, ledger.MaxTakes+1) }), ledger.KeyInvalid},
		"a negative need":    {with(func(a *ledger.KeyAsk) { a.Ask.Needs = []int64{-1} }), ledger.KeyInvalid},
		"a huge need":        {with(func(a *ledger.KeyAsk) { a.Ask.Needs = []int64{beyond} }), ledger.KeyInvalid},
		"negative cost":      {take("ten", "u1", -1), ledger.KeyInvalid},
		"huge cost":          {take("ten", "u1", beyond), ledger.KeyInvalid},
		"negative spent":     {with(func(a *ledger.KeyAsk) { a.Ask.Spent = -1 }), ledger.KeyInvalid},
		"huge spent":         {with(func(a *ledger.KeyAsk) { a.Ask.Spent = beyond }), ledger.KeyInvalid},
		"negative raiseTo":   {with(func(a *ledger.KeyAsk) { a.Ask.RaiseTo = -1 }), ledger.KeyInvalid},
		"huge raiseTo":       {with(func(a *ledger.KeyAsk) { a.Ask.RaiseTo = beyond }), ledger.KeyInvalid},
		"a refund":           {with(func(a *ledger.KeyAsk) { a.Ask.Debt = -1 }), ledger.KeyOK},
		"huge debt":          {with(func(a *ledger.KeyAsk) { a.Ask.Debt = beyond }), ledger.KeyInvalid},
		"huge refund":        {with(func(a *ledger.KeyAsk) { a.Ask.Debt = -beyond }), ledger.KeyInvalid},
		"huge confirmed":     {with(func(a *ledger.KeyAsk) { a.Ask.DebtAcked = beyond }), ledger.KeyInvalid},
		"impossible lease":   {with(func(a *ledger.KeyAsk) { a.Ask.Lease = 1 << 53 }), ledger.KeyInvalid},
		"an age ago":         {with(func(a *ledger.KeyAsk) { a.Ask.Lag = 1<<63 - 1 }), ledger.KeyOK},
		"in an age":          {with(func(a *ledger.KeyAsk) { a.Ask.Lag = -1 << 63 }), ledger.KeyOK},
		"a brought limit":    {take(rule.RequestLimitID, "5/60000000:x", 1), ledger.KeyOK},
		"no brought limit":   {take(rule.RequestLimitID, "x", 1), ledger.KeyInvalid},
		"another's identity": {with(func(a *ledger.KeyAsk) { a.Ask.Holder, a.Ask.Seq = 99, 99 }), ledger.KeyOK},
	} {
		t.Run(name, func(t *testing.T) {
			coord, _ := start(t, nil)
			answers := acquire(t, coord, &ledger.Batch{Holder: 7, Seq: 1, Asks: []ledger.KeyAsk{c.ask, take("other", "bystander", 1)}})

			if got := answers.Keys[0].Code; got != c.want {
				t.Errorf("code %d, want %d", got, c.want)
			}

			if answers.Keys[1].Code != ledger.KeyOK || answers.Keys[1].Answer.Taken != 1 {
				t.Errorf("the bystander got %+v", answers.Keys[1])
			}

			if answers.Keys[0].Code == ledger.KeyOK && answers.Keys[0].Answer.Seq != 1 {
				t.Errorf("answer to seq %d: the batch's own counts", answers.Keys[0].Answer.Seq)
			}
		})
	}
}

func TestBatchesThatCannotBeReadNameTheField(t *testing.T) {
	c, _ := start(t, nil)

	for field, batch := range map[string]*ledger.Batch{
		"nil":    nil,
		"holder": {Seq: 1},
		"seq":    {Holder: 1},
		"asks":   {Holder: 1, Seq: 1, Asks: make([]ledger.KeyAsk, coordinator.MaxAsks+1)},
	} {
		if _, err := c.Acquire(t.Context(), batch); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error %v does not name it", field, err)
		}
	}

	if _, err := c.Acquire(t.Context(), &ledger.Batch{Holder: 1, Seq: 1 << 53}); err == nil {
		t.Error("a seq of 2^53 was taken")
	}
}

func TestAcquireLeavesTheBatchAlone(t *testing.T) {
	c, _ := start(t, nil)
	ask := take("ten", "u1", 1, 2)
	ask.Ask.Lag, ask.Ask.Holder = 1<<60, 3
	batch := &ledger.Batch{Holder: 7, Seq: 1, Asks: []ledger.KeyAsk{ask}}
	acquire(t, c, batch)

	if got := batch.Asks[0].Ask; got.Lag != 1<<60 || got.Holder != 3 || !slices.Equal(got.Takes, []int64{1, 2}) {
		t.Errorf("the ask became %+v: its sender needs it for another try", got)
	}
}

// recorder keeps the ops that reach the store.
type recorder struct {
	store.Store

	ops *[]store.Op
}

func (r recorder) Apply(ctx context.Context, ops []store.Op, results []store.Result) {
	*r.ops = append(*r.ops, ops...)
	r.Store.Apply(ctx, ops, results)
}

func TestALagIsTakenForAnHourAtMost(t *testing.T) {
	var ops []store.Op

	c, _ := start(t, func(s store.Store) store.Store { return recorder{s, &ops} })
	batch := &ledger.Batch{Holder: 7, Seq: 1}
	lags := []int64{0, 5, -5, 3_600_000_000, 3_600_000_001, 1<<63 - 1, -1 << 63}

	for _, lag := range lags {
		batch.Asks = append(batch.Asks, ledger.KeyAsk{Rule: "ten", Key: strconv.FormatInt(lag, 10), Ask: ledger.Ask{Lag: lag}})
	}

	acquire(t, c, batch)

	for i, want := range []int64{0, 5, -5, 3_600_000_000, 3_600_000_000, 3_600_000_000, -3_600_000_000} {
		if got := ops[i].Ask.Lag; got != want {
			t.Errorf("lag %d reached the store as %d, want %d", lags[i], got, want)
		}
	}
}

// A holder that heard newer rules from this coordinator before a restart is told
// so, and finds the same rules under a newer version with its next batch.
func TestAHolderWithNewerRulesIsBehindOnlyOnce(t *testing.T) {
	c, book := start(t, nil)
	batch := &ledger.Batch{Holder: 7, Seq: 1, Version: book.Current().Version + 1000, Asks: []ledger.KeyAsk{take("ten", "u1", 1)}}

	if answers := acquire(t, c, batch); answers.Keys[0].Code != ledger.KeyBehind || answers.Version >= batch.Version {
		t.Fatalf("code %d at version %d, want behind", answers.Keys[0].Code, answers.Version)
	}

	batch.Seq++

	answers := acquire(t, c, batch)
	if answers.Keys[0].Code != ledger.KeyOK || answers.Version <= batch.Version || answers.Keys[0].Answer.Terms.Version != answers.Version {
		t.Errorf("answers %+v: want the rules renumbered above %d", answers, batch.Version)
	}
}

// A change of the limit keeps what was used: ten raised to twenty is ten more.
func TestARaisedLimitGivesTheDifference(t *testing.T) {
	c, book := start(t, nil)
	batch := &ledger.Batch{Holder: 7, Seq: 1, Asks: []ledger.KeyAsk{take("ten", "u1", 10)}}
	acquire(t, c, batch)

	if _, err := book.Apply(parse(t, strings.Replace(document, "limit: 10", "limit: 20", 1))); err != nil {
		t.Fatal(err)
	}

	batch.Seq, batch.Asks[0].Ask.Takes = 2, []int64{10, 1}
	if got := acquire(t, c, batch).Keys[0].Answer.Taken; got != 0b01 {
		t.Errorf("takes of 10 and 1 after the change: %b given, want the first only", got)
	}
}

// faulty is a store of which single keys fail, or everything panics.
type faulty struct {
	store.Store

	key   string
	panic bool
}

func (f faulty) Apply(ctx context.Context, ops []store.Op, results []store.Result) {
	if f.panic {
		panic("a bug")
	}

	f.Store.Apply(ctx, ops, results)

	for i := range ops {
		if ops[i].Key.Key == f.key {
			results[i] = store.Result{Err: errors.New("node is down")}
		}
	}
}

func TestAKeyThatTheStoreFailsDoesNotFailTheOthers(t *testing.T) {
	c, _ := start(t, func(s store.Store) store.Store { return faulty{Store: s, key: "u2"} })
	answers := acquire(t, c, &ledger.Batch{Holder: 7, Seq: 1, Asks: []ledger.KeyAsk{take("ten", "u1", 1), take("ten", "u2", 1), take("ten", "u3", 1)}})

	for i, want := range []ledger.KeyCode{ledger.KeyOK, ledger.KeyUnavailable, ledger.KeyOK} {
		if answers.Keys[i].Code != want {
			t.Errorf("key %d: code %d, want %d", i, answers.Keys[i].Code, want)
		}
	}

	if s := c.Stats(); s.Acquires != 1 || s.Asks != 3 || s.OK != 2 || s.Unavailable != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestAPanicIsAnErrorOfOneCall(t *testing.T) {
	c, _ := start(t, func(s store.Store) store.Store { return faulty{Store: s, panic: true} })

	for n := int64(1); n <= 3; n++ {
		if _, err := c.Acquire(t.Context(), &ledger.Batch{Holder: 7, Seq: 1, Asks: []ledger.KeyAsk{take("ten", "u1", 1)}}); err == nil {
			t.Fatal("no error")
		}

		if got := c.Stats().Panics; got != n {
			t.Errorf("%d panics counted, want %d", got, n)
		}
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	if _, err := coordinator.New(coordinator.Config{Book: coordinator.NewBook(nil)}); err == nil || !strings.Contains(err.Error(), "Store") {
		t.Errorf("without a store: %v", err)
	}

	kept, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}

	defer kept.Close(context.Background())

	if _, err := coordinator.New(coordinator.Config{Store: kept}); err == nil || !strings.Contains(err.Error(), "Book") {
		t.Errorf("without a book: %v", err)
	}
}

// beats counts the holders of each Beat.
type beats struct {
	store.Store

	mu    sync.Mutex
	told  [][]uint64
	fails error
}

func (b *beats) Beat(_ context.Context, holders []uint64, _ time.Duration) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	slices.Sort(holders)
	b.told = append(b.told, holders)

	return int64(len(holders)), b.fails
}

func (b *beats) fail(with error) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.fails = with
}

func (b *beats) log() string {
	b.mu.Lock()
	defer b.mu.Unlock()

	return fmt.Sprint(b.told)
}

// Holders are told to the store at first sight, then with every beat, and no
// longer than ten seconds after they asked last.
func TestWhoAsksLivesForTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &beats{}
		book := coordinator.NewBook(nil)

		c, err := coordinator.New(coordinator.Config{Store: idStore{b}, Book: book})
		if err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)

		go func() { done <- c.Run(ctx) }()

		acquire(t, c, &ledger.Batch{Holder: 1, Seq: 1})
		acquire(t, c, &ledger.Batch{Holder: 1, Seq: 2})
		time.Sleep(5 * time.Second)
		acquire(t, c, &ledger.Batch{Holder: 2, Seq: 1})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		cancel()

		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}

		if got, want := b.log(), "[[1] [1] [1] [2] [1 2] [1 2] [2] [2] [2]]"; got != want {
			t.Errorf("beats %s, want %s", got, want)
		}
	})
}

// Also while nobody asks it is known, within a beat, that the store is gone, and that it is back.
func TestABeatTellsWhetherTheStoreIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &beats{}

		c, err := coordinator.New(coordinator.Config{Store: idStore{b}, Book: coordinator.NewBook(nil)})
		if err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)

		go func() { done <- c.Run(ctx) }()

		for _, fails := range []error{nil, errors.New("gone"), nil} {
			b.fail(fails)
			time.Sleep(2 * time.Second)
			synctest.Wait()

			if got := c.Stats().Unbeaten; got != (fails != nil) {
				t.Errorf("a beat that ends with %v: unbeaten %v", fails, got)
			}
		}

		cancel()

		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

// idStore gives beats an ID.
type idStore struct{ *beats }

func (idStore) ID() uint64 { return 5 }

func BenchmarkAcquire(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			c, _ := start(b, nil)
			batch := &ledger.Batch{Holder: 7}

			for i := range n {
				ask := take("ten", fmt.Sprint("user-", i))
				ask.Ask.RaiseTo = 4
				batch.Asks = append(batch.Asks, ask)
			}

			b.ReportAllocs()

			for b.Loop() {
				batch.Seq++
				if _, err := c.Acquire(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
