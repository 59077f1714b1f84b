package cases

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// withSteps wraps steps into a file whose rules are at line 1 and whose steps begin at line 4.
func withSteps(steps string) string {
	return "rules: [{id: r, keyBy: user, limit: 2, window: 10s}]\ntests:\n  - name: n\n    steps:\n" + steps
}

func TestProblemsNameThePlaceAndTheFix(t *testing.T) {
	t.Parallel()

	for _, row := range []struct{ src, want string }{
		{"", "c.yaml: the file is empty (write rules: and tests:)"},
		{"- a", "c.yaml:1:1: is a list where a map is expected"},
		{"rules: [", "c.yaml:1:1: "},
		{"rules: []\n---\nrules: []", "c.yaml:2:1: a second document starts here"},
		{"rules: []", "c.yaml:1:1: has no tests (write tests:"},
		{"tests: []", "c.yaml:1:1: has no rules (write rules:"},
		{"rules: []\nrulesFile: x\ntests: []", "c.yaml:2:12: rulesFile: does not go with rules (keep one of them)"},
		{"rules: []\ntest: []", "c.yaml:2:1: test: is not known here (did you mean tests?)"},
		{"rules: []\ntests: {}", "c.yaml:2:8: tests: is a map where a list is expected"},
		{"rules: []\ntests: []", "c.yaml:2:8: tests: has no test in it (write at least one)"},
		{"rules: []\nrules: []\ntests: []", "c.yaml:2:1: rules: is set twice (keep one of them)"},
		{"rules:\n  - {id: a, limit: 5, window: 1s}\n  - {id: a, limit: 5, window: 1s}\ntests: []", "c.yaml:3:5: rules[1]: the id \"a\" is taken by the rule at line 2"},
		{"tests: []\n\nrules:\n- id: ä\n  limit: ten\n  window: 1s", "c.yaml:4:7: rules[0].id: \"ä\" is no id"},
		{"tests: []\n\nrules:\n- id: a\n  limit: ten\n  window: 1s", "c.yaml:5:10: rules[0].limit: \"ten\" is no whole decimal number"},
		{`{"ä": 1, "rules": [{"id": "a", "limit": 0, "window": "1s"}], "tests": []}`, "c.yaml:1:41: rules[0].limit: 0 would refuse every request"},
		{"rules: []\ntests: [{steps: [{at: 0s}]}]", "c.yaml:2:9: tests[0]: has no name"},
		{"rules: []\ntests: [{name: '', steps: [{at: 0s}]}]", "c.yaml:2:16: tests[0].name: is empty"},
		{"rules: []\ntests: [{name: a, steps: [{at: 0s}]}, {name: a, steps: [{at: 0s}]}]", "c.yaml:2:39: tests[1]: the name \"a\" is taken by the test at line 2"},
		{"rules: []\ntests: [{name: a}]", "c.yaml:2:9: tests[0]: has no steps"},
		{"rules: []\ntests: [{name: a, steps: []}]", "c.yaml:2:26: tests[0].steps: has no step in it"},
		{"rules: []\ntests: [{name: a, start: yesterday, steps: [{at: 0s}]}]", "c.yaml:2:26: tests[0].start: \"yesterday\" is no moment from 1970 to 2200"},
		{"rules: []\ntests: [{name: a, holders: 0, steps: [{at: 0s}]}]", "c.yaml:2:28: tests[0].holders: 0 is out of range (write a whole number from 1 to 1000)"},
		{"rules: []\ntests: [{name: a, latency: 1h, steps: [{at: 0s}]}]", "c.yaml:2:28: tests[0].latency: 1h is out of range"},

		{withSteps("      - {user: a}"), "c.yaml:5:9: tests[0].steps[0]: has no time (write at: 0s"},
		{withSteps("      - {at: 5}"), "c.yaml:5:14: tests[0].steps[0].at: \"5\" is no span of time (write a number and a unit"},
		{withSteps("      - {at: -5s}"), "c.yaml:5:14: tests[0].steps[0].at: -5s is out of range"},
		{withSteps("      - {at: 1ns}"), "c.yaml:5:14: tests[0].steps[0].at: 1ns is finer than a microsecond"},
		{withSteps("      - {at: 99999d}"), "c.yaml:5:14: tests[0].steps[0].at: 99999d is out of range"},
		{withSteps("      - {at: 99999999w}"), "c.yaml:5:14: tests[0].steps[0].at: \"99999999w\" is no span of time"},
		{withSteps("      - {at: 0s, usr: a}"), "c.yaml:5:18: tests[0].steps[0].usr: is not known here (did you mean user?)"},
		{withSteps("      - {at: 0s, qqq: a}"), "c.yaml:5:18: tests[0].steps[0].qqq: is not known here (known: at, send,"},
		{withSteps("      - {at: 0s, send: 0}"), "c.yaml:5:24: tests[0].steps[0].send: 0 is out of range"},
		{withSteps("      - {at: 0s, send: 9, every: 99y}"), "c.yaml:5:34: tests[0].steps[0].every: \"99y\" is no span of time"},
		{withSteps("      - {at: 0s, send: 9999999, every: 1d}"), "c.yaml:5:9: tests[0].steps[0]: goes on for too long"},
		{withSteps("      - {at: 0s, send: 9999999}\n      - {at: 0s, send: 2}"), "c.yaml:6:9: tests[0].steps[1]: makes it more than 10000000 requests"},
		{withSteps("      - {at: 0s, holder: 1}"), "c.yaml:5:26: tests[0].steps[0].holder: \"1\" is no server of this test (holders: 1 names them 0 to 0)"},
		{withSteps("      - {at: 0s, path: v1}"), "c.yaml:5:24: tests[0].steps[0].path: does not begin with a slash"},
		{withSteps("      - {at: 0s, ip: localhost}"), "c.yaml:5:22: tests[0].steps[0].ip: \"localhost\" is no address"},
		{withSteps("      - {at: 0s, entries: {k: v}}"), "c.yaml:5:27: tests[0].steps[0].entries: is a map where a list is expected"},
		{withSteps("      - {at: 0s, entries: [{value: v}]}"), "c.yaml:5:28: tests[0].steps[0].entries[0]: has no key (write {key: NAME"},
		{withSteps("      - {at: 0s, entries: [{key: k, vale: v}]}"), "c.yaml:5:37: tests[0].steps[0].entries[0].vale: is not known here (did you mean value?)"},
		{withSteps("      - {at: 0s, cost: -1}"), "c.yaml:5:24: tests[0].steps[0].cost: -1 is out of range"},
		{withSteps("      - {at: 0s, cost: '1'}"), "c.yaml:5:24: tests[0].steps[0].cost: is \"1\" where a whole number is expected"},
		{withSteps("      - {at: 0s, user: }"), "c.yaml:5:24: tests[0].steps[0].user: is empty where text is expected"},
		{withSteps("      - {at: 0s, headers: [a]}"), "c.yaml:5:27: tests[0].steps[0].headers: is a list where a map is expected"},
		{withSteps("      - {at: 0s, headers: {[a]: b}}"), "c.yaml:5:28: tests[0].steps[0].headers: has a list as a key"},
		{withSteps("      - {at: 0s, expect: a}"), "c.yaml:5:26: tests[0].steps[0].expect: \"a\" is neither letters nor a map"},
		{withSteps("      - {at: 0s, expect: AA}"), "c.yaml:5:26: tests[0].steps[0].expect: has 2 letters, and the step sends 1 (write one for each request, or send: 2)"},
		{withSteps("      - {at: 0s, expect: {}}"), "c.yaml:5:26: tests[0].steps[0].expect: expects nothing"},
		{withSteps("      - {at: 0s, expect: {alloved: 1}}"), "c.yaml:5:27: tests[0].steps[0].expect.alloved: is not known here"},
		{withSteps("      - {at: 0s, expect: {allowed: 1, denied: 1}}"), "c.yaml:5:26: tests[0].steps[0].expect: counts 2 requests where 1 are sent"},
		{withSteps("      - {at: 0s, expect: {reason: busy}}"), "c.yaml:5:35: tests[0].steps[0].expect.reason: \"busy\" is no reason"},
		{withSteps("      - {at: 0s, user: a, apply: {id: r}}"), "c.yaml:5:24: tests[0].steps[0].user: does not go with a change of the rules or of the load"},
		{withSteps("      - {at: 0s, remove: r, apply: {id: s, limit: 1, window: 1s}}"), "c.yaml:5:26: tests[0].steps[0].remove: does not go with apply"},
		{withSteps("      - {at: 0s, remove: s}"), "c.yaml:5:26: tests[0].steps[0].remove: there is no rule \"s\" at that time"},
		{withSteps("      - at: 0s\n        apply:\n          id: r\n          limit: 0\n          window: 1s"), "c.yaml:8:18: tests[0].steps[0].apply.limit: 0 would refuse every request"},
		{withSteps("      - {at: 0s, apply: {limit: 1, window: 1s}}"), "c.yaml:5:25: tests[0].steps[0].apply: has no id"},
		{withSteps("      - {at: 0s, apply: {id: s, limit: 1, window: 1s, scope: {pats: [/]}}}"), "c.yaml:5:63: tests[0].steps[0].apply.scope.pats: is not known here"},
		{withSteps("      - {at: 0s, apply: r}"), "c.yaml:5:25: tests[0].steps[0].apply: is \"r\" where a map is expected"},
	} {
		_, err := Parse("c.yaml", []byte(row.src), nil)
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+row.want) {
			t.Errorf("%q:\ngot  %v\nwant %s", row.src, err, row.want)
		}
	}
}

