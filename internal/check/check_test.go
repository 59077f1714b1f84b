package check

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/rest"
	"github.com/leaseway/leaseway/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The rules of these tests: windows so long that nothing comes back while they run.
const rules = `
rules:
  - {id: per-user, scope: /v1/things, keyBy: user, limit: 5, window: 1h}
  - {id: per-address, scope: /v1/addresses, keyBy: ip, limit: 2, window: 1h}
  - {id: all, scope: /v1/all, limit: 3, window: 1h}
  - {id: folded, scope: /v1/folded, keyBy: apikey, normalize: [casefold], limit: 4, window: 1h, cost: 2}
  - {id: pair, scope: /v1/pair, keyBy: [user, apikey], limit: 4, window: 1h}
  - {id: closed, scope: /v1/closed, block: true}
`

// newDoor is the routes over a real limiter.
func newDoor(t *testing.T) http.Handler {
	t.Helper()

	return newDoorFor(t, rules)
}

func newDoorFor(t *testing.T, document string) http.Handler {
	t.Helper()

	set := mustParse(t, document)

	limiter, err := leaseway.Embedded(set)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := limiter.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})

	mux := http.NewServeMux()
	New(limiter).Register(rest.New(mux, "v0.0.0"))

	return mux
}

func post(door http.Handler, path, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")

	w := httptest.NewRecorder()
	door.ServeHTTP(w, req)

	return w
}

// ask posts a question that must be answered.
func ask(t *testing.T, door http.Handler, path, body string) Answer {
	t.Helper()

	w := post(door, path, body)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%s %s: got %d %v %s", path, body, w.Code, w.Header(), w.Body)
	}

	var answer Answer
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}

	return answer
}

func TestCheckChargesTheBudgetOfTheCaller(t *testing.T) {
	door := newDoor(t)

	for i, row := range []struct {
		user, cost string
		want       Answer
	}{
		{"ada", ``, Answer{Allowed: true, Remaining: 4, Limit: 5, ResetSec: 720, Rule: "per-user"}},
		{"ada", `, "cost": 3`, Answer{Allowed: true, Remaining: 1, Limit: 5, ResetSec: 2880, Rule: "per-user"}},
		{"ada", `, "cost": 0`, Answer{Allowed: true, Remaining: 1, Limit: 5, ResetSec: 2880, Rule: "per-user"}},
		{"ada", `, "cost": 2`, Answer{Remaining: 1, RetryAfterSec: 720, Limit: 5, ResetSec: 2880, Rule: "per-user", Reason: "over_limit"}},
		{"ada", `, "cost": 1`, Answer{Allowed: true, Remaining: 0, Limit: 5, ResetSec: 3600, Rule: "per-user"}},
		{"ada", `, "cost": 0`, Answer{Remaining: 0, RetryAfterSec: 720, Limit: 5, ResetSec: 3600, Rule: "per-user", Reason: "over_limit"}},
		{"ada", `, "cost": 6`, Answer{Remaining: 0, Limit: 5, ResetSec: 3600, Rule: "per-user", Reason: "cost_exceeds_limit"}},
		{"bob", ``, Answer{Allowed: true, Remaining: 4, Limit: 5, ResetSec: 720, Rule: "per-user"}},
	} {
		got := ask(t, door, "/v1/check", `{"attributes": {"user": "`+row.user+`", "path": "/v1/things"}`+row.cost+`}`)
		row.want.Class = "write" // no method is given

		if got.near(row.want) {
			continue
		}

		t.Errorf("step %d: got %+v, want %+v", i, got, row.want)
	}
}

// near compares answers whose seconds are rounded up from a moment in the middle of the test.
func (a Answer) near(b Answer) bool {
	for _, pair := range [][2]*int64{{&a.ResetSec, &b.ResetSec}, {&a.RetryAfterSec, &b.RetryAfterSec}} {
		if *pair[0] > 0 && *pair[0] <= *pair[1] && *pair[0] >= *pair[1]-30 {
			*pair[0] = *pair[1]
		}
	}

	return a == b
}

func TestRequestsThatNoRuleMatchesAreAllowed(t *testing.T) {
	got := ask(t, newDoor(t), "/v1/check", `{"attributes": {"user": "ada", "path": "/elsewhere"}}`)
	if got != (Answer{Allowed: true, Class: "write"}) {
		t.Errorf("got %+v", got)
	}
}

