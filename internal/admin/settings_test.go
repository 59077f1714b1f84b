package admin

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

func TestSettingsAreWrittenAndTakenAway(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, "/admin/settings/headers?reason=standard", `"ietf"`).want(http.StatusOK, `"version":1`)
	r.send(http.MethodPut, "/admin/settings/requireRollout", `true`).want(http.StatusOK)
	r.send(http.MethodGet, "/admin/settings", "").want(http.StatusOK, `{"name":"headers","version":1,"value":"ietf"}`, `"value":true`)
	r.send(http.MethodPut, "/admin/settings/headers", `"none"`, "If-Match", `"9"`).want(http.StatusPreconditionFailed)
	r.send(http.MethodPut, "/admin/settings/headers?dryRun=true", `"none"`, "If-Match", `"1"`).want(http.StatusOK, `"dryRun":true`)

	for name, body := range map[string]string{
		"headers": `"some"`, "requireRollout": `null`, "shedders": `{"worker": 5}`, "classes": `[`, "switches": `{"rules": {"none": "off"}}`,
	} {
		for _, dry := range []string{"", "?dryRun=true"} {
			r.send(http.MethodPut, "/admin/settings/"+name+dry, body).want(http.StatusUnprocessableEntity)
		}
	}

	r.send(http.MethodPut, "/admin/settings/header", `"ietf"`).want(http.StatusNotFound, "headers")
	r.send(http.MethodDelete, "/admin/settings/headers", "").want(http.StatusOK)
	r.send(http.MethodDelete, "/admin/settings/headers", "").want(http.StatusNotFound)
	r.send(http.MethodGet, "/admin/settings", "").lacks(`"name":"headers"`)
}

func TestSwitchesAreThrownForATimeAndForAReason(t *testing.T) {
	r := withRules(newRig(t))
	r.send(http.MethodPut, "/admin/switches/all", `{"reason": "storm", "forSec": 600}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/switches/limiter:rate", `{"until": "2026-01-01T13:00:00Z"}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/switches/rule:user?reason=ticket", `{"reason": "wrong"}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/switches/rule:pair", `{}`).want(http.StatusOK)

	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK,
		`{"what":"all","off":true,"until":"2026-01-01T12:10:00Z","reason":"storm"}`, `{"what":"limiter:rate","off":true,"until":"2026-01-01T13:00:00Z"}`,
		`{"what":"rule:pair","off":true},{"what":"rule:user","off":true,"reason":"wrong"}`)
	r.send(http.MethodGet, "/admin/rules/user", "").want(http.StatusOK, `"switch":"off: wrong"`)
	r.send(http.MethodGet, "/admin/audit?action=switches.&limit=2", "").want(http.StatusOK, `"target":"rule:user"`, "ticket")

	// Whoever decides has them at once.
	state, err := r.store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	if s := &state.Set.Switches; !s.OfLimiter(rule.LimiterRate).OffAt(start) || !s.All.OffAt(start) || s.All.OffAt(start.Add(time.Hour)) {
		t.Errorf("got %+v", s)
	}

	r.after(10 * time.Minute)
	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, `{"what":"all","off":false`)

	// In whole seconds, and no sooner than was said.
	r.after(time.Millisecond)
	r.send(http.MethodPut, "/admin/switches/rule:pair", `{"forSec": 2}`).want(http.StatusOK)
	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, `{"what":"rule:pair","off":true,"until":"2026-01-01T12:10:03Z"}`)
	r.send(http.MethodGet, "/admin/rules/pair", "").want(http.StatusOK, `"switch":"off until 2026-01-01T12:10:03Z"`)
	r.after(3 * time.Second)
	r.send(http.MethodGet, "/admin/rules/pair", "").lacks(`"switch"`)

	for _, what := range []string{"all", "limiter:rate", "rule:user", "rule:pair"} {
		r.send(http.MethodDelete, "/admin/switches/"+what, "").want(http.StatusOK)
		r.send(http.MethodDelete, "/admin/switches/"+what, "").want(http.StatusNotFound)
	}

	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, `"switches":[]`)
	r.send(http.MethodGet, "/admin/settings", "").lacks(`"name":"switches"`)

	for _, row := range []struct {
		what, body string
		status     int
	}{
		{"everything", `{}`, http.StatusUnprocessableEntity},
		{"limiter:none", `{}`, http.StatusUnprocessableEntity},
		{"rule:none", `{}`, http.StatusNotFound},
		{"all", `{"until": "2020-01-01T00:00:00Z"}`, http.StatusUnprocessableEntity},
		{"all", `{"until": "2027-01-01T00:00:00Z", "forSec": 5}`, http.StatusUnprocessableEntity},
		{"all", `{"forSec": 0}`, http.StatusUnprocessableEntity},
		{"all", `{"why": "typo"}`, http.StatusUnprocessableEntity},
	} {
		r.send(http.MethodPut, "/admin/switches/"+row.what, row.body).want(row.status)
	}

	// The switch of a rule goes with it: another rule of that name is on.
	r.send(http.MethodPut, "/admin/switches/rule:user", `{}`).want(http.StatusOK)
	r.send(http.MethodDelete, "/admin/rules/user", "").want(http.StatusOK)
	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, `"switches":[]`)
}

