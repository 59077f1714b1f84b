package rulestoretest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/rulestore"
)

func testTwoWriters(t *testing.T, site Site) {
	t.Helper()

	const each = 15
	write(t, site.Open(t), change(t, strings.ReplaceAll(ruleA, "100", "1")))
	var writers sync.WaitGroup
	stores := []rulestore.Store{site.Open(t), site.Open(t)}
	for _, s := range append(stores, stores...) {
		writers.Go(func() {
			for done := 0; done < each && !t.Failed(); {
				state, err := s.Load(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				a := *state.Set.Rule("a")
				a.Limit++
				a.Burst++
				_, err = s.Write(t.Context(), &rulestore.Change{Author: "ada", Action: "rules.put", Rules: []rulestore.RuleChange{
					{ID: "a", Rule: &a, If: rulestore.Condition(state.Written["a"])},
				}})
				switch {
				case err == nil:
					done++
				case rulestore.CodeOf(err) != rulestore.Conflict:
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	state := load(t, stores[0])
	if a := state.Set.Rule("a"); a.Limit != 4*each+1 || state.Rules != 4*each+1 {
		t.Errorf("%d changes by one made %d, at version %d", 4*each, a.Limit, state.Rules)
	}
	for i, record := range history(t, stores[0], rulestore.Page{}) {
		if want := uint64(4*each + 1 - i); record.Seq != want || record.Version != want {
			t.Errorf("record %d is of version %d, and should be %d", record.Seq, record.Version, want)
		}
	}
}

func testBusy(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	release := site.Hold(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := s.Write(ctx, change(t, ruleA)); rulestore.CodeOf(err) != rulestore.Busy {
		t.Errorf("a writer that waited in vain is told %v", err)
	}
	if state := load(t, s); len(state.Set.Rules) != 0 { // readers wait for nobody
		t.Error("the change was made")
	}
	written := make(chan error, 1)
	go func() {
		_, err := s.Write(t.Context(), change(t, ruleA))
		written <- err
	}()
	release()
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func testWatch(t *testing.T, site Site) {
	t.Helper()

	s, other := site.Open(t), site.Open(t)
	told, toldOther := watch(t, s), watch(t, other)
	for _, w := range []<-chan watched{told, toldOther} {
		await(t, w, func(h rulestore.Head) bool { return h == rulestore.Head{} })
	}
	write(t, s, change(t, ruleA))
	for _, w := range []<-chan watched{told, toldOther} {
		await(t, w, func(h rulestore.Head) bool { return h == rulestore.Head{Rules: 1} })
	}
	write(t, other, overrides(set(rulestore.Override{Rule: "a", Key: "k", Limit: 1})))
	for _, w := range []<-chan watched{told, toldOther} {
		await(t, w, func(h rulestore.Head) bool { return h == rulestore.Head{Rules: 1, Overrides: 2} })
	}
}

func testLostNotice(t *testing.T, site Site) {
	t.Helper()

	told := watch(t, site.Open(t))
	await(t, told, func(h rulestore.Head) bool { return h == rulestore.Head{} })
	site.Exec(t, "UPDATE head SET last = 7, rules = 7 WHERE one = 1")
	await(t, told, func(h rulestore.Head) bool { return h.Rules == 7 })
	// And an older state that was restored is not passed on as news.
	// It is told as such though there was no state at all while it was being restored.
	site.Exec(t, "ALTER TABLE head RENAME TO away")
	if w := fails(t, told); errors.Is(w.err, rulestore.ErrOlder) {
		t.Errorf("told %+v of a table that is away", w)
	}
	site.Exec(t, "UPDATE away SET last = 3, rules = 3 WHERE one = 1")
	site.Exec(t, "ALTER TABLE away RENAME TO head")
	if w := fails(t, told); !errors.Is(w.err, rulestore.ErrOlder) || w.head.Rules != 7 {
		t.Errorf("told %+v of versions that went back", w)
	}
}

// fails waits for what a watcher is told next, which is an error.
func fails(t *testing.T, told <-chan watched) watched {
	t.Helper()
	select {
	case w := <-told:
		if w.err == nil {
			t.Errorf("told %+v, and no error", w)
		}
		return w
	case <-time.After(patience):
		t.Fatal("no error was told")
	}
	return watched{}
}

// testModel compares any sequence of changes with maps.
func testModel(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	rules, keys := map[string]int64{}, map[string]int64{}
	rapid.Check(t, func(rt *rapid.T) {
		c := &rulestore.Change{Author: "ada", Action: "any"}
		put, gone, some, none := map[string]int64{}, map[string]bool{}, map[string]int64{}, map[string]bool{}
		fits := true
		for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3, rapid.ID).Draw(rt, "ids") {
			if rapid.Bool().Draw(rt, "delete") {
				gone[id] = true
				c.Rules = append(c.Rules, rulestore.RuleChange{ID: id})
				_, there := rules[id]
				fits = fits && there
				continue
			}
			put[id] = rapid.Int64Range(1, 1000).Draw(rt, "limit")
			one := change(t, fmt.Sprintf(`{"rules":[{"id":%q,"limit":%d,"window":"1s"}]}`, id, put[id])).Rules[0]
			c.Rules = append(c.Rules, one)
		}
		var changes []rulestore.OverrideChange //nolint:prealloc // at most four
		for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"", "x", "\xff"}), 0, 4).Draw(rt, "keys") {
			one := rulestore.OverrideChange{Override: rulestore.Override{Rule: "a", Key: key}, Delete: rapid.Bool().Draw(rt, "take away")}
			delete(some, key)
			delete(none, key)
			if one.Delete {
				none[key] = true
			} else {
				one.Limit = rapid.Int64Range(1, 1000).Draw(rt, "override")
				some[key] = one.Limit
			}
			changes = append(changes, one)
		}
		c.Overrides = overrides(changes...).Overrides
		_, err := s.Write(t.Context(), c)
		if fits != (err == nil) || err != nil && rulestore.CodeOf(err) != rulestore.Conflict {
			rt.Fatalf("it should have been made: %v, and the error is %v", fits, err)
		}
		if fits {
			maps.Copy(rules, put)
			maps.Copy(keys, some)
			maps.DeleteFunc(rules, func(id string, _ int64) bool { return gone[id] })
			maps.DeleteFunc(keys, func(key string, _ int64) bool { return none[key] })
		}
		state := load(t, s)
		got := map[string]int64{}
		for _, r := range state.Set.Rules {
			got[r.ID] = r.Limit
		}
		gotKeys := map[string]int64{}
		for _, o := range list(t, s, rulestore.Query{}) {
			gotKeys[o.Key] = o.Limit
		}
		if !maps.Equal(got, rules) || !maps.Equal(gotKeys, keys) {
			rt.Fatalf("got %v and %v, want %v and %v", got, gotKeys, rules, keys)
		}
	})
}
