package rulefeed_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rulefeed"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/sqlite"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log can be read while it is written.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("still not: %s", what)
		case <-tick.C:
		}
	}
}

func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Poll: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// coordinatorOf is a Feed that runs, and its Book.
type coordinatorOf struct {
	*rulefeed.Feed

	book *coordinator.Book
	log  *log
	stop func()
}

func start(t *testing.T, config rulefeed.Config) *coordinatorOf {
	t.Helper()
	c := &coordinatorOf{book: coordinator.NewBook(nil), log: &log{}}
	config.Book, config.Logger = c.book, slog.New(slog.NewTextHandler(c.log, nil))
	var err error
	if c.Feed, err = rulefeed.New(config); err != nil {
		t.Fatal(err)
	}
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	var once sync.Once
	c.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the feed ended with %v", err)
			}
		})
	}
	t.Cleanup(c.stop)
	return c
}

func (c *coordinatorOf) limit(id string) int64 {
	if r := c.book.Current().Rule(id); r != nil {
		return r.Limit
	}
	return 0
}

func parse(t *testing.T, text string) *rule.Set {
	t.Helper()
	set, err := rule.Parse("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// exec puts something into the file by hand, in one transaction, as restoring a backup would.
func exec(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "BEGIN IMMEDIATE;"+strings.Join(statements, ";")+";COMMIT"); err != nil {
		t.Fatal(err)
	}
}

// put saves rules of a document.
func put(t *testing.T, store rulestore.Store, text string) uint64 {
	t.Helper()
	change := &rulestore.Change{Author: "ada", Action: "rules.put"}
	for _, r := range parse(t, text).Rules {
		change.Rules = append(change.Rules, rulestore.RuleChange{ID: r.ID, Rule: r})
	}
	record, err := store.Write(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	return record.Version
}

// byHand runs a statement as somebody does who has the database open.
func byHand(t *testing.T, path, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

const twoRules = "rules: [{id: a, limit: 10, window: 1m}, {id: b, limit: 20, window: 1m}]"

// Versions are those of the store above one base, so that a holder may go from one coordinator to another.
func TestCoordinatorsNumberAlike(t *testing.T) {
	t.Parallel()
	store := open(t, filepath.Join(t.TempDir(), "rules.db"))
	first := start(t, rulefeed.Config{Store: store})
	if v := first.book.Current().Version; v == 0 {
		t.Fatal("an empty store is not in force: holders would take it for a start that failed")
	}
	put(t, store, twoRules)
	version := put(t, store, "rules: [{id: b, limit: 30, window: 1m}]")
	eventually(t, "the change is in force", func() bool { return first.limit("b") == 30 })

	second := start(t, rulefeed.Config{Store: store})
	one, other := first.book.Current(), second.book.Current()
	if one.Version != other.Version || first.Shown(one.Version) != version {
		t.Errorf("versions %d and %d, which is %d of the store: want %d", one.Version, other.Version, first.Shown(one.Version), version)
	}
	for _, id := range []string{"a", "b"} {
		if v, w := one.Rule(id).Version, other.Rule(id).Version; v != w {
			t.Errorf("rule %s has version %d here and %d there", id, v, w)
		}
	}
	if one.Rule("a").Version >= one.Rule("b").Version {
		t.Error("a change of one rule made the other a new version")
	}
}

func TestWhatIsNotARuleChangesNothingElse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.db")
	store := open(t, path)
	put(t, store, twoRules)
	c := start(t, rulefeed.Config{Store: store})

	byHand(t, path, "UPDATE rules SET document = '{\"id\":\"a\",\"limit\":-1}' WHERE id = 'a'")
	byHand(t, path, "INSERT INTO rules VALUES ('c', 9, 'no json')")
	for limit := int64(31); limit < 34; limit++ {
		put(t, store, strings.Replace("rules: [{id: b, limit: N, window: 1m}]", "N", "3"+string(rune('0'+limit-30)), 1))
		eventually(t, "the good rule changes", func() bool { return c.limit("b") == limit })
	}
	if got := c.limit("a"); got != 10 {
		t.Errorf("the rule whose row is bad has limit %d now: want 10, as it was last good", got)
	}
	if len(c.Bad()) != 2 || c.Stats().Bad != 2 {
		t.Errorf("bad rows: %v", c.Bad())
	}
	if n := c.log.count("a row of the rule store is refused"); n != 2 {
		t.Errorf("%d lines about two bad rows", n)
	}
}

func TestAStoreThatIsDownChangesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.db")
	store := open(t, path)
	put(t, store, twoRules)
	before := start(t, rulefeed.Config{Store: store, Dir: dir})
	known := before.book.Current().Version
	before.stop()

	var up sync.Mutex // held while the store is down
	up.Lock()
	late := rulefeed.NewLate(t.Context(), func(ctx context.Context) (rulefeed.Opened, error) {
		if !up.TryLock() {
			return nil, errors.New("connection refused")
		}
		defer up.Unlock()
		return sqlite.Open(ctx, sqlite.Config{Path: path, Poll: 5 * time.Millisecond})
	})
	t.Cleanup(func() { _ = late.Close() })
	c := start(t, rulefeed.Config{Store: late, Dir: dir})
	if c.limit("a") != 10 || c.book.Current().Version != known {
		t.Errorf("limit %d of version %d, want 10 of %d", c.limit("a"), c.book.Current().Version, known)
	}
	if stats := c.Stats(); !strings.Contains(stats.Down, "connection refused") {
		t.Errorf("it is not said that the store is down: %+v", stats)
	}
	up.Unlock()
	eventually(t, "the store is followed", func() bool { return c.Stats().Version > 0 && c.Stats().Down == "" })
	put(t, store, "rules: [{id: a, limit: 11, window: 1m}]")
	eventually(t, "the change is in force", func() bool { return c.limit("a") == 11 })
	if n := c.log.count("does not answer"); n != 1 {
		t.Errorf("%d lines about one outage", n)
	}
}

func TestNoRulesAtAllAreNoStart(t *testing.T) {
	t.Parallel()
	late := rulefeed.NewLate(t.Context(), func(context.Context) (rulefeed.Opened, error) { return nil, errors.New("refused") })
	feed, err := rulefeed.New(rulefeed.Config{Store: late, Book: coordinator.NewBook(nil), Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := feed.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("started without rules: %v", err)
	}
}

// A directory that served one store must not begin another one with its rules.
func TestRulesKeptOfAnotherStoreAreNoStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, filepath.Join(dir, "rules.db"))
	put(t, store, twoRules)
	start(t, rulefeed.Config{Store: store, Dir: dir, Kind: "sqlite"}).stop()

	late := rulefeed.NewLate(t.Context(), func(context.Context) (rulefeed.Opened, error) { return nil, errors.New("refused") })
	feed, err := rulefeed.New(rulefeed.Config{Store: late, Book: coordinator.NewBook(nil), Dir: dir, Kind: "postgres"})
	if err != nil {
		t.Fatal(err)
	}
	if err := feed.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "another rule store (sqlite)") {
		t.Errorf("started with the rules of another store: %v", err)
	}
}

