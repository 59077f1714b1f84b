package admin

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/file"
)

const (
	searchRule = `{"limit": 100, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search"}`
	searchPath = "/admin/rules/search"
)

func TestARuleIsWrittenReadAndDeleted(t *testing.T) {
	r := newRig(t)

	first := r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK, `"version":1`, `"field":"limit","after":100`)
	if first.header.Get("ETag") != `"1"` {
		t.Errorf("ETag %q", first.header.Get("ETag"))
	}

	view := read[RuleView](r.send(http.MethodGet, searchPath, "").want(http.StatusOK))
	if want := `{"id":"search","scope":{"paths":["/v1/search"]},"keyBy":["apikey"],"limit":100,"window":"1m"}`; string(view.Rule.RawMessage) != want {
		t.Errorf("got %s, want %s", view.Rule.RawMessage, want)
	}

	// What is read can be written back, and changes nothing.
	again := read[Written](r.send(http.MethodPut, searchPath, string(view.Rule.RawMessage)).want(http.StatusOK))
	if len(again.Changes) != 0 || len(again.Warnings) != 0 {
		t.Errorf("got %+v", again)
	}

	r.send(http.MethodDelete, searchPath+"?reason=no+longer+used", "").want(http.StatusOK, `"field":"limit","before":100`)
	r.send(http.MethodGet, searchPath, "").want(http.StatusNotFound)
	r.send(http.MethodDelete, searchPath, "").want(http.StatusNotFound)
}

func TestRulesAreListedInPages(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"a", "b", "team-1", "team-2", "team-3"} {
		r.send(http.MethodPut, "/admin/rules/"+id, searchRule).want(http.StatusOK)
	}

	type list struct {
		Version uint64
		Total   int
		Rules   []RuleView
		Next    string
	}

	var ids []string

	for after, pages := "", 0; ; {
		page := read[list](r.send(http.MethodGet, "/admin/rules?limit=2&after="+after, "").want(http.StatusOK))
		for _, one := range page.Rules {
			ids = append(ids, one.ID)
		}

		pages++
		if page.Total != 5 || page.Version != 5 || pages > 3 {
			t.Fatalf("page %d: %+v", pages, page)
		}

		if after = page.Next; after == "" {
			break
		}
	}

	if got := strings.Join(ids, " "); got != "a b team-1 team-2 team-3" {
		t.Errorf("got %s", got)
	}

	if page := read[list](r.send(http.MethodGet, "/admin/rules?prefix=team-", "")); page.Total != 3 || page.Rules[0].ID != "team-1" {
		t.Errorf("got %+v", page)
	}
}

func TestABadRuleIsRefusedWithItsField(t *testing.T) {
	r := newRig(t)

	for _, row := range []struct{ body, location, fix string }{
		{`{"limit": 100, "keyBy": "apikey"}`, `"body`, "window"},
		{`{"limit": 0, "windowSec": 60}`, `"body.limit"`, "block: true"},
		{`{"limit": 1, "windowSec": 60, "burst": -1}`, `"body.burst"`, ""},
		{`{"limit": 1, "windowSec": 60, "limt": 5}`, `"body.limt"`, "limit"},
		{`{"limit": 1, "window": "fortnight"}`, `"body.window"`, ""},
		{`{"id": "other", "limit": 1, "windowSec": 60}`, `"body.id"`, "leave it out"},
		{`{"limit": 1, "windowSec": 60`, `"body"`, "JSON object"},
		{`[1]`, `"body"`, "JSON object"},
		{`{"limit": 1, "windowSec": 60, "limit": 2}`, `"body.limit"`, ""},
	} {
		r.send(http.MethodPut, searchPath, row.body).want(http.StatusUnprocessableEntity, `"location":`+row.location, row.fix)
	}

	// The place is that of the text that was sent.
	r.send(http.MethodPut, searchPath, "{\n  \"limit\": 1,\n  \"windowSec\": 0}").want(http.StatusUnprocessableEntity, `"line":3`, `"column":16`)

	// All that is wrong comes at once, and nothing was written.
	r.send(http.MethodPut, searchPath, `{"limit": -1, "windowSec": 0}`).want(http.StatusUnprocessableEntity, "body.limit", "body.windowSec")
	r.send(http.MethodGet, "/admin/rules", "").want(http.StatusOK, `"version":0`, `"rules":[]`)
}

