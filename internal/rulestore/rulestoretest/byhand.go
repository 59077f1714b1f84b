package rulestoretest

import (
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/rulestore"
)

func testBadRows(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	write(t, s, change(t, ruleA))
	write(t, s, change(t, ruleB))
	put := func(id, document string) {
		site.Exec(t, "INSERT INTO rules (id, version, document) VALUES ($1, 9, $2)", id, document)
	}
	put("fortnight", `{"id":"fortnight","limit":1,"window":"1fortnight"}`)
	put("half", `{"id":"half","limit":1,`)
	put("other", `{"id":"a","limit":1,"window":"1s"}`)
	put("two", `{"id":"two","limit":1,"window":"1s"},{"id":"three","limit":1,"window":"1s"}`)
	put("yaml", "id: yaml")
	site.Exec(t, "INSERT INTO rules (id, version, document) VALUES ('negative', -4, $1)", `{"id":"negative","limit":1,"window":"1s"}`)
	site.Exec(t, "INSERT INTO settings (name, version, document) VALUES ('headers', 9, $1)", `"loud"`)
	site.Exec(t, "INSERT INTO settings (name, version, document) VALUES ('mine', 9, $1)", `{`)

	state := load(t, s)
	bad := make([]string, 0, len(state.Bad))
	for _, row := range state.Bad {
		bad = append(bad, row.Place)
	}
	const want = "rules fortnight, rules half, rules other, rules two, " +
		"rules yaml, settings headers, settings mine"
	if got := strings.Join(bad, ", "); got != want {
		t.Errorf("bad are %s\nwant    %s", got, want)
	}
	if !strings.Contains(state.Bad[0].Err.Error(), "window") {
		t.Errorf("the error of the first does not name the field: %v", state.Bad[0].Err)
	}
	if len(state.Set.Rules) != 3 || state.Set.Rule("a").Limit != 100 || state.Set.Rule("negative") == nil {
		t.Errorf("the others are %s", state.Set.Marshal())
	}
	// Others can be changed meanwhile, and bad ones put right or taken away.
	write(t, s, change(t, strings.ReplaceAll(ruleA, "100", "50")))
	write(t, s, change(t, `{"rules":[{"id":"fortnight","limit":1,"window":"14d"}]}`))
	gone := &rulestore.Change{Author: "ada", Action: "rules.delete", Settings: []rulestore.SettingChange{{Name: "headers"}, {Name: "mine"}}}
	for _, id := range []string{"half", "other", "two", "yaml"} {
		gone.Rules = append(gone.Rules, rulestore.RuleChange{ID: id})
	}
	write(t, s, gone)
	if state := load(t, s); len(state.Bad) != 0 || len(state.Set.Rules) != 4 || state.Set.Rule("a").Limit != 50 {
		t.Errorf("in the end there is %s, and bad are %v", state.Set.Marshal(), state.Bad)
	}
	if records := history(t, s, rulestore.Page{Place: "rules half"}); len(records) != 1 || len(records[0].Differences[0].Before) == 0 {
		t.Errorf("what was bad is not in the history: %+v", records)
	}
}

func testSwitches(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	c := change(t, ruleA)
	c.Rules = append(c.Rules, change(t, ruleB).Rules...)
	c.Settings = []rulestore.SettingChange{
		{Name: "headers", Value: text(`"ietf"`)},
		{Name: "switches", Value: text(`{"limiters":{"concurrency":"off"},"rules":{"a":"off","b":"off"}}`)},
	}
	write(t, s, c)
	site.Exec(t, "UPDATE rules SET document = $1 WHERE id = 'b'", `{"id":"b","limit":"many"}`)
	state := load(t, s)
	if len(state.Bad) != 2 || state.Bad[0].Place != "rules b" || state.Bad[1].Place != "settings switches" {
		t.Errorf("bad are %v", state.Bad)
	}
	if got := string(state.Set.Marshal()); !strings.Contains(got, `"a":"off"`) || !strings.Contains(got, `"concurrency":"off"`) ||
		!strings.Contains(got, `"headers":"ietf"`) {
		t.Errorf("the switches and settings that are good did not stay: %s", got)
	}
	write(t, s, change(t, ruleB))
	state = load(t, s)
	if got := string(state.Set.Marshal()); len(state.Bad) != 0 || !strings.Contains(got, `"b":"off"`) {
		t.Errorf("the rule was put right, and there is %s, bad are %v", got, state.Bad)
	}
}

func testBadOverride(t *testing.T, site Site) {
	t.Helper()

	s := site.Open(t)
	write(t, s, overrides(
		set(rulestore.Override{Rule: "a", Key: "a", Limit: 1}), set(rulestore.Override{Rule: "a", Key: "m", Limit: 1}),
		set(rulestore.Override{Rule: "a", Key: "z", Limit: 1})))
	put := func(key string, limit int64) {
		site.Exec(t, "INSERT INTO overrides (rule, stored_key, hint, tokens, burst, lease_us, expires_us, note, version) "+
			"VALUES ('a', $1, '', $2, 0, 0, 0, '', 9)", []byte(key), limit)
	}
	put("kb", -5)
	put("what is this", 5)
	for _, limit := range []int{0, 1, 2} { // a page ends with a bad one, too
		bad, good, pages, after := 0, "", 0, ""
		for more := true; more && pages < 10; pages++ {
			more = false
			for one, err := range s.Overrides(t.Context(), rulestore.Query{Limit: limit, After: after}) {
				switch {
				case rulestore.CodeOf(err) == rulestore.Invalid:
					bad++
				case err != nil:
					t.Fatal(err)
				default:
					good += one.Key
				}
				after, more = one.Cursor(), limit > 0
			}
		}
		if bad != 2 || good != "amz" {
			t.Errorf("in pages of %d, %d are bad, and good are %q", limit, bad, good)
		}
	}
	write(t, s, overrides(set(rulestore.Override{Rule: "a", Key: "b", Limit: 2})))
	if found := list(t, s, rulestore.Query{Rule: "a", Keys: []string{"b"}}); len(found) != 1 || found[0].Limit != 2 {
		t.Errorf("put right there is %+v", found)
	}
}