// After a backup was restored holders have higher versions than the store.
func TestTheBaseGoesUpForAll(t *testing.T) {
	t.Parallel()
	store := open(t, filepath.Join(t.TempDir(), "rules.db"))
	put(t, store, twoRules)
	one, other := start(t, rulefeed.Config{Store: store}), start(t, rulefeed.Config{Store: store})
	shown := one.book.Current().Version + 1_000
	one.book.Raise(shown)
	eventually(t, "both are above what a holder showed, and alike", func() bool {
		v, w := one.book.Current().Version, other.book.Current().Version
		return v > shown && v == w
	})
	// Not even the highest that is believed leaves no room for changes.
	one.book.Raise(1<<53 - 1<<40)
	put(t, store, "rules: [{id: a, limit: 12, window: 1m}]")
	eventually(t, "a change is in force", func() bool {
		return one.limit("a") == 12 && other.limit("a") == 12 && one.book.Current().Version >= 1<<53-1<<40
	})
}

func TestASeedIsForTheFirstStart(t *testing.T) {
	t.Parallel()
	store := open(t, filepath.Join(t.TempDir(), "rules.db"))
	seed := parse(t, "headers: ietf\n"+twoRules)
	c := start(t, rulefeed.Config{Store: store, Seed: seed})
	if c.limit("a") != 10 || c.book.Current().Headers != rule.HeadersIETF {
		t.Errorf("the seed is not in force: %s", c.book.Current().Marshal())
	}
	put(t, store, "rules: [{id: a, limit: 13, window: 1m}]")
	if again := start(t, rulefeed.Config{Store: store, Seed: seed}); again.limit("a") != 13 {
		t.Errorf("the seed undid a change: limit %d", again.limit("a"))
	}
	records, err := store.History(t.Context(), rulestore.Page{})
	if err != nil {
		t.Fatal(err)
	}
	seeds := 0
	for i := range records {
		if records[i].Action == "rules.seed" {
			seeds++
		}
	}
	if seeds != 1 {
		t.Errorf("%d seeds in the history", seeds)
	}
}