func TestConditionsGuardAgainstLostUpdates(t *testing.T) {
	r := newRig(t)
	limit := 0
	put := func(status int, headers ...string) {
		t.Helper()
		limit++ // the same again would be no version
		r.send(http.MethodPut, searchPath, fmt.Sprintf(`{"limit": %d, "windowSec": 60}`, limit), headers...).want(status)
	}

	put(http.StatusPreconditionFailed, "If-Match", `"1"`)
	put(http.StatusOK, "If-None-Match", "*") // 1
	put(http.StatusPreconditionFailed, "If-None-Match", "*")
	put(http.StatusOK, "If-Match", `"1"`) // 2
	put(http.StatusPreconditionFailed, "If-Match", `"1"`)
	put(http.StatusPreconditionFailed, "If-Match", `"9"`)
	put(http.StatusOK, "If-Match", `"7", "2"`) // 3
	put(http.StatusOK, "If-Match", `*`)        // 4
	put(http.StatusBadRequest, "If-Match", `4`)
	put(http.StatusBadRequest, "If-None-Match", `"4"`)
	r.send(http.MethodDelete, searchPath, "", "If-Match", `"3"`).want(http.StatusPreconditionFailed)
	r.send(http.MethodPatch, searchPath, `{"mode": "shadow"}`, "If-Match", `"3"`).want(http.StatusPreconditionFailed)
	r.send(http.MethodDelete, searchPath, "", "If-Match", `"4"`).want(http.StatusOK)
}

// A try says what would happen and does nothing, also where it would be refused.
func TestADryRunWritesNothing(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)

	r.send(http.MethodPut, searchPath+"?dryRun=true", `{"limit": 50, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search"}`).
		want(http.StatusOK, `"dryRun":true`, `{"field":"limit","before":100,"after":50}`)
	r.send(http.MethodPut, searchPath+"?dryRun=true", `{"limit": 0}`).want(http.StatusUnprocessableEntity)
	r.send(http.MethodPut, searchPath+"?dryRun=true", searchRule, "If-Match", `"9"`).want(http.StatusPreconditionFailed)
	r.send(http.MethodDelete, searchPath+"?dryRun=true", "").want(http.StatusOK)
	r.send(http.MethodPatch, searchPath+"?dryRun=true", `{"mode": "off"}`).want(http.StatusOK, `"after":"off"`)
	r.send(http.MethodPut, "/admin/document?dryRun=true&prune=true", `{"rules": []}`).want(http.StatusOK, `"what":"deleted"`)
	r.send(http.MethodGet, searchPath, "").want(http.StatusOK, `"version":1`, `"limit":100`)
	r.send(http.MethodGet, "/admin/audit", "").want(http.StatusOK, `"seq":1`).lacks(`"seq":2`)
}