func TestAllProblemsComeAtOnceInOrder(t *testing.T) {
	t.Parallel()

	_, err := Parse("c.yaml", []byte("rules: [{id: r, limt: 1}]\ntests:\n  - name: n\n    steps:\n      - {at: x, expect: Q}\n"), nil)

	want := "c.yaml:1:9: rules[0]: has no window (write window: 1m, or another span)\n" +
		"  rules: [{id: r, limt: 1}]\n" +
		"          ^\n"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got\n%v\nwant\n%s…", err, want)
	}

	problems, _ := errors.AsType[Errors](err)

	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
	}

	if !slices.Equal(lines, []int{1, 1, 5, 5}) {
		t.Errorf("got problems at lines %v", lines)
	}
}

func TestStepsAreInOrderOfTime(t *testing.T) {
	t.Parallel()

	result := run(t, withSteps(`
      - {at: 10s, send: 2, user: a, expect: AD}   # one came back at 5s, was spent at 6s, and one more at 10s
      - {at: 0s, send: 3, user: a, expect: AAD}
      - {at: 6s, send: 2, every: 1s, user: a, expect: AD}
`))
	if !result.Passed {
		t.Errorf("got %v", result.Failures)
	}
}

// A step that goes on does not hold up the next.
func TestStepsOverlap(t *testing.T) {
	t.Parallel()

	result := run(t, withSteps(`
      - {at: 0s, send: 2, every: 2s, user: a, expect: AD}
      - {at: 1s, send: 1, user: a, expect: A}
`))
	if !result.Passed {
		t.Errorf("got %v", result.Failures)
	}
}

