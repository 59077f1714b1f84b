package coordinator_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/rule"
)

// clock is a clock that a test sets.
type clock struct{ micros int64 }

func (c *clock) now() time.Time { return time.UnixMicro(c.micros) }

func one(limit string) string {
	return "rules: [{id: a, limit: " + limit + ", window: 1s}, {id: b, limit: 5, window: 1s}]"
}

func applied(tb testing.TB, b *coordinator.Book, text string) uint64 {
	tb.Helper()

	version, err := b.Apply(parse(tb, text))
	if err != nil {
		tb.Fatal(err)
	}

	if got := b.Current().Version; got != version {
		tb.Fatalf("version %d is in force, Apply said %d", got, version)
	}

	return version
}

func TestVersionsFollowTheClockAndNeverGoBack(t *testing.T) {
	c := &clock{micros: 1_000}
	b := coordinator.NewBook(c.now)

	if v := b.Current().Version; v != 0 || len(b.Current().Rules) != 0 {
		t.Errorf("a new book has version %d", v)
	}

	for _, step := range []struct {
		at    int64
		limit string
		want  uint64
		a, b  uint64 // versions of the two rules
	}{
		{1_000, "1", 1_000, 1_000, 1_000},
		{2_000, "1", 1_000, 1_000, 1_000}, // the same: nothing moves
		{2_000, "2", 2_000, 2_000, 1_000},
		{2_000, "3", 2_001, 2_001, 1_000}, // within one microsecond
		{500, "4", 2_002, 2_002, 1_000},   // the clock stepped back
		{-9, "5", 2_003, 2_003, 1_000},
		{9_000, "5", 2_003, 2_003, 1_000},
		{9_000, "6", 9_000, 9_000, 1_000},
	} {
		c.micros = step.at

		got := applied(t, b, one(step.limit))
		if a, other := b.Current().Rule("a").Version, b.Current().Rule("b").Version; got != step.want || a != step.a || other != step.b {
			t.Errorf("limit %s at %d: version %d with rules of %d and %d, want %d with %d and %d", step.limit, step.at, got, a, other, step.want, step.a, step.b)
		}
	}
}

func TestADescriptionMovesTheSetAndNoRule(t *testing.T) {
	c := &clock{micros: 1_000}
	b := coordinator.NewBook(c.now)
	first := applied(t, b, one("1"))
	second := applied(t, b, strings.Replace(one("1"), "id: a", "id: a, description: for partners", 1))

	if second <= first || b.Current().Rule("a").Version != first {
		t.Errorf("versions %d and %d, rule at %d", first, second, b.Current().Rule("a").Version)
	}
}

func TestAnEmptySetIsASet(t *testing.T) {
	b := coordinator.NewBook(nil)
	if v := applied(t, b, "rules: []"); v == 0 {
		t.Error("version 0: watchers would wait for rules")
	}
}

func TestABadSetLeavesTheLastGoodOne(t *testing.T) {
	b := coordinator.NewBook(nil)
	good := applied(t, b, one("1"))

	bad := parse(t, one("2"))
	bad.Rules[0].Burst = 1 << 52 // what Parse would refuse

	for _, set := range []*rule.Set{nil, bad} {
		if _, err := b.Apply(set); err == nil {
			t.Error("taken")
		}
	}

	if _, err := b.Apply(bad); !strings.Contains(err.Error(), "rule a") {
		t.Errorf("error %q does not name the rule", err)
	}

	if got := b.Current(); got.Version != good || got.Rule("a").Limit != 1 {
		t.Errorf("version %d with limit %d is in force", got.Version, got.Rule("a").Limit)
	}
}

func TestRaiseRenumbersEveryRuleOnceASecond(t *testing.T) {
	c := &clock{micros: 1_000}
	b := coordinator.NewBook(c.now)

	if b.Raise(5_000) {
		t.Error("a book without rules was renumbered")
	}

	if v := applied(t, b, one("1")); v != 5_001 {
		t.Errorf("version %d, want one above what was shown before", v)
	}

	for _, step := range []struct {
		at      int64
		shown   uint64
		raised  bool
		version uint64
	}{
		{1_000, 5_001, false, 5_001}, // no newer than ours
		{1_000, 8_000, true, 8_001},
		{900_000, 9_000, false, 8_001}, // too soon
		{1_100_000, 9_000, true, 1_100_000},
		{9_000_000, 1<<53 - 1, false, 1_100_000}, // not to be believed
		{9_000_000, 1<<64 - 1, false, 1_100_000},
	} {
		c.micros = step.at

		if got := b.Raise(step.shown); got != step.raised || b.Current().Version != step.version {
			t.Errorf("%d shown at %d: raised %v to %d, want %v and %d", step.shown, step.at, got, b.Current().Version, step.raised, step.version)
		}
	}

	if v := b.Current().Rule("b").Version; v != 1_100_000 {
		t.Errorf("rule b stayed at %d: its ledgers may know a newer one", v)
	}
}