func TestWarningsSayWhatMayNotBeMeant(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, "/admin/rules/all", `{"limit": 10, "windowSec": 60, "keyBy": "user", "scope": "/v1/**"}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/rules/w", `{"limit": 100, "windowSec": 60, "keyBy": "ip", "algorithm": "fixed_window", "description": "d"}`).
		want(http.StatusOK)

	for _, row := range []struct{ id, body, text string }{
		{"narrow", `{"limit": 20, "windowSec": 60, "keyBy": "user", "scope": "/v1/a"}`, "can do nothing: the rule all refuses"},
		{"low", `{"limit": 1, "windowSec": 60, "keyBy": "user"}`, "leaves the rule all nothing to do"},
		{"shared", `{"limit": 1, "windowSec": 60}`, "share one budget"},
		{"w", `{"limit": 100, "windowSec": 3600, "keyBy": "ip", "algorithm": "fixed_window"}`, "counting starts anew"},
		{"w", `{"limit": 100, "windowSec": 60, "keyBy": "user", "algorithm": "fixed_window"}`, "counting starts anew"},
		{"w", `{"limit": 100, "windowSec": 60, "keyBy": "ip"}`, "counting starts anew"},
		{"w", `{"limit": 100, "windowSec": 60, "keyBy": "ip", "algorithm": "fixed_window"}`, "takes away what the rule had beside: description"},
	} {
		r.send(http.MethodPut, "/admin/rules/"+row.id+"?dryRun=true", row.body).want(http.StatusOK, row.text)
	}

	// What is used is compared with what the new limit admits in the same time.
	const fewer = `{"limit": 50, "windowSec": 60, "keyBy": "ip", "algorithm": "fixed_window", "description": "d"}`

	for _, row := range []struct {
		use  Use
		text string
	}{
		{Use{Tokens: 80, Per: time.Minute}, "a key used 80 tokens in 1m0s lately, where the new limit lets it use 50"},
		{Use{Tokens: 80, Per: 10 * time.Second}, "lets it use 50"},
		{Use{Tokens: 50, Per: time.Minute}, `"warnings":[]`},
		{Use{Tokens: 499, Per: 10 * time.Minute}, `"warnings":[]`},
		{Use{Tokens: 501, Per: 10 * time.Minute}, "lets it use 500"},
		{Use{}, `"warnings":[]`},
	} {
		r.fleet.used = row.use
		r.send(http.MethodPut, "/admin/rules/w?dryRun=true", fewer).want(http.StatusOK, row.text)
	}

	// Who raises a limit is told nothing.
	r.fleet.used = Use{Tokens: 900, Per: time.Minute}
	r.send(http.MethodPut, "/admin/rules/w?dryRun=true", strings.Replace(fewer, "50", "200", 1)).want(http.StatusOK, `"warnings":[]`)

	r.fleet.used = Use{}

	// Of a rule that all share the one budget is known.
	r.send(http.MethodPut, "/admin/rules/one", `{"limit": 100, "windowSec": 60, "keyBy": "global"}`).want(http.StatusOK)
	r.fleet.take(t, "one", "", 60)
	r.send(http.MethodPut, "/admin/rules/one?dryRun=true", `{"limit": 50, "windowSec": 60, "keyBy": "global"}`).
		want(http.StatusOK, "60 tokens are used now, above the new capacity of 50")
}

func TestEnforcingChangesNeedARolloutWhereThatIsSet(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/settings/requireRollout", "true").want(http.StatusOK)

	lower := `{"limit": 50, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search"}`
	r.send(http.MethodPut, searchPath, lower).want(http.StatusConflict, "requireRollout", "force=true&reason")
	r.send(http.MethodPut, searchPath+"?force=true", lower).want(http.StatusConflict) // without a reason
	r.send(http.MethodPut, searchPath+"?dryRun=true", lower).want(http.StatusConflict)
	r.send(http.MethodPut, "/admin/document", `{"rules": [{"id": "search", "limit": 1, "windowSec": 60}]}`).want(http.StatusConflict, "search")
	r.send(http.MethodPut, "/admin/rules/new", searchRule).want(http.StatusConflict)

	// What holds back nothing of a change of scope is no rollout of it.
	r.send(http.MethodPut, searchPath, `{"limit": 50, "windowSec": 60, "keyBy": "apikey", "rollout": 1}`).want(http.StatusConflict)

	// Shadow first, or some keys first; words and deletions are free.
	r.send(http.MethodPut, "/admin/rules/new", `{"limit": 50, "windowSec": 60, "mode": "shadow", "keyBy": "user"}`).want(http.StatusOK)
	r.send(http.MethodPatch, "/admin/rules/new", `{"mode": "enforce"}`).want(http.StatusConflict)
	r.send(http.MethodPatch, "/admin/rules/new", `{"mode": "enforce", "rollout": 5}`).want(http.StatusOK)
	r.send(http.MethodPatch, "/admin/rules/new", `{"rollout": 100}`).want(http.StatusOK)
	r.send(http.MethodPut, searchPath, `{"limit": 50, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search", "rollout": 10}`).want(http.StatusOK)
	r.send(http.MethodPatch, searchPath, `{"rollout": 100}`).want(http.StatusOK)
	r.send(http.MethodPut, searchPath+"?force=true&reason=attack", `{"limit": 5, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search"}`).
		want(http.StatusOK)
	r.send(http.MethodDelete, searchPath, "").want(http.StatusOK)
}

// What the other keys are said to have kept is no way around it.
func TestARolloutSparesTheOtherKeysWhereThatIsSet(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, "/admin/rules/r", `{"limit": 100, "windowSec": 60, "keyBy": "user"}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/settings/requireRollout", "true").want(http.StatusOK)

	const some = `{"limit": 50, "windowSec": 60, "keyBy": "user", "rollout": 10`
	for _, row := range []struct {
		path, body string
		status     int
	}{
		{"/admin/rules/r", some + `, "before": {"limit": 1}}`, http.StatusConflict},
		{"/admin/rules/new", some + `, "before": {"limit": 1}}`, http.StatusConflict},
		{"/admin/rules/new", some + `, "mode": "shadow", "before": {"limit": 1, "mode": "enforce"}}`, http.StatusConflict},
		{"/admin/rules/new", some + `, "before": {"limit": 1, "mode": "shadow"}}`, http.StatusOK},
		{"/admin/rules/r", some + `, "before": {"limit": 100}}`, http.StatusOK},
		{"/admin/rules/r", some + `, "before": {"limit": 99}}`, http.StatusConflict}, // nothing else differs
		{"/admin/rules/r", some + `, "description": "d", "before": {"limit": 100}}`, http.StatusOK},
		{"/admin/rules/r", `{"limit": 20, "windowSec": 60, "keyBy": "user", "rollout": 5, "before": {"limit": 50}}`, http.StatusOK},
		// A version before cannot be without a fallback that its rule has; it counts only in an outage.
		{"/admin/rules/r", `{"limit": 20, "windowSec": 60, "keyBy": "user", "rollout": 5, "fallback": {"limit": 1, "window": "1m"}}`, http.StatusOK},
	} {
		r.send(http.MethodPut, row.path, row.body).want(row.status)
	}
}

// A new version for some keys leaves the others what they had.
func TestARolloutKeepsWhatTheOtherKeysHad(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)
	r.send(http.MethodPut, searchPath, `{"limit": 50, "windowSec": 60, "burst": 70, "keyBy": "apikey", "scope": "/v1/search", "rollout": 10}`).
		want(http.StatusOK, `"before":{"limit":100}`)

	// Another one in between keeps the first, which nobody undid.
	r.send(http.MethodPut, searchPath, `{"limit": 20, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search", "rollout": 20, "mode": "shadow"}`).
		want(http.StatusOK, `"before":{"limit":100,"mode":"enforce"}`)
	r.send(http.MethodPatch, searchPath, `{"mode": "enforce"}`).want(http.StatusOK, `"before":{"limit":100}`)
	r.send(http.MethodPatch, searchPath, `{"mode": "shadow"}`).want(http.StatusOK, `"before":{"limit":100,"mode":"enforce"}`)
	r.send(http.MethodPatch, searchPath, `{"mode": "enforce", "rollout": 33.25}`).want(http.StatusOK, `"rollout":33.25`)
	r.send(http.MethodPatch, searchPath, `{"rollout": 100}`).want(http.StatusOK, `"limit":20`)
	r.send(http.MethodGet, searchPath, "").want(http.StatusOK, `"limit":20`).lacks("before", "rollout")
}