// A token that was made first, and a start without a seed, leave the store one that nobody wrote rules to.
func TestASeedIsForAStoreWithTokensToo(t *testing.T) {
	t.Parallel()
	store := open(t, filepath.Join(t.TempDir(), "rules.db"))
	start(t, rulefeed.Config{Store: store})
	if _, err := store.Write(t.Context(), &rulestore.Change{
		Author: "ada", Action: "tokens.create", Settings: []rulestore.SettingChange{{Name: "token.x", Value: []byte(`{}`)}},
	}); err != nil {
		t.Fatal(err)
	}
	if c := start(t, rulefeed.Config{Store: store, Seed: parse(t, twoRules)}); c.limit("a") != 10 {
		t.Errorf("the seed is not in force: %s", c.book.Current().Marshal())
	}
	if _, err := store.Write(t.Context(), &rulestore.Change{
		Author: "ada", Action: "rules.delete", Rules: []rulestore.RuleChange{{ID: "a"}, {ID: "b"}},
	}); err != nil {
		t.Fatal(err)
	}
	if c := start(t, rulefeed.Config{Store: store, Seed: parse(t, twoRules)}); c.limit("a") != 0 {
		t.Errorf("the seed undid that all rules were deleted: %s", c.book.Current().Marshal())
	}
}