func TestBlockedRequestsHaveNoTimeToComeBack(t *testing.T) {
	got := ask(t, newDoor(t), "/v1/check", `{"attributes": {"path": "/v1/closed"}}`)
	if got.Allowed || got.Reason != "blocked" || got.RetryAfterSec != 0 || got.Rule != "closed" {
		t.Errorf("got %+v", got)
	}
}

// A check of one rule and a real request of the same caller must spend the same budget, however the key is spelled.
func TestKeysOfTheTwoRoutesAreTheSame(t *testing.T) {
	for _, row := range []struct{ rule, key, attributes string }{
		{"per-user", "ada", `"user": "ada", "path": "/v1/things"`},
		{"per-address", "::ffff:192.0.2.7", `"ip": "192.0.2.7", "path": "/v1/addresses"`},
		{"per-address", "2001:db8::1", `"ip": "2001:db8::2", "path": "/v1/addresses"`},
		{"per-address", "2001:db8::/64", `"ip": "2001:db8::2", "path": "/v1/addresses"`},
		{"all", "whatever", `"path": "/v1/all"`},
		{"folded", "KEY", `"apikey": "key", "path": "/v1/folded"`},
		{"pair", "ada|key", `"user": "ada", "apikey": "key", "path": "/v1/pair"`},
	} {
		door := newDoor(t)
		one := ask(t, door, "/v1/rules/"+row.rule+"/check", `{"key": "`+row.key+`"}`)
		two := ask(t, door, "/v1/check", `{"attributes": {`+row.attributes+`}}`)

		if !one.Allowed || !two.Allowed || two.Rule != row.rule || one.Limit-one.Remaining != one.Remaining-two.Remaining {
			t.Errorf("%s %s: %+v, then %+v: not one budget", row.rule, row.key, one, two)
		}
	}
}

// One rule is asked for a class as all are: tests spend budgets of their own, said by the class or by how the key begins.
// Who asks one rule by its name is refused by it no more than real requests are: a shadow refuses nobody, one that is off says nothing.
func TestOneRuleThatIsNotEnforcedAllows(t *testing.T) {
	t.Parallel()

	door := newDoorFor(t, `rules:
  - {id: shadow, keyBy: user, limit: 1, window: 1h, mode: shadow}
  - {id: off, keyBy: user, limit: 1, window: 1h, mode: off}
`)

	for _, id := range []string{"shadow", "off"} {
		for range 3 {
			if got := ask(t, door, "/v1/rules/"+id+"/check", `{"key": "ada"}`); got != (Answer{Allowed: true}) {
				t.Errorf("%s: %+v", id, got)
			}
		}
	}
}

func TestOneRuleKnowsTheClass(t *testing.T) {
	door := newDoorFor(t, `
classes: [{class: test, apikeyPrefix: sk_test_}]
rules:
  - {id: per-key, scope: /k, keyBy: apikey, limit: 1, window: 1h}
  - {id: per-user, scope: /u, keyBy: user, limit: 1, window: 1h}
`)

	for _, step := range []struct{ rule, body, want string }{
		{"per-user", `{"key": "u"}`, `"allowed":true`},
		{"per-user", `{"key": "u"}`, `"allowed":false`},
		{"per-user", `{"key": "u", "class": "test"}`, `"allowed":true`},
		{"per-user", `{"key": "u", "class": "test"}`, `"class":"test"`},
		{"per-user", `{"key": "u", "class": "critical"}`, `"allowed":false`},
		{"per-key", `{"key": "sk_test_1", "cost": 0}`, `"class":"test"`},
		{"per-key", `{"key": "sk_test_1", "class": "write"}`, `"allowed":true`}, // whoever says it has the last word
		{"per-key", `{"key": "sk_test_1"}`, `"allowed":true`},
		{"per-user", `{"key": "u", "class": "urgent"}`, `body.class`},
	} {
		if w := post(door, "/v1/rules/"+step.rule+"/check", step.body); !strings.Contains(w.Body.String(), step.want) {
			t.Errorf("%s %s: %s, want %s", step.rule, step.body, w.Body, step.want)
		}
	}

	// The budget of a test-mode key is that of its real requests.
	w := post(door, "/v1/check", `{"attributes": {"apikey": "sk_test_1", "path": "/k"}}`)
	if !strings.Contains(w.Body.String(), `"allowed":false`) {
		t.Errorf("a real request got %s of a budget that is used up", w.Body)
	}
}

