package coordinator_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store/memory"
)

// metered is a coordinator with a Meter, at a time that stands still unless it is moved.
type metered struct {
	*coordinator.Coordinator

	meter *coordinator.Meter
	begin func() // another coordinator of the same store
	now   time.Time
	seq   uint64
}

func newMetered(t *testing.T, rules string) *metered {
	t.Helper()

	m := &metered{now: time.Unix(1_800_000_000, 0)}

	kept, err := memory.New(memory.Config{Clock: func() int64 { return m.now.UnixMicro() }})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = kept.Close(t.Context()) })

	book := coordinator.NewBook(nil)
	if _, err := book.Apply(parse(t, rules)); err != nil {
		t.Fatal(err)
	}

	m.begin = func() {
		m.meter = coordinator.NewMeter()
		clock := func() time.Time { return m.now }

		if m.Coordinator, err = coordinator.New(coordinator.Config{Store: kept, Book: book, Meter: m.meter, Clock: clock}); err != nil {
			t.Fatal(err)
		}
	}
	m.begin()

	return m
}

func (m *metered) ask(t *testing.T, key string, ask ledger.Ask) ledger.Answer {
	t.Helper()

	m.seq++

	answers := acquire(t, m.Coordinator, &ledger.Batch{Holder: 7, Seq: m.seq, Asks: []ledger.KeyAsk{{Rule: "r", Key: key, Ask: ask}}})
	if answers.Keys[0].Code != ledger.KeyOK {
		t.Fatalf("%s: %v", key, answers.Keys[0].Code)
	}

	return answers.Keys[0].Answer
}

func (m *metered) peak(t *testing.T, tokens int64, per time.Duration) {
	t.Helper()

	if got, want := coordinator.Most(m.meter.Peaks(m.now.UnixMicro(), "r"))["r"], (coordinator.Use{Tokens: tokens, Per: per}); got != want {
		t.Errorf("the peak is %+v, want %+v", got, want)
	}
}

func TestAMeterCountsWhatIsSpentAndTaken(t *testing.T) {
	t.Parallel()

	m := newMetered(t, `rules: [{id: r, keyBy: user, limit: 100, window: 1m}]`)
	m.peak(t, 0, 0)

	m.ask(t, "ada", ledger.Ask{Takes: []int64{3, 4}})
	m.ask(t, "bea", ledger.Ask{Takes: []int64{5}})
	m.peak(t, 7, time.Minute)

	// What is leased is not used until it is spent, and is counted once.
	a := m.ask(t, "ada", ledger.Ask{RaiseTo: 40})
	m.peak(t, 7, time.Minute)
	m.ask(t, "ada", ledger.Ask{Lease: a.Lease, Spent: 10, RaiseTo: 40})
	m.ask(t, "ada", ledger.Ask{Lease: a.Lease, Spent: 10, RaiseTo: 40})
	m.peak(t, 17, time.Minute)

	// A lease that is given back counts to its end; what is refused counts nothing.
	m.ask(t, "ada", ledger.Ask{Lease: a.Lease, Spent: 12, RaiseTo: 12})
	m.ask(t, "ada", ledger.Ask{Takes: []int64{100}})
	m.peak(t, 19, time.Minute)

	// The period before is told as well, and none that is older.
	m.now = m.now.Add(time.Minute)
	m.ask(t, "ada", ledger.Ask{Takes: []int64{2}})
	m.peak(t, 19, time.Minute)

	m.now = m.now.Add(time.Minute)
	m.peak(t, 2, time.Minute)

	m.now = m.now.Add(time.Hour)
	m.peak(t, 0, 0)
}

// A coordinator that hears of a lease for the first time cannot tell when it was spent, and so says less rather than more.
func TestAMeterThatJoinsLateSaysLess(t *testing.T) {
	t.Parallel()

	m := newMetered(t, `rules: [{id: r, keyBy: user, limit: 100, window: 1s, burst: 1000}]`)
	a := m.ask(t, "ada", ledger.Ask{RaiseTo: 80})
	m.begin()

	m.ask(t, "ada", ledger.Ask{Lease: a.Lease, Spent: 50, RaiseTo: 80})
	m.peak(t, 0, 0)
	m.ask(t, "ada", ledger.Ask{Lease: a.Lease, Spent: 53, RaiseTo: 80})
	m.peak(t, 3, 10*time.Second)
}

// However many keys there are, those that use most are remembered.
func TestAMeterKeepsWhoUsesMost(t *testing.T) {
	t.Parallel()

	m := newMetered(t, `rules: [{id: r, keyBy: user, limit: 1000, window: 1m}]`)
	m.ask(t, "greedy", ledger.Ask{Takes: []int64{900}})

	for i := range 50_000 {
		m.ask(t, strconv.Itoa(i), ledger.Ask{Takes: []int64{1}})
	}

	m.peak(t, 900, time.Minute)
}

func TestAMeterCountsBusySlots(t *testing.T) {
	t.Parallel()

	m := newMetered(t, `rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 20}]`)
	m.ask(t, "ada", ledger.Ask{Slots: true, Needs: []int64{1}, RaiseTo: 8})
	m.ask(t, "ada", ledger.Ask{Slots: true, Spent: 8, RaiseTo: 8})
	m.ask(t, "ada", ledger.Ask{Slots: true, Spent: 3, RaiseTo: 8})
	m.peak(t, 8, 0)
}

// What one key uses by several coordinators is added up, and only that.
func TestPeaksOfSeveralCoordinatorsAreAddedUp(t *testing.T) {
	t.Parallel()

	const rules = `rules: [{id: r, keyBy: user, limit: 100, window: 1m}]`

	one, two := newMetered(t, rules), newMetered(t, rules)

	for key, n := range map[string]int{"ada": 30, "bob": 20, "cid": 10, "dan": 5} {
		one.ask(t, key, ledger.Ask{Takes: []int64{int64(n)}})
		two.ask(t, key, ledger.Ask{Takes: []int64{int64(40 - n)}})
	}

	now := one.now.UnixMicro()
	first, second := one.meter.Peaks(now, "none", "r"), two.meter.Peaks(now, "r")

	if len(first) != 3 || len(second) != 3 || first[0].Tokens != 30 || first[2].Tokens != 10 || second[0].Tokens != 35 {
		t.Fatalf("the three that use most are %+v and %+v", first, second)
	}

	// bob and cid are among the three of both; dan and ada are of one.
	if got := coordinator.Most(append(first, second...))["r"]; got != (coordinator.Use{Tokens: 40, Per: time.Minute}) {
		t.Errorf("together a key used %+v", got)
	}

	if got := coordinator.Most(first)["other"]; got != (coordinator.Use{}) {
		t.Errorf("of another rule: %+v", got)
	}
}
