// Package rulestoretest is the suite that every rule store runs. It opens the same place several times, as several processes
// would, and puts rows in by hand, as people do. Its neighbours are the stores' tests.
package rulestoretest

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// Site is a place for rules that only one test uses.
type Site struct {
	// Open opens it, once more each time, until the test ends.
	Open func(tb testing.TB) rulestore.Store
	// OpenReadOnly opens it for reading.
	OpenReadOnly func(tb testing.TB) rulestore.Store
	// Exec puts something in by hand; places are $1, $2.
	Exec func(tb testing.TB, statement string, args ...any)
	// Hold takes the turn of a writer in another process, until release is called.
	Hold func(tb testing.TB) (release func())
}

// Run runs the suite on sites, of which each test takes a new one.
func Run(t *testing.T, site func(tb testing.TB) Site) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Site){
		"a rule is kept as it is written":                     testRule,
		"a condition that does not hold changes nothing":      testConditions,
		"what is no rule document is refused as a whole":      testWhole,
		"an unrelated change leaves a rule's version":         testUnrelated,
		"history tells who did what, and brings it back":      testHistory,
		"a bad row does not stop the rest":                    testBadRows,
		"a thrown switch outlives a bad rule":                 testSwitches,
		"overrides are found, listed and expire":              testOverrides,
		"a secret key is not stored":                          testSecret,
		"many overrides are imported whole or not at all":     testImport,
		"overrides that are there already make no version":    testSameOverrides,
		"a bad override does not stop the rest":               testBadOverride,
		"two writers lose nothing":                            testTwoWriters,
		"a writer that waits too long is told so":             testBusy,
		"a slow import holds up nobody":                       testSlowImport,
		"a watcher hears of a change":                         testWatch,
		"a change that nobody announced is found":             testLostNotice,
		"notes are seen by everybody, and soon forgotten":     testNotes,
		"many notes are not all read":                         testManyNotes,
		"read only":                                           testReadOnly,
		"a context that ended changes nothing":                testContext,
		"nothing is lost when the store is opened again":      testAgain,
		"five thousand rules are applied in one version":      testManyRules,
		"any sequence of changes is as a plain map remembers": testModel,
	} {
		t.Run(name, func(t *testing.T) { test(t, site(t)) })
	}
}

// patience is how long a test waits for what must happen at once.
const patience = 30 * time.Second

// parse reads the rules of a document.
func parse(tb testing.TB, document string) []*rule.Rule {
	tb.Helper()
	set, err := rule.Parse("test", []byte(document))
	if err != nil {
		tb.Fatal(err)
	}
	return set.Rules
}

// change puts the rules of a document.
func change(tb testing.TB, document string) *rulestore.Change {
	tb.Helper()
	c := &rulestore.Change{Author: "ada", Reason: "a test", Action: "rules.put"}
	for _, r := range parse(tb, document) {
		c.Rules = append(c.Rules, rulestore.RuleChange{ID: r.ID, Rule: r})
	}
	return c
}

func write(tb testing.TB, s rulestore.Store, c *rulestore.Change) *rulestore.Record {
	tb.Helper()
	record, err := s.Write(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return record
}

func load(tb testing.TB, s rulestore.Store) *rulestore.State {
	tb.Helper()
	state, err := s.Load(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return state
}

// refused writes what must be refused for the given reason, and checks that it left nothing.
func refused(tb testing.TB, s rulestore.Store, c *rulestore.Change, code rulestore.Code) {
	tb.Helper()
	_ = refusal(tb, s, c, code)
}

// refusal is refused, and returns the error.
func refusal(tb testing.TB, s rulestore.Store, c *rulestore.Change, code rulestore.Code) error {
	tb.Helper()
	before, records := load(tb, s), history(tb, s, rulestore.Page{})
	_, err := s.Write(tb.Context(), c)
	if rulestore.CodeOf(err) != code {
		tb.Fatalf("got %v, code %d; want code %d", err, rulestore.CodeOf(err), code)
	}
	after := load(tb, s)
	if after.Head != before.Head || !bytes.Equal(after.Set.Marshal(), before.Set.Marshal()) {
		tb.Errorf("a change that was refused (%v) made %s of %s", err, after.Set.Marshal(), before.Set.Marshal())
	}
	if now := history(tb, s, rulestore.Page{}); len(now) != len(records) {
		tb.Errorf("a change that was refused left %d records", len(now)-len(records))
	}
	return err
}

func history(tb testing.TB, s rulestore.Store, page rulestore.Page) []rulestore.Record {
	tb.Helper()
	records, err := s.History(tb.Context(), page)
	if err != nil {
		tb.Fatal(err)
	}
	return records
}

// overrides is a change of overrides.
func overrides(changes ...rulestore.OverrideChange) *rulestore.Change {
	return stream(func(yield func(rulestore.OverrideChange, error) bool) {
		for _, one := range changes {
			if !yield(one, nil) {
				return
			}
		}
	})
}

func stream(changes iter.Seq2[rulestore.OverrideChange, error]) *rulestore.Change {
	return &rulestore.Change{Author: "ada", Action: "overrides.import", Overrides: changes}
}

func set(o rulestore.Override) rulestore.OverrideChange { return rulestore.OverrideChange{Override: o} }

// list reads all overrides of a query, which must not fail.
func list(tb testing.TB, s rulestore.Store, query rulestore.Query) (all []rulestore.Override) {
	tb.Helper()
	for one, err := range s.Overrides(tb.Context(), query) {
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// watched is what a watcher was told.
type watched struct {
	head rulestore.Head
	err  error
}

// watch watches until the test ends.
func watch(tb testing.TB, s rulestore.Store) <-chan watched {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	told, ended := make(chan watched, 1000), make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func(head rulestore.Head, err error) { told <- watched{head, err} }) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err == nil {
			tb.Error("Watch ended without the error of its context")
		}
	})
	return told
}

// await reads what a watcher is told until it is the head that ok wants.
func await(tb testing.TB, told <-chan watched, ok func(rulestore.Head) bool) {
	tb.Helper()
	deadline := time.After(patience)
	for {
		select {
		case w := <-told:
			if w.err == nil && ok(w.head) {
				return
			}
		case <-deadline:
			tb.Fatal("the watcher was not told")
		}
	}
}

// text is a value as JSON.
func text(s string) json.RawMessage { return json.RawMessage(s) }
