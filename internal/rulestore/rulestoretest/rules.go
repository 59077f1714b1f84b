package rulestoretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

const (
	ruleA = `{"rules":[{"id":"a","keyBy":["user"],"limit":100,"window":"1m"}]}`
	ruleB = `{"rules":[{"id":"b","keyBy":["user"],"limit":7,"window":"1s"}]}`
)

func testRule(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	first := load(t, s)
	if first.Set == nil || len(first.Set.Rules) != 0 || first.Head != (rulestore.Head{}) {
		t.Fatalf("a new store has %+v", first)
	}
	document := `{"rules":[{"id":"a","description":"ü — ☃ \u0001","scope":{"paths":["/v1/**"]},"keyBy":["user","header:X-T"],` +
		`"limit":100,"window":"1m","burst":150,"overrides":[{"key":["x","y"],"limit":5}]}]}`
	record := write(t, s, change(t, document))
	if record.Version != 1 || record.Seq != 1 || record.Author != "ada" {
		t.Errorf("the record is %+v", record)
	}
	state := load(t, s)
	whole, err := rule.Parse("test", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(state.Set.Marshal()), string(whole.Next(nil, 1).Marshal()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if state.Rules != 1 || state.Overrides != 0 || state.Written["a"] != 1 || len(state.Bad) != 0 {
		t.Errorf("the state is %+v", state)
	}
	// A second writing of the same is a version too, that changes nothing about what the rule does.
	if again := write(t, s, change(t, document)); again.Version != 2 {
		t.Errorf("the second version is %d", again.Version)
	}
	if state := load(t, s); state.Set.Version != 2 || state.Set.Rule("a").Version != 1 || state.Written["a"] != 2 {
		t.Errorf("set at %d, rule at %d, written by %d", state.Set.Version, state.Set.Rule("a").Version, state.Written["a"])
	}
	write(t, s, &rulestore.Change{Author: "ada", Action: "rules.delete", Rules: []rulestore.RuleChange{{ID: "a", If: 2}}})
	if state := load(t, s); len(state.Set.Rules) != 0 || state.Set.Version != 3 {
		t.Errorf("after the deletion there is %s", state.Set.Marshal())
	}
}

func testConditions(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	create := change(t, ruleA)
	create.Rules[0].If = rulestore.Absent
	write(t, s, create)
	refused(t, s, create, rulestore.Conflict)

	late := change(t, strings.ReplaceAll(ruleA, "100", "5"))
	late.Rules[0].If = 1
	write(t, s, late)
	err := refusal(t, s, late, rulestore.Conflict)
	if !strings.Contains(err.Error(), "rules a: is at version 2, and the change is to version 1") {
		t.Errorf("the error is %v", err)
	}
	gone := &rulestore.Change{Author: "ada", Action: "rules.delete", Rules: []rulestore.RuleChange{{ID: "b"}}}
	refused(t, s, gone, rulestore.Conflict)
	whole := change(t, ruleB)
	whole.If = 1
	refused(t, s, whole, rulestore.Conflict)
	whole.If = rulestore.Absent
	refused(t, s, whole, rulestore.Conflict)
	whole.If = 2
	write(t, s, whole)
	// One condition of several that does not hold keeps the others from being written.
	both := change(t, `{"rules":[{"id":"a","limit":9,"window":"1s"},{"id":"b","limit":9,"window":"1s"}]}`)
	both.Rules[0].If, both.Rules[1].If = 2, 2
	refused(t, s, both, rulestore.Conflict)

	setting := &rulestore.Change{Author: "ada", Action: "settings.put", Settings: []rulestore.SettingChange{
		{Name: "requireRollout", Value: text("true"), If: rulestore.Absent},
	}}
	write(t, s, setting)
	refused(t, s, setting, rulestore.Conflict)
	if state := load(t, s); string(state.Settings["requireRollout"]) != "true" || state.Written["settings requireRollout"] != 4 {
		t.Errorf("the settings are %s, written by %v", state.Settings, state.Written)
	}
}

func testWhole(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	write(t, s, change(t, ruleA))
	bad := change(t, ruleB)
	bad.Settings = []rulestore.SettingChange{{Name: "switches", Value: text(`{"rules":{"nope":"off"}}`)}}
	err := refusal(t, s, bad, rulestore.Invalid)
	if problems, ok := errors.AsType[rule.Errors](err); !ok || problems[0].Field != "switches.rules.nope" {
		t.Errorf("the error is %v", err)
	}
	refused(t, s, &rulestore.Change{Author: "ada", Action: "x", Settings: []rulestore.SettingChange{
		{Name: "classes", Value: text("{")},
	}}, rulestore.Invalid)
	refused(t, s, &rulestore.Change{Action: "x", Rules: change(t, ruleB).Rules}, rulestore.Invalid)
	refused(t, s, &rulestore.Change{Author: "a\x00b", Action: "x"}, rulestore.Invalid)
	twice := change(t, ruleB)
	twice.Rules = append(twice.Rules, twice.Rules[0])
	refused(t, s, twice, rulestore.Invalid)
	handmade := change(t, ruleB)
	handmade.Rules[0].Rule = &rule.Rule{ID: "b", Limit: -1, KeyBy: []rule.KeyPart{{}}} // package rule never made this
	refused(t, s, handmade, rulestore.Invalid)
	// A rule that a switch speaks of cannot go without the switch.
	throw := &rulestore.Change{Author: "ada", Action: "kill", Settings: []rulestore.SettingChange{
		{Name: "switches", Value: text(`{"rules":{"a":"off"}}`)},
	}}
	write(t, s, throw)
	gone := &rulestore.Change{Author: "ada", Action: "rules.delete", Rules: []rulestore.RuleChange{{ID: "a"}}}
	refused(t, s, gone, rulestore.Invalid)
	gone.Settings = []rulestore.SettingChange{{Name: "switches"}}
	write(t, s, gone)
}

func testUnrelated(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	write(t, s, change(t, ruleA))
	write(t, s, change(t, ruleB))
	write(t, s, change(t, strings.ReplaceAll(ruleA, `"id":"a"`, `"id":"a","description":"for people"`)))
	state := load(t, s)
	if a, b := state.Set.Rule("a"), state.Set.Rule("b"); a.Version != 1 || b.Version != 2 || a.Description != "for people" {
		t.Errorf("a is at %d and b at %d", a.Version, b.Version)
	}
	write(t, s, change(t, strings.ReplaceAll(ruleA, "100", "101")))
	if a := load(t, s).Set.Rule("a"); a.Version != 4 {
		t.Errorf("a is at %d after it changed", a.Version)
	}
}

func testHistory(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	write(t, s, change(t, ruleA))
	write(t, s, change(t, ruleB))
	tighter := change(t, strings.ReplaceAll(ruleA, "100", "1"))
	tighter.Author, tighter.Reason, tighter.Target = "bob", "abuse — №7", "a"
	write(t, s, tighter)
	note := write(t, s, &rulestore.Change{Author: "eve", Action: "keys.reset", Target: "a u1"})
	if note.Version != 0 || note.Seq != 4 {
		t.Errorf("a record of what changes no rule is %+v", note)
	}
	if head := load(t, s).Head; head.Rules != 3 {
		t.Errorf("the head is %+v after a note", head)
	}

	all := history(t, s, rulestore.Page{})
	if len(all) != 4 || all[0].Author != "eve" || all[1].Author != "bob" || all[1].Reason != "abuse — №7" || all[3].Seq != 1 {
		t.Fatalf("the history is %+v", all)
	}
	page := history(t, s, rulestore.Page{Before: 4, Limit: 2, Versions: true})
	if len(page) != 2 || page[0].Version != 3 || page[1].Version != 2 {
		t.Errorf("a page of it is %+v", page)
	}
	ofA := history(t, s, rulestore.Page{Place: rulestore.RulePlace("a")})
	if len(ofA) != 2 || len(ofA[0].Differences) != 1 || ofA[1].Differences[0].Before != nil {
		t.Fatalf("the history of a is %+v", ofA)
	}
	if one := history(t, s, rulestore.Page{Version: 2}); len(one) != 1 || one[0].Differences[0].Place != "rules b" {
		t.Errorf("version 2 is %+v", one)
	}
	for _, page := range []rulestore.Page{ // which a caller may write, and no database takes
		{Before: 1 << 63}, {Version: 1<<64 - 1}, {Place: rulestore.RulePlace("\x00")}, {Place: rulestore.RulePlace("\xff")},
	} {
		if _, err := s.History(t.Context(), page); rulestore.CodeOf(err) != rulestore.Invalid {
			t.Errorf("%+v: error %v, want one of the caller's making", page, err)
		}
	}
	for _, id := range []string{"\x00", "\xff"} {
		for _, query := range []rulestore.Query{
			{Rule: id}, {Rule: id, Limit: 1}, {Rule: id, Keys: []string{"k"}},
			{After: (&rulestore.Override{Rule: id, Key: "k"}).Cursor()},
		} {
			for _, err := range s.Overrides(t.Context(), query) {
				if rulestore.CodeOf(err) != rulestore.Invalid {
					t.Errorf("%+v: error %v, want one of the caller's making", query, err)
				}
			}
		}
	}
	if _, err := s.History(t.Context(), rulestore.Page{Limit: rulestore.MaxPage + 1}); rulestore.CodeOf(err) != rulestore.Invalid {
		t.Errorf("too large a page: %v", err)
	}
	// To go back is to write what was there before.
	back := change(t, fmt.Sprintf(`{"rules":[%s]}`, ofA[0].Differences[0].Before))
	write(t, s, back)
	if a := load(t, s).Set.Rule("a"); a.Limit != 100 || a.Version != 4 {
		t.Errorf("a has limit %d at version %d", a.Limit, a.Version)
	}
}

func testAgain(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	write(t, s, change(t, ruleA))
	write(t, s, overrides(set(rulestore.Override{Rule: "a", Key: "k", Limit: 3})))
	again := site.Open(t)
	if one, other := load(t, s), load(t, again); one.Head != other.Head || !bytes.Equal(one.Set.Marshal(), other.Set.Marshal()) {
		t.Errorf("opened again there is %s at %+v, and there was %s at %+v", other.Set.Marshal(), other.Head, one.Set.Marshal(), one.Head)
	}
	if found := list(t, again, rulestore.Query{}); len(found) != 1 {
		t.Errorf("opened again there are the overrides %+v", found)
	}
	if record := write(t, again, change(t, ruleB)); record.Version != 3 {
		t.Errorf("the next version is %d", record.Version)
	}
}

func testReadOnly(t *testing.T, site Site) {
	t.Helper()

	write(t, site.Open(t), change(t, ruleA))
	s := site.OpenReadOnly(t)
	refused(t, s, change(t, ruleB), rulestore.ReadOnly)
	refused(t, s, overrides(set(rulestore.Override{Rule: "a", Key: "k", Limit: 3})), rulestore.ReadOnly)
	if a := load(t, s).Set.Rule("a"); a == nil || a.Limit != 100 {
		t.Errorf("read only there is %+v", a)
	}
}

func testContext(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Write(ended, change(t, ruleA)); !errors.Is(err, context.Canceled) {
		t.Errorf("Write says %v", err)
	}
	if _, err := s.Load(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Load says %v", err)
	}
	if state := load(t, s); len(state.Set.Rules) != 0 {
		t.Error("the change was made")
	}
}

func testManyRules(t *testing.T, site Site) {
	t.Helper()

	const n = 5000
	s := site.Open(t)
	write(t, s, change(t, ruleA))
	c := &rulestore.Change{Author: "ada", Action: "rules.apply"}
	for i := range n {
		id := fmt.Sprintf("r%04d", i)
		r := *parse(t, strings.ReplaceAll(ruleB, `"b"`, `"`+id+`"`))[0]
		c.Rules = append(c.Rules, rulestore.RuleChange{ID: id, Rule: &r})
	}
	c.Rules[n/2].Rule.Limit = -1
	refused(t, s, c, rulestore.Invalid)
	c.Rules[n/2].Rule.Limit = 7
	if record := write(t, s, c); record.Version != 2 {
		t.Errorf("the version is %d", record.Version)
	}
	if state := load(t, s); len(state.Set.Rules) != n+1 || len(state.Bad) != 0 {
		t.Errorf("there are %d rules, and %d bad ones", len(state.Set.Rules), len(state.Bad))
	}
}