// Kill switches are settings: they come with the rules.
func TestSwitchesAreSaid(t *testing.T) {
	t.Parallel()
	store := open(t, filepath.Join(t.TempDir(), "rules.db"))
	put(t, store, twoRules)
	c := start(t, rulefeed.Config{Store: store})
	value := `{"limiters":{"worker":{"off":true,"until":"2001-01-01T00:00:00Z"}},` +
		`"rules":{"a":{"off":true,"until":"2999-01-01T00:00:00Z","reason":"incident"}}}`
	if _, err := store.Write(t.Context(), &rulestore.Change{
		Author: "ada", Action: "kill", Settings: []rulestore.SettingChange{{Name: "switches", Value: []byte(value)}},
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the switch is in force", func() bool { return c.book.Current().Switches.Rules["a"].Off })
	eventually(t, "the log says so", func() bool { return c.log.count("rule:a") == 1 && c.log.count("incident") == 1 })
	if n := c.log.count("limiter:worker"); n != 0 {
		t.Errorf("the log says %d times that what is on again is switched off", n)
	}
}

// What one write changed is told of these keys alone: those of all others need not be looked up anew.
func TestChangedOverridesAreTold(t *testing.T) {
	t.Parallel()
	store := open(t, filepath.Join(t.TempDir(), "rules.db"))
	put(t, store, twoRules)
	write := func(secret bool, keys ...string) {
		t.Helper()
		if _, err := store.Write(t.Context(), &rulestore.Change{
			Author: "ada", Action: "overrides.put", Overrides: func(yield func(rulestore.OverrideChange, error) bool) {
				for _, key := range keys {
					o := rulestore.Override{Rule: "a", Key: key, Limit: 5, Secret: secret}
					if !yield(rulestore.OverrideChange{Override: o}, nil) {
						return
					}
				}
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	write(false, "before")

	told := make(chan map[string][]string, 1)
	start(t, rulefeed.Config{Store: store, OnOverrides: func(_ uint64, rules map[string][]string) { told <- rules }})
	if all := <-told; all != nil {
		t.Errorf("at first: %v, want all of them", all)
	}
	for _, row := range []struct {
		secret bool
		keys   []string
		want   string
	}{
		{false, []string{"x"}, `map[a:["x"]]`},
		{false, []string{"y\xff", "z"}, `map[a:["y\xff" "z"]]`},
		{true, []string{"s"}, `map[a:[]]`}, // all of the rule: whose it is the store does not know
	} {
		write(row.secret, row.keys...)
		got := <-told
		slices.Sort(got["a"])
		if text := fmt.Sprintf("%q", got); text != strings.Replace(row.want, "map[a:", `map["a":`, 1) {
			t.Errorf("%q: told %s, want %s", row.keys, text, row.want)
		}
	}
	put(t, store, "rules: [{id: b, limit: 30, window: 1m}]") // changes no overrides
	write(false, "last")
	if got := <-told; len(got) != 1 || len(got["a"]) != 1 {
		t.Errorf("after a version without overrides: %v", got)
	}
}

// takesNone is a store that takes no writes while it is said so, as a replica does.
type takesNone struct {
	rulestore.Store

	now atomic.Bool
}

func (s *takesNone) Write(ctx context.Context, c *rulestore.Change) (*rulestore.Record, error) {
	if s.now.Load() {
		return nil, &rulestore.Error{Code: rulestore.ReadOnly, Message: "the rule store takes no changes", Fix: "write to its primary"}
	}
	return s.Store.Write(ctx, c)
}

// An older state is not taken from a store that takes no writes, which may lag, nor one without rules; it is taken when it can be.
func TestWhatAnOlderStateIsNotTakenFrom(t *testing.T) {
	t.Parallel() // as the next: both wait for an older state to have stood for a while
	for name, row := range map[string]struct {
		older    []string // statements that make the store older
		readOnly bool
		why      string
	}{
		"a replica that lags": {
			[]string{
				`UPDATE rules SET document = replace(document, '30', '10')`,
				`UPDATE head SET last = last - 2, records = records - 2, rules = rules - 2`,
				`DELETE FROM versions WHERE version > (SELECT last FROM head)`, `DELETE FROM audit WHERE seq > (SELECT records FROM head)`,
			}, true, "may be a replica that lags",
		},
		"a database made anew": {
			[]string{
				`DELETE FROM rules`, `DELETE FROM settings`, `DELETE FROM versions`, `DELETE FROM audit`,
				`UPDATE head SET last = 0, records = 0, rules = 0, overrides = 0`,
			}, false, "has no rules",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "rules.db")
			s := &takesNone{Store: open(t, path)}
			c := start(t, rulefeed.Config{Store: s, Seed: parse(t, "rules: [{id: a, limit: 77, window: 1m}]")})
			for _, limit := range []string{"10", "20", "30"} {
				put(t, s, "rules: [{id: a, limit: "+limit+", window: 1m}]")
			}
			eventually(t, "the last is in force", func() bool { return c.limit("a") == 30 })
			before := c.book.Current().Version

			s.now.Store(row.readOnly)
			exec(t, path, row.older...)
			eventually(t, "it is said that it is older", func() bool { return c.Stats().Older && c.Stats().Down != "" })
			eventually(t, "it is said why it is not taken", func() bool { return strings.Contains(c.Stats().Stuck, row.why) })
			if n := c.log.count("has an older state than before"); c.Stats().Older || n != 1 {
				t.Errorf("older %v once it has stood for a while, and the log said it %d times", c.Stats().Older, n)
			}
			if n := c.log.count("an older state of the rule store is not taken"); c.limit("a") != 30 || n != 1 {
				t.Errorf("limit %d decides, and the log says %d times that it was not taken", c.limit("a"), n)
			}

			// The replica becomes the primary; and somebody writes rules into the new database.
			s.now.Store(false)
			if !row.readOnly {
				put(t, s, "rules: [{id: a, limit: 10, window: 1m}]")
			}
			eventually(t, "it is in force", func() bool { return c.limit("a") == 10 && c.Stats().Stuck == "" })
			if after := c.book.Current().Version; after <= before {
				t.Errorf("holders saw version %d, and now %d", before, after)
			}
		})
	}
}

// Where only overrides went back, what was known of them is forgotten, and holders see a new version.
func TestOverridesThatWentBackAreForgotten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.db")
	s := open(t, path)
	var all atomic.Int64 // how often all overrides were said to have changed
	c := start(t, rulefeed.Config{Store: s, OnOverrides: func(_ uint64, rules map[string][]string) {
		if len(rules) == 0 {
			all.Add(1)
		}
	}})
	put(t, s, "rules: [{id: a, keyBy: user, limit: 10, window: 1m}]")
	for range 2 {
		if _, err := s.Write(t.Context(), &rulestore.Change{Author: "ada", Action: "overrides.put",
			Overrides: func(yield func(rulestore.OverrideChange, error) bool) {
				yield(rulestore.OverrideChange{Override: rulestore.Override{Rule: "a", Key: "k", Limit: 5}}, nil)
			}}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it is in force", func() bool { return c.limit("a") == 10 && c.Stats().Version == 2 })
	before, known := c.book.Current().Version, all.Load()
	exec(t, path, `UPDATE head SET last = last - 1, records = records - 1, overrides = overrides - 1`,
		`DELETE FROM versions WHERE version > (SELECT last FROM head)`, `DELETE FROM audit WHERE seq > (SELECT records FROM head)`)
	eventually(t, "all are forgotten", func() bool { return all.Load() > known })
	eventually(t, "holders see a new version", func() bool { return c.book.Current().Version > before })
}

// A backup may have been restored while no coordinator ran, and no holder may be left to tell: then the ledgers do, which were
// charged under newer rules than there are now, and would go on under those.
func TestLedgersTellOfABackupThatNobodySaw(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "rules.db")
	s := open(t, path)
	ledgers, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	limit := func(c *coordinatorOf) int64 { // which decides
		coord, err := coordinator.New(coordinator.Config{Store: ledgers, Book: c.book})
		if err != nil {
			t.Fatal(err)
		}
		seq++
		answers, err := coord.Acquire(t.Context(), &ledger.Batch{
			Holder: 7, Seq: seq, Asks: []ledger.KeyAsk{{Rule: "a", Key: "k", Ask: ledger.Ask{Takes: []int64{1}}}},
		})
		if err != nil || answers.Keys[0].Code != ledger.KeyOK {
			t.Fatal(err, answers)
		}
		return answers.Keys[0].Answer.Terms.Bucket.Burst
	}
	before := start(t, rulefeed.Config{Store: s})
	for _, n := range []int64{10, 20, 30} {
		put(t, s, fmt.Sprintf("rules: [{id: a, limit: %d, window: 8h}]", n))
		eventually(t, "it is in force", func() bool { return before.limit("a") == n })
	}
	if got := limit(before); got != 30 {
		t.Fatalf("limit %d decides", got)
	}
	before.stop()
	exec(t, path, `UPDATE rules SET document = replace(document, '30', '10'), version = (SELECT last FROM head) - 2`,
		`UPDATE head SET last = last - 2, records = records - 2, rules = rules - 2`,
		`DELETE FROM versions WHERE version > (SELECT last FROM head)`, `DELETE FROM audit WHERE seq > (SELECT records FROM head)`)
	after := start(t, rulefeed.Config{Store: open(t, path)})
	eventually(t, "the restored limit decides", func() bool { return limit(after) == 10 })
}