// In an outage several people throw switches at once: none is lost.
func TestSwitchesThrownAtOnceAreAllThrown(t *testing.T) {
	r := newRig(t)

	const n = 8
	for i := range n {
		r.send(http.MethodPut, fmt.Sprintf("/admin/rules/r%d", i), searchRule).want(http.StatusOK)
	}

	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if got := r.send(http.MethodPut, fmt.Sprintf("/admin/switches/rule:r%d", i), `{}`); got.status != http.StatusOK {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}

	all.Wait()

	type list struct {
		Version  uint64
		Switches []SwitchView
	}

	if got := read[list](r.send(http.MethodGet, "/admin/switches", "")); len(got.Switches) != n {
		t.Errorf("got %+v", got)
	}
}

func TestADocumentIsAppliedWhole(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, "/admin/rules/old", searchRule).want(http.StatusOK)

	const doc = `
headers: ietf
rules:
  - {id: a, limit: 10, window: 1m, keyBy: user}
  - id: b
    limit: 20
    window: 1m
    keyBy: ip
`
	r.send(http.MethodPut, "/admin/document?reason=release", doc, "Content-Type", "application/yaml").
		want(http.StatusOK, `"version":2`, `"place":"rules a","what":"created"`, `"place":"settings headers","what":"created"`).lacks("rules old")
	r.send(http.MethodPut, "/admin/document", doc).want(http.StatusOK, `"version":0`, `"places":[]`) // nothing to do makes no version

	// What is read can be applied elsewhere.
	got := r.send(http.MethodGet, "/admin/document", "").want(http.StatusOK, `"headers":"ietf"`)
	if got.header.Get("ETag") != `"2"` {
		t.Errorf("ETag %s", got.header.Get("ETag"))
	}

	other := newRig(t)
	other.send(http.MethodPut, "/admin/document", got.body).want(http.StatusOK, "rules old")

	if again := other.send(http.MethodGet, "/admin/document", ""); again.body != got.body {
		t.Errorf("got %s, want %s", again.body, got.body)
	}

	// One bad rule, and nothing is changed; the line is that of the file.
	r.send(http.MethodPut, "/admin/document", "rules:\n  - {id: a, limit: 11, window: 1m}\n  - {id: c, limit: 1, window: fortnight}\n").
		want(http.StatusUnprocessableEntity, `"line":3`, "body.rules[1].window")
	r.send(http.MethodPut, "/admin/document", doc, "If-Match", `"1"`).want(http.StatusPreconditionFailed)
	r.send(http.MethodGet, "/admin/rules/a", "").want(http.StatusOK, `"limit":10`)

	r.send(http.MethodPut, "/admin/document?prune=true", "rules: [{id: a, limit: 10, window: 1m, keyBy: user}]", "If-Match", `"2"`).
		want(http.StatusOK, `"place":"rules b","what":"deleted"`, `"place":"rules old","what":"deleted"`, `"place":"settings headers","what":"deleted"`)
	r.send(http.MethodGet, "/admin/rules", "").want(http.StatusOK, `"total":1`)
}