// What changes nothing makes no version, so that a rollback goes back to what was.
func TestAWriteThatChangesNothingIsNoVersion(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)
	r.send(http.MethodPut, searchPath, `{"limit": 50, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search"}`).want(http.StatusOK)

	for _, row := range []struct{ method, path, body string }{
		{http.MethodPatch, searchPath, `{"rollout": 100}`},
		{http.MethodPatch, searchPath, `{"endPlan": true}`},
		{http.MethodPut, searchPath, `{"limit": 50, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search"}`},
		{http.MethodPost, searchPath + "/rollback", `{"version": 2}`},
	} {
		r.send(row.method, row.path, row.body).want(http.StatusOK, `"version":0`, `"changes":[]`)
	}

	r.send(http.MethodPost, searchPath+"/rollback", `{}`).want(http.StatusOK, `"version":3`, `"after":100`)
}

// A document that is applied keeps it as well, also when the same one comes again.
func TestAnAppliedRolloutKeepsWhatTheOtherKeysHad(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)

	const some = `{"rules": [{"id": "search", "limit": 50, "window": "1m", "keyBy": "apikey", "scope": "/v1/search", "rollout": 10}]}`
	for _, want := range []string{`"after":{"limit":100}`, `"places":[]`} {
		r.send(http.MethodPut, "/admin/document", some).want(http.StatusOK, want)
		r.send(http.MethodGet, searchPath, "").want(http.StatusOK, `"before":{"limit":100}`)
	}
}