// What the rate of renumbering made wait is still above what was shown, once rules change.
func TestALearnedVersionCountsLater(t *testing.T) {
	c := &clock{micros: 1_000}
	b := coordinator.NewBook(c.now)
	applied(t, b, one("1"))
	b.Raise(2_000_000)
	b.Raise(3_000_000)

	if v := applied(t, b, one("2")); v != 3_000_001 {
		t.Errorf("version %d, want 3000001", v)
	}
}

// seen collects what a watcher was given.
type seen struct {
	mu       sync.Mutex
	versions []uint64
	news     chan uint64
}

func (s *seen) take(set *rule.Set) error {
	s.mu.Lock()
	s.versions = append(s.versions, set.Version)
	s.mu.Unlock()
	s.news <- set.Version

	return nil
}

func TestWatchBeginsWithTheRulesInForce(t *testing.T) {
	b := coordinator.NewBook(nil)
	first := applied(t, b, one("1"))

	ctx, cancel := context.WithCancel(t.Context())
	fresh, informed := &seen{news: make(chan uint64, 9)}, &seen{news: make(chan uint64, 9)}
	done := make(chan error, 2)

	go func() { done <- b.Watch(ctx, 0, fresh.take) }()
	go func() { done <- b.Watch(ctx, first, informed.take) }()

	if got := <-fresh.news; got != first {
		t.Errorf("a fresh watcher got %d, want %d", got, first)
	}

	second := applied(t, b, one("2"))
	for name, s := range map[string]*seen{"fresh": fresh, "informed": informed} {
		if got := <-s.news; got != second {
			t.Errorf("the %s watcher got %d, want %d", name, got, second)
		}
	}

	cancel()

	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v", err)
		}
	}
}

func TestASlowWatcherGetsTheNewestOnly(t *testing.T) {
	b := coordinator.NewBook(nil)
	first := applied(t, b, one("1"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	began, goOn := make(chan uint64), make(chan struct{})
	done := make(chan struct{})

	go func() {
		defer close(done)

		_ = b.Watch(ctx, 0, func(set *rule.Set) error {
			began <- set.Version
			<-goOn

			return errors.New("refused, and not offered again")
		})
	}()

	if got := <-began; got != first {
		t.Fatalf("got %d, want %d", got, first)
	}

	applied(t, b, one("2"))
	applied(t, b, one("3"))
	last := applied(t, b, one("4"))
	goOn <- struct{}{}

	if got := <-began; got != last {
		t.Errorf("got %d, want the newest, %d", got, last)
	}

	goOn <- struct{}{}

	next := applied(t, b, one("5"))
	if got := <-began; got != next {
		t.Errorf("got %d, want %d: what was refused is not offered again", got, next)
	}

	goOn <- struct{}{}

	cancel()
	<-done
}

// A watcher that knows newer rules than these is given these under a newer number.
func TestWatchRaisesAboveWhatTheWatcherKnows(t *testing.T) {
	b := coordinator.NewBook((&clock{micros: 1_000}).now)
	applied(t, b, one("1"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	var got uint64

	_ = b.Watch(ctx, 7_777, func(set *rule.Set) error {
		got = set.Version

		cancel()

		return nil
	})

	if got != 7_778 {
		t.Errorf("got version %d, want 7778", got)
	}
}

// Whatever is applied, shown and whatever the clock does: versions only grow,
// and a rule's version moves exactly when the rule does, or a holder showed a newer one.
func TestVersionsOnlyGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &clock{}
		b := coordinator.NewBook(c.now)
		limit := ""

		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			c.micros = rapid.Int64Range(-1_000, 5_000_000).Draw(t, "now")
			before := b.Current()

			if rapid.Bool().Draw(t, "shown") {
				shown := rapid.OneOf(rapid.Uint64Range(0, 6_000_000), rapid.Uint64()).Draw(t, "version")
				if b.Raise(shown) && b.Current().Version <= shown || b.Current().Version < before.Version {
					t.Fatalf("%d shown: from %d to %d", shown, before.Version, b.Current().Version)
				}

				continue
			}

			next := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "limit")

			set, err := rule.Parse("test", []byte(one(next)))
			if err != nil {
				t.Fatal(err)
			}

			version, err := b.Apply(set)
			if err != nil {
				t.Fatal(err)
			}

			if changed := next != limit; changed && version <= before.Version || !changed && version != before.Version {
				t.Fatalf("limit %s after %s: version %d after %d", next, limit, version, before.Version)
			}

			limit = next
		}
	})
}