// A document is warned of as its rules one by one would be.
func TestADocumentIsWarnedOf(t *testing.T) {
	r := newRig(t)
	const document = "/admin/document?dryRun=true&prune="

	r.send(http.MethodPut, "/admin/document", `{"rules": [
		{"id": "w", "limit": 100, "window": "1m", "keyBy": "ip", "algorithm": "fixed_window"},
		{"id": "b", "limit": 20, "window": "1m", "keyBy": "ip"}]}`).want(http.StatusOK, `"warnings":[]`)

	const rest = `, {"id": "b", "limit": 20, "window": "1m", "keyBy": "ip"}]}`
	r.fleet.used = Use{Tokens: 80, Per: time.Minute}

	for _, row := range []struct{ prune, rule, text string }{
		{"false", `{"id": "w", "limit": 100, "window": "1h", "keyBy": "ip", "algorithm": "fixed_window"}`, `"field":"rules.w.window","message":"counting starts anew`},
		{"false", `{"id": "w", "limit": 70, "window": "1m", "keyBy": "ip", "algorithm": "fixed_window"}`, "a key used 80 tokens in 1m0s lately"},
		{"true", `{"id": "w2", "limit": 100, "window": "1m", "keyBy": "ip", "algorithm": "fixed_window", "description": "d"}`, "is the rule w under another id"},
		{"false", `{"id": "w2", "limit": 100, "window": "1m", "keyBy": "ip", "algorithm": "fixed_window"}`, `"warnings":[]`},
		{"true", `{"id": "w2", "limit": 101, "window": "1m", "keyBy": "ip", "algorithm": "fixed_window"}`, `"warnings":[]`},
		{"true", `{"id": "w", "limit": 200, "window": "1m", "keyBy": "ip", "algorithm": "fixed_window"}`, `"warnings":[]`},
	} {
		r.send(http.MethodPut, document+row.prune, `{"rules": [`+row.rule+rest).want(http.StatusOK, row.text)
	}

	// Of another team's rules nothing is said.
	r.token = r.createToken(`{"name": "ann", "role": "admin"}`)
	r.token = r.createToken(`{"name": "team", "role": "operator", "rules": ["x-"]}`)
	r.send(http.MethodPut, document+"true", `{"rules": [{"id": "x-b", "limit": 20, "window": "1m", "keyBy": "ip"}]}`).
		want(http.StatusOK, `"warnings":[]`)
}

// Whoever changes thousands of rules is not told thousands of times.
func TestWarningsOfADocumentAreBounded(t *testing.T) {
	r := newRig(t)
	many := func(window string) string {
		var rules []string
		for i := range 300 {
			rules = append(rules, fmt.Sprintf(`{"id": "r%d", "scope": "/v1/%d", "limit": 9, "window": %q, "keyBy": "ip", "algorithm": "fixed_window"}`, i, i, window))
		}

		return `{"rules": [` + strings.Join(rules, ",") + `]}`
	}

	r.send(http.MethodPut, "/admin/document", many("1m")).want(http.StatusOK)

	got := r.send(http.MethodPut, "/admin/document", many("2m")).want(http.StatusOK)
	if n := strings.Count(got.body, "counting starts anew"); n != maxWarnings {
		t.Errorf("%d warnings, want %d", n, maxWarnings)
	}
}

// Whoever has some rules applies a document to these, and prunes no others.
func TestADocumentOfATeamLeavesOthersAlone(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, "/admin/document", `{"rules": [{"id": "x-1", "limit": 1, "window": "1m"}, {"id": "y-1", "limit": 1, "window": "1m"}]}`).
		want(http.StatusOK)
	r.token = r.createToken(`{"name": "ann", "role": "admin"}`)
	r.token = r.createToken(`{"name": "team", "role": "operator", "rules": ["x-"]}`)

	r.send(http.MethodPut, "/admin/document?prune=true", `{"rules": [{"id": "x-2", "limit": 1, "window": "1m"}]}`).
		want(http.StatusOK, "rules x-1", "rules x-2").lacks("y-1")
	r.send(http.MethodPut, "/admin/document", `{"rules": [{"id": "y-1", "limit": 5, "window": "1m"}]}`).want(http.StatusForbidden, "y-1")
	r.send(http.MethodPut, "/admin/document", `{"headers": "none", "rules": []}`).want(http.StatusForbidden, "headers")
	r.send(http.MethodGet, "/admin/document", "").want(http.StatusOK, "x-2").lacks("y-1")
	r.send(http.MethodGet, "/admin/rules", "").want(http.StatusOK, `"total":1`)
}