// Keys that have a rule do not lose it unnoticed.
func TestARolloutThatTakesTheRuleAwayIsWarnedOf(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)

	const opens = "which have no limit under it"

	r.send(http.MethodPatch, searchPath+"?dryRun=true", `{"plan": {"steps": [10, 100], "everySec": 60}}`).want(http.StatusOK, opens)
	r.send(http.MethodPatch, searchPath, `{"rollout": 10}`).want(http.StatusOK, opens)
	r.send(http.MethodPatch, searchPath, `{"rollout": 20}`).want(http.StatusOK).lacks(opens)
	r.send(http.MethodPut, searchPath, `{"limit": 9, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search", "rollout": 100}`).
		want(http.StatusOK).lacks(opens)
	r.send(http.MethodPut, searchPath, `{"limit": 5, "windowSec": 60, "keyBy": "apikey", "scope": "/v1/search", "rollout": 10}`).
		want(http.StatusOK, `"before":{"limit":9}`).lacks(opens)
}

// A write that sets another rollout ends the plan, or its next step would take the rule from keys that have it.
func TestAPlanEndsWithAnotherRollout(t *testing.T) {
	for _, path := range []string{searchPath, "/admin/document"} {
		r := newRig(t)
		r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)

		rule, doc := `"limit": 50, "window": "1m", "keyBy": "apikey", "scope": "/v1/search"`, "{%s}"
		if path != searchPath {
			doc = `{"rules": [{"id": "search", %s}]}`
		}

		r.send(http.MethodPut, path, fmt.Sprintf(doc, rule+`, "rollout": 1`)).want(http.StatusOK)
		r.send(http.MethodPatch, searchPath, `{"plan": {"steps": [1, 10, 100], "everySec": 60}}`).want(http.StatusOK)
		r.send(http.MethodPut, path, fmt.Sprintf(doc, rule+`, "rollout": 1, "description": "d"`)).want(http.StatusOK)
		r.send(http.MethodGet, searchPath, "").want(http.StatusOK, `"plan":`, `"before":{"limit":100}`)
		r.send(http.MethodPut, path, fmt.Sprintf(doc, rule)).want(http.StatusOK, "rollout", `"fix":`)
		r.send(http.MethodGet, searchPath, "").want(http.StatusOK).lacks(`"plan":`, `"rollout":`)
	}
}