func TestAppliedRulesStandOnThoseBefore(t *testing.T) {
	t.Parallel()

	file := parsed(t, withSteps(`
      - {at: 3s, remove: r}
      - {at: 1s, apply: {id: s, limit: 9, window: 1s, cost: "header:X-Cost", description: "5"}}
      - {at: 2s, apply: {id: r, keyBy: [user, ip], limit: 7, window: 1s}}
`))

	var got []string
	for _, s := range file.Tests[0].Steps {
		var ids []string
		for _, r := range s.Rules.Rules {
			ids = append(ids, r.ID)
		}

		got = append(got, strings.Join(ids, " "))
	}

	if want := "r s,r s,s"; strings.Join(got, ",") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ","), want)
	}

	if r := file.Tests[0].Steps[1].Rules.Rule("r"); r.Limit != 7 || len(r.KeyBy) != 2 {
		t.Errorf("got %+v", r)
	}

	if s := file.Tests[0].Steps[1].Rules.Rule("s"); s.Cost.Header != "X-Cost" || s.Description != "5" {
		t.Errorf("got %+v", s)
	}
}

func TestAnchorsStandForWhatTheyName(t *testing.T) {
	t.Parallel()

	file := parsed(t, `
rules:
  - &r {id: r, keyBy: user, limit: 2, window: 10s}
tests:
  - name: n
    steps:
      - {at: 0s, remove: r}
      - {at: 1s, apply: *r}
      - {at: 2s, apply: {<<: *r, limit: 5}}
`)
	if n := file.Tests[0].Steps[2].Rules.Rule("r"); n == nil || n.Limit != 5 {
		t.Errorf("got %+v", n)
	}
}