func TestBadQuestionsGetAProblemThatNamesTheField(t *testing.T) {
	door := newDoor(t)
	long := strings.Repeat("x", MaxText+1)

	for _, row := range []struct {
		path, body string
		status     int
		location   string
	}{
		{"/v1/check", `{`, http.StatusBadRequest, "body"},
		{"/v1/check", ``, http.StatusBadRequest, ""},
		{"/v1/check", `[]`, http.StatusUnprocessableEntity, "body"},
		{"/v1/check", `{}`, http.StatusUnprocessableEntity, "body"},
		{"/v1/check", `{"attributes": {}, "cost": -1}`, http.StatusBadRequest, "body.cost"},
		{"/v1/check", `{"attributes": {}, "cost": 1.5}`, http.StatusUnprocessableEntity, "body.cost"},
		{"/v1/check", `{"attributes": {}, "cost": "1"}`, http.StatusUnprocessableEntity, "body.cost"},
		{"/v1/check", `{"attributes": {}, "cost": 9007199254740993}`, http.StatusUnprocessableEntity, "body.cost"},
		{"/v1/check", `{"attributes": {}, "cost": 99999999999999999999}`, http.StatusUnprocessableEntity, "body.cost"},
		{"/v1/check", `{"attributes": {}, "cost": 1e400}`, http.StatusBadRequest, "body"},
		{"/v1/check", `{"attributes": {}, "cots": 1}`, http.StatusUnprocessableEntity, "body.cots"},
		{"/v1/check", `{"attributes": {"usr": "ada"}}`, http.StatusUnprocessableEntity, "body.attributes.usr"},
		{"/v1/check", `{"attributes": {"user": 7}}`, http.StatusUnprocessableEntity, "body.attributes.user"},
		{"/v1/check", `{"attributes": {"ip": "localhost"}}`, http.StatusUnprocessableEntity, "body.attributes.ip"},
		{"/v1/check", `{"attributes": {"ip": "192.0.2.7:80"}}`, http.StatusUnprocessableEntity, "body.attributes.ip"},
		{"/v1/check", `{"attributes": {"path": "http://host/v1"}}`, http.StatusUnprocessableEntity, "body.attributes.path"},
		{"/v1/check", `{"attributes": {"headers": {"X-A": 7}}}`, http.StatusUnprocessableEntity, "body.attributes.headers.X-A"},
		{"/v1/check", `{"attributes": {"headers": {"X-A": "1", "x-a": "2"}}}`, http.StatusUnprocessableEntity, "body.attributes.headers"},
		{"/v1/check", `{"attributes": {"user": "` + long + `"}}`, http.StatusUnprocessableEntity, "body.attributes.user"},
		{"/v1/check", `{"attributes": {"descriptors": {"d": "` + long + `"}}}`, http.StatusUnprocessableEntity, "body.attributes.descriptors"},
		{"/v1/check", `{"attributes": {"domain": "` + long + `"}}`, http.StatusUnprocessableEntity, "body.attributes.domain"},
		{"/v1/check", `{"attributes": {"entries": [{"key": "d", "value": "` + long + `"}]}}`, http.StatusUnprocessableEntity, "body.attributes.entries"},
		{"/v1/check", `{"attributes": {"entries": [{"value": "v"}]}}`, http.StatusUnprocessableEntity, "body.attributes.entries[0]"},
		{"/v1/check", `{"attributes": {"entries": [` + strings.Repeat(`{"key": "k"}, `, MaxEntries) + `{"key": "k"}]}}`, http.StatusUnprocessableEntity, "body.attributes.entries"},
		{"/v1/check", `{"attributes": {"headers": {"X-A": "` + long + `"}}}`, http.StatusUnprocessableEntity, "body.attributes.headers"},
		{"/v1/check", `{"attributes": {"user": "` + strings.Repeat("x", maxBody) + `"}}`, http.StatusRequestEntityTooLarge, ""},
		{"/v1/rules/per-user/check", `{"key": ""}`, http.StatusUnprocessableEntity, "body.key"},
		{"/v1/rules/per-user/check", `{}`, http.StatusUnprocessableEntity, "body"},
		{"/v1/rules/per-user/check", `{"key": "ada", "cost": -1}`, http.StatusBadRequest, "body.cost"},
		{"/v1/rules/per-user/check", `{"key": "` + long + `"}`, http.StatusUnprocessableEntity, "body.key"},
		{"/v1/rules/per-address/check", `{"key": "ada"}`, http.StatusUnprocessableEntity, "body.key"},
		{"/v1/rules/missing/check", `{"key": "ada"}`, http.StatusNotFound, "path.ruleId"},
	} {
		w := post(door, row.path, row.body)

		var problem struct {
			Status int    `json:"status"`
			Detail string `json:"detail"`
			Errors []struct {
				Location string `json:"location"`
				Value    any    `json:"value"`
			} `json:"errors"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.60s: got %v %s, want problem+json: %v", row.path, row.body, w.Header(), w.Body, err)

			continue
		}

		location := ""
		if len(problem.Errors) > 0 {
			location = problem.Errors[0].Location
		}

		if w.Code != row.status || problem.Status != row.status || location != row.location || problem.Detail == "" {
			t.Errorf("%s %.60s: got %d %s, want %d at %s", row.path, row.body, w.Code, w.Body, row.status, row.location)
		}

		if strings.Contains(problem.Detail, "Go struct") || strings.Contains(problem.Detail, "validation failed") ||
			strings.Contains(problem.Detail, "unexpected property") || strings.Contains(problem.Detail, "limit=") ||
			strings.Contains(problem.Detail, "  ") {
			t.Errorf("%s %.60s: %q says nothing to the caller", row.path, row.body, problem.Detail)
		}

		for _, e := range problem.Errors {
			if e.Value != nil {
				t.Errorf("%s %.60s: the problem repeats what was sent: %v", row.path, row.body, e.Value)
			}
		}
	}
}

func TestFormsAreRefusedWithTheHeaderToSend(t *testing.T) {
	req := httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(`{"attributes": {}}`))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded") // what curl -d sends

	w := httptest.NewRecorder()
	newDoor(t).ServeHTTP(w, req)

	if w.Code != http.StatusUnsupportedMediaType || !strings.Contains(w.Body.String(), "Content-Type: application/json") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestDescriptionHasBothRoutes(t *testing.T) {
	w := httptest.NewRecorder()
	newDoor(t).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody))

	var description struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &description); err != nil {
		t.Fatal(err)
	}

	for _, path := range []string{"/v1/check", "/v1/rules/{ruleId}/check"} {
		if description.Paths[path]["post"] == nil {
			t.Errorf("the description lacks %s: %s", path, w.Body)
		}
	}
}

// Whatever is sent, the door answers with one of its statuses, and JSON.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		`{"attributes": {"user": "ada", "path": "/v1/things"}, "cost": 0}`,
		`{"attributes": {"headers": {"X-A": ["1", "2"]}, "descriptors": {"d": "v"}, "ip": "::1"}}`,
		`{"attributes": {"domain": "edge", "entries": [{"key": "k", "value": "v"}, {"key": ""}]}}`,
		`{"attributes": null}`, `null`, `{"attributes": {"user": "\ud800"}, "cost": -0}`, "\xff",
	} {
		f.Add(seed)
	}

	limiter, err := leaseway.Embedded(mustParse(f, rules))
	if err != nil {
		f.Fatal(err)
	}

	f.Cleanup(func() { _ = limiter.Close(context.Background()) })

	mux := http.NewServeMux()
	New(limiter).Register(rest.New(mux, "v0.0.0"))

	f.Fuzz(func(t *testing.T, body string) {
		w := post(mux, "/v1/check", body)
		if w.Code != http.StatusOK && (w.Code < 400 || w.Code >= 500) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q: got %d %s", body, w.Code, w.Body)
		}
	})
}

func mustParse(tb testing.TB, document string) *rule.Set {
	tb.Helper()

	set, err := rule.Parse("rules", []byte(document))
	if err != nil {
		tb.Fatal(err)
	}

	return set
}