// Whatever two versions of a rule may have apart is kept for the other keys, whether the old one wrote it or left it out.
func TestARolloutKeepsAllThatItHoldsBack(t *testing.T) {
	for _, row := range []struct{ old, next, before string }{
		{`{"limit": 100, "windowSec": 60}`, `{"limit": 100, "windowSec": 3600, "rollout": 5}`, `{"window":"1m"}`},
		{`{"limit": 100, "windowSec": 60, "burst": 5}`, `{"limit": 100, "windowSec": 60, "rollout": 5}`, `{"burst":5}`},
		{`{"block": true}`, `{"limit": 100, "windowSec": 60, "rollout": 5}`, `{"block":true}`},
		{`{"limit": 100, "windowSec": 60}`, `{"block": true, "rollout": 5}`, `{"limit":100,"window":"1m"}`},
		{`{"limit": 9, "windowSec": 60, "mode": "shadow"}`, `{"limit": 9, "windowSec": 60, "rollout": 5}`, `{"mode":"shadow"}`},
		{`{"limit": 9, "windowSec": 60}`, `{"limit": 9, "windowSec": 60, "onUnavailable": "deny", "rollout": 5}`, `{"onUnavailable":"local"}`},
		{`{"limit": 9, "windowSec": 60}`, `{"limit": 9, "windowSec": 60, "lease": {"ttl": "2s"}, "rollout": 5}`, `{"lease":{"ttl":"500ms"}}`},
		{`{"limit": 9, "windowSec": 60, "slack": 3}`, `{"limit": 9, "windowSec": 60, "rollout": 5}`, `{"slack":3}`},
		{
			`{"limit": 9, "window": "1d", "timeZone": "Europe/Vienna", "algorithm": "fixed_window"}`,
			`{"limit": 9, "window": "1mo", "timeZone": "UTC", "algorithm": "fixed_window", "rollout": 5}`,
			`{"window":"1d","timeZone":"Europe/Vienna"}`,
		},
		{
			`{"limit": 9, "windowSec": 60, "fallback": {"limit": 3, "window": "1m"}}`, `{"limit": 9, "windowSec": 60, "rollout": 5}`,
			`{"fallback":{"limit":3,"window":"1m","burst":3}}`,
		},
		{`{"limit": 9, "algorithm": "concurrency"}`, `{"limit": 5, "algorithm": "concurrency", "rollout": 5}`, `{"limit":9}`},
	} {
		r := newRig(t)
		r.send(http.MethodPut, searchPath, row.old).want(http.StatusOK)

		got := read[Written](r.send(http.MethodPut, searchPath, row.next).want(http.StatusOK))
		if kept := string(fieldsOf(got.Rule.RawMessage)["before"]); kept != row.before {
			t.Errorf("%s, then %s: kept %s, want %s", row.old, row.next, kept, row.before)
		}
	}

	// What its owner says is kept is kept, and a rule that stays the same is only taken from most keys.
	r := newRig(t)
	r.send(http.MethodPut, searchPath, `{"limit": 9, "windowSec": 60}`).want(http.StatusOK)
	r.send(http.MethodPut, searchPath, `{"limit": 5, "windowSec": 60, "rollout": 5, "before": {"limit": 7}}`).want(http.StatusOK, `"before":{"limit":7}`)
	r.send(http.MethodPut, "/admin/rules/b", `{"limit": 9, "windowSec": 60}`).want(http.StatusOK)
	r.send(http.MethodPut, "/admin/rules/b", `{"limit": 9, "windowSec": 60, "rollout": 5}`).want(http.StatusOK, `"rollout":5`).lacks(`"before":{`)
}

func TestPatchRefusesWhatMeansNothing(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)

	for _, body := range []string{
		`{}`, `{"mode": "on"}`, `{"rollout": 101}`, `{"rollout": 1.234}`, `{"limit": 5}`, `{"plan": {"steps": [], "everySec": 60}}`,
		`{"plan": {"steps": [10, 5], "everySec": 60}}`, `{"plan": {"steps": [10, 100], "everySec": 0}}`,
		`{"plan": {"steps": [10, 100], "everySec": 60}, "rollout": 5}`, `{"plan": {"steps": [10, 100], "everySec": 60, "then": 1}}`,
	} {
		r.send(http.MethodPatch, searchPath, body).want(http.StatusUnprocessableEntity)
	}

	r.send(http.MethodPatch, "/admin/rules/none", `{"mode": "off"}`).want(http.StatusNotFound)
}

func TestAPlanIsKeptShownAndEnded(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)
	r.send(http.MethodPatch, searchPath, `{"plan": {"steps": [1, 10, 100], "everySec": 600}}`).want(http.StatusOK, `"rollout":1`)

	plan := read[RuleView](r.send(http.MethodGet, searchPath, "")).Plan
	if plan == nil || plan.State != PlanRunning || plan.Every != 600 || plan.MaxRefused != 5 || !plan.Since.Equal(start) || plan.Author != "loopback" {
		t.Fatalf("got %+v", plan)
	}

	// Whoever sets the rollout by hand goes on by hand.
	r.send(http.MethodPatch, searchPath, `{"rollout": 50}`).want(http.StatusOK)
	r.send(http.MethodGet, searchPath, "").lacks("plan")
	r.send(http.MethodPatch, searchPath, `{"plan": {"steps": [60, 100], "everySec": 600, "maxRefused": 0}}`).want(http.StatusOK)
	r.send(http.MethodPatch, searchPath, `{"endPlan": true}`).want(http.StatusOK)
	r.send(http.MethodGet, searchPath, "").want(http.StatusOK, `"rollout":60`).lacks("plan")

	// It does not go on after its rule was undone or deleted.
	for _, undo := range []func() got{
		func() got { return r.send(http.MethodPost, searchPath+"/rollback", `{"version": 1}`) },
		func() got { return r.send(http.MethodDelete, searchPath, "") },
	} {
		r.send(http.MethodPatch, searchPath, `{"plan": {"steps": [70, 100], "everySec": 600}}`).want(http.StatusOK)
		undo().want(http.StatusOK)

		state, err := r.store.Load(t.Context())
		if err != nil || state.Settings[PlanSetting("search")] != nil {
			t.Errorf("%v: the plan goes on: %s", err, state.Settings[PlanSetting("search")])
		}
	}
}