// A rule that is made anew has no part in the plan of one that a document took away: nobody asked for that to go on.
func TestAPlanGoesWithItsRule(t *testing.T) {
	r := newRig(t)
	some := `{"limit": 50, "windowSec": 60, "rollout": 1}`
	plan := `{"plan": {"steps": [1, 100], "everySec": 60}}`

	for _, remove := range []func(){
		func() { r.send(http.MethodPut, "/admin/document?prune=true", `{"rules": []}`).want(http.StatusOK) },
		func() { r.send(http.MethodDelete, searchPath, "").want(http.StatusOK) },
		func() { // past the API
			if _, err := r.store.Write(t.Context(), &rulestore.Change{
				Author: "hand", Action: "rules.delete", Rules: []rulestore.RuleChange{{ID: "search"}},
			}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		r.send(http.MethodPut, searchPath, some).want(http.StatusOK)
		r.send(http.MethodPatch, searchPath, plan).want(http.StatusOK)
		r.send(http.MethodGet, searchPath, "").want(http.StatusOK, "everySec")
		remove()
		r.send(http.MethodPut, searchPath, some).want(http.StatusOK)
		r.send(http.MethodGet, searchPath, "").want(http.StatusOK).lacks("everySec")
	}
}

// Whoever has some rules sees the switches of these, and those that concern all.
func TestSwitchesOfOthersAreNotShown(t *testing.T) {
	r := newRig(t)

	for _, id := range []string{"mine-1", "other-1"} {
		r.send(http.MethodPut, "/admin/rules/"+id, `{"limit": 50, "windowSec": 60}`).want(http.StatusOK)
		r.send(http.MethodPut, "/admin/switches/rule:"+id, `{"reason": "why `+id+`"}`).want(http.StatusOK)
	}

	r.send(http.MethodPut, "/admin/switches/limiter:worker", `{}`).want(http.StatusOK)
	r.token = r.createToken(`{"name": "a", "role": "admin"}`)
	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, "mine-1", "other-1")
	r.token = r.createToken(`{"name": "b", "role": "viewer", "rules": ["mine-"]}`)
	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, "why mine-1", "limiter:worker").lacks("other-1")
}

// A switch is thrown by hand, in an emergency; a repository that is applied every hour does not know of it.
func TestAPruneLeavesKillSwitchesAlone(t *testing.T) {
	const prune, keeping = "/admin/document?prune=true", `{"rules": [{"id": "a", "limit": 1, "window": "1m"}, {"id": "b", "limit": 1, "window": "1m"}]`

	r := newRig(t)
	r.send(http.MethodPut, prune, keeping+`, "headers": "none"}`).want(http.StatusOK).lacks(switchesSetting)
	r.send(http.MethodPut, "/admin/switches/rule:a", `{"reason": "storm"}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/switches/limiter:fleet", `{}`).want(http.StatusOK)

	r.send(http.MethodPut, prune, keeping+`}`).want(http.StatusOK, `"place":"settings headers","what":"deleted"`, `"field":"switches","message":"the document does not`).
		lacks("settings switches")
	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, "storm", "limiter:fleet")

	// That of a rule which goes, goes along: no switch speaks of a rule that is not there.
	r.send(http.MethodPut, prune, `{"rules": [{"id": "b", "limit": 1, "window": "1m"}]}`).
		want(http.StatusOK, `"place":"settings switches","what":"changed"`, `"field":"switches"`)
	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, "limiter:fleet").lacks("storm")

	// A document that speaks of switches means it, also where it says that there are none.
	r.send(http.MethodPut, prune, "rules: [{id: b, limit: 1, window: 1m}]\nswitches: {}").
		want(http.StatusOK, `"place":"settings switches","what":"deleted"`).lacks(`"field":"switches"`)
	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, `"switches":[]`)

	// Whoever has some rules prunes these, with their switches.
	r.send(http.MethodPut, "/admin/document", keeping+`, "headers": "none", "switches": {"limiters": {"rate": "off"}, "rules": {"a": "off"}}}`).want(http.StatusOK)

	ann := r.createToken(`{"name": "ann", "role": "admin"}`)
	r.token = ann
	r.token = r.createToken(`{"name": "team", "role": "operator", "rules": ["a"]}`)
	r.send(http.MethodPut, prune, `{"rules": []}`).want(http.StatusOK, `"place":"rules a","what":"deleted"`, `"warnings":[]`)
	r.send(http.MethodGet, "/admin/switches", "").want(http.StatusOK, "limiter:rate").lacks("rule:a")
	r.token = ann
	r.send(http.MethodGet, "/admin/settings", "").want(http.StatusOK, `"name":"headers"`)
}