func TestRulesFileIsRelativeToTheCases(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()

		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	write("rules.yaml", "identity: {user: {header: X-User, trusted: true}}\nrules: [{id: r, keyBy: user, limit: 2, window: 10s}]\n")
	write("cases.yaml", `{rulesFile: rules.yaml, tests: [{name: n, steps: [{at: 0s, apply: {id: s, limit: 1, window: 1s}}]}]}`)

	file, err := Load(filepath.Join(dir, "cases.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	after := file.Tests[0].Steps[0].Rules
	if file.Tests[0].Rules.Rule("r") == nil || after.Rule("r") == nil || after.Rule("s") == nil || after.Identity.User.Header != "X-User" {
		t.Errorf("got %+v, then %+v", file.Tests[0].Rules, after)
	}

	write("rules.yaml", "rules:\n- {id: r, limit: 2}\n")

	_, err = Load(filepath.Join(dir, "cases.yaml"))
	if want := filepath.Join(dir, "rules.yaml") + ":2:3: rules[0]: has no window"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s…", err, want)
	}

	write("cases.yaml", `{rulesFile: none.yaml, tests: []}`)

	_, err = Load(filepath.Join(dir, "cases.yaml"))
	if err == nil || !strings.Contains(err.Error(), "rulesFile: cannot be read") {
		t.Errorf("got %v", err)
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		text string
		want time.Duration
	}{
		{"0s", 0},
		{"30.4s", 30_400 * time.Millisecond},
		{"50ms", 50 * time.Millisecond},
		{"1h30m", 90 * time.Minute},
		{"1d", 24 * time.Hour},
		{"1w2d3h", 9*24*time.Hour + 3*time.Hour},
		{"2d0.5s", 48*time.Hour + 500*time.Millisecond},
	} {
		if got, err := parseSpan(row.text); err != nil || got != row.want {
			t.Errorf("%s: got %v, %v; want %v", row.text, got, err, row.want)
		}
	}

	for _, text := range []string{"", "5", "s", "d", "1.5d", "-1d", "1d-1s", "1d2w", "1x", "9999999999w", "106751d999999h"} {
		if got, err := parseSpan(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		withSteps("      - {at: 0s, send: 3, user: a, expect: AAD}"),
		withSteps("      - {at: 0s, apply: {id: s, limit: 1, window: 1s}}\n      - {at: 1s, remove: s}"),
		`{"rules": [{"id": "a", "limit": 1, "window": "1s"}], "tests": [{"name": "n", "steps": [{"at": "0s"}]}]}`,
		"rules: &a [*a]\ntests: []", "rules: []\ntests:\n- &t {name: n, steps: [{at: 0s, apply: *t}]}",
		"\ufefftests: []\r\nrules: []\r\n", "{tests: [], rules: []}", "\x00", "a: &x [*x, *x]",
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, src string) {
		file, err := Parse("c.yaml", []byte(src), func(name string) (string, []byte, error) { return name, []byte(src), nil })
		if (file == nil) == (err == nil) {
			t.Errorf("got %v and %v", file, err)
		}
	})
}