func TestAReadOnlySourceSaysWhereItsRulesAre(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)

	state, err := r.store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	shown := file.New("/etc/rules.yaml")
	if err := shown.Show(state.Set); err != nil {
		t.Fatal(err)
	}

	locked := newRig(t)
	locked.over(shown)
	locked.send(http.MethodGet, searchPath, "").want(http.StatusOK, `"limit":100`)
	locked.fleet.take(t, "search", "k", 5)
	locked.send(http.MethodGet, "/v1/limits?key=k", "").want(http.StatusOK, `"remaining":95`)
	locked.send(http.MethodPost, searchPath+"/reset", `{"key": "k"}`).want(http.StatusOK, `"remaining":100`)
	locked.send(http.MethodGet, "/admin/audit", "").want(http.StatusOK, `"records":[]`)
	locked.send(http.MethodGet, searchPath+"/versions", "").want(http.StatusNotFound, "come from a file")
	locked.send(http.MethodPost, searchPath+"/rollback", `{}`).want(http.StatusNotFound, "come from a file")

	for _, row := range [][3]string{
		{http.MethodPut, searchPath, `{"limit": 5, "windowSec": 60}`},
		{http.MethodDelete, searchPath, ""},
		{http.MethodPatch, searchPath, `{"mode": "off"}`},
		{http.MethodPut, "/admin/document?prune=true", `{"rules": []}`},
		{http.MethodPut, "/admin/switches/all", `{"reason": "r"}`},
		{http.MethodPut, searchPath + "/overrides", `{"key": "acme", "limit": 5}`},
	} {
		locked.send(row[0], row[1], row[2]).want(http.StatusConflict, "/etc/rules.yaml", "change the file")
	}
}

func TestWithoutTheStoreRulesAreReadAndNotWritten(t *testing.T) {
	r := newRig(t)
	r.send(http.MethodPut, searchPath, searchRule).want(http.StatusOK)

	away := &sometimes{Store: r.store}
	state, err := r.store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	other := newRig(t)
	other.over(away, func(c *Config) { c.Latest = func() *rulestore.State { return state } })
	away.down.Store(true)

	other.send(http.MethodGet, searchPath, "").want(http.StatusOK, `"limit":100`)
	other.send(http.MethodGet, "/admin/document", "").want(http.StatusOK)

	g := other.send(http.MethodPut, searchPath, searchRule).want(http.StatusServiceUnavailable, "the rule store does not answer")
	if g.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}

	// A server that never saw the store does not know who may call.
	blind := newRig(t)
	blind.over(away)
	blind.send(http.MethodGet, searchPath, "").want(http.StatusServiceUnavailable)
}

func TestBodiesAreBounded(t *testing.T) {
	r := newRig(t)
	long := `{"description": "` + strings.Repeat("x", maxBody) + `", "limit": 1, "windowSec": 60}`
	r.send(http.MethodPut, searchPath, long).want(http.StatusRequestEntityTooLarge)
	r.send(http.MethodPost, "/admin/tokens", `{"name": "`+strings.Repeat("x", maxBody)+`", "role": "admin"}`).want(http.StatusRequestEntityTooLarge)
	r.send(http.MethodPut, searchPath+"?reason="+strings.Repeat("x", 1001), searchRule).want(http.StatusUnprocessableEntity)
	r.send(http.MethodPut, searchPath+"?resaon=typo", searchRule).want(http.StatusUnprocessableEntity, "resaon")
}
