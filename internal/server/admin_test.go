package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// at is r as it is reached at another address.
func (r *running) at(address string) *running {
	return &running{HTTP: address, Log: r.Log, scheme: r.scheme, client: r.client, token: r.token}
}

// expected is a status, and a part of the body.
type expected struct {
	status int
	part   string
}

// want calls and fails unless that comes.
func (r *running) want(t *testing.T, call, body string, want expected) string {
	t.Helper()

	method, path, _ := strings.Cut(call, " ")

	got := r.call(t, method, path, body)
	if got.status != want.status || !strings.Contains(got.body, want.part) {
		t.Errorf("%s: got %d %.500s, want %d with %q", call, got.status, got.body, want.status, want.part)
	}

	return got.body
}

const oneRule = `{"limit": 3, "windowSec": 3600, "keyBy": "user", "scope": "/v1/things"}`

// A rule that is put is in force, is listed, shows what a key has left, and can be undone.
func TestRulesAreChangedOverHTTP(t *testing.T) {
	r := start(t)
	r.want(t, "PUT /admin/rules/things", oneRule, expected{http.StatusOK, `"version"`})
	eventually(t, "the rule decides", func() bool { return r.limit(t) == "3" })

	if got := r.admitted(t, 2, things("ada", 1)); got != 2 {
		t.Fatalf("%d of 2 admitted", got)
	}

	r.want(t, "GET /v1/limits?key=ada", "", expected{http.StatusOK, `"rule":"things","key":"ada"`})
	r.want(t, "GET /v1/limits?key=ada", "", expected{http.StatusOK, `"remaining":1`})
	r.want(t, "POST /admin/rules/things/reset", `{"key": "ada"}`, expected{http.StatusOK, `"remaining":3`})
	r.want(t, "GET /admin/instances", "", expected{http.StatusOK, `"behind":0`})
	r.want(t, "PUT /admin/rules/things", `{"limit": -1}`, expected{http.StatusUnprocessableEntity, "limit"})
	r.want(t, "PUT /admin/switches/rule:things", `{"reason": "incident"}`, expected{http.StatusOK, `"version"`})
	eventually(t, "the switch is thrown", func() bool { return r.metric(t, `leaseway_switched_off{rule="things"}`) == "1" })
	eventually(t, "the log says so", func() bool {
		return r.logged("switched off by a kill switch, and decides nothing", "what") == "rule:things"
	})
	r.want(t, "DELETE /admin/switches/rule:things", "", expected{http.StatusOK, `"version"`})
	eventually(t, "it is on again", func() bool { return r.limit(t) == "3" })
	r.want(t, "GET /admin/audit", "", expected{http.StatusOK, `"author":"loopback"`})
	r.want(t, "GET /admin/nothing", "", expected{http.StatusNotFound, "openapi.json"})
	r.want(t, "PATCH /admin/audit", "{}", expected{http.StatusMethodNotAllowed, "GET"})
}

// Rules of a file are shown, and not changed.
func TestRulesOfAFileAreShown(t *testing.T) {
	path := file(t, thingsRules)
	r := start(t, "--rules", path)
	r.want(t, "GET /admin/rules/things", "", expected{http.StatusOK, `"limit":100`})
	r.want(t, "PUT /admin/rules/things", oneRule, expected{http.StatusConflict, path})
	r.want(t, "GET /v1/limits?key=ada", "", expected{http.StatusOK, `"remaining":100`})
}

// People have a listener of their own, if it is asked for.
func TestTheAdminDoorApart(t *testing.T) {
	r := start(t, "--admin-listen", "127.0.0.1:0")
	people := r.at(r.logged("listening", "admin"))

	people.want(t, "PUT /admin/rules/things", oneRule, expected{http.StatusOK, `"version"`})
	people.want(t, "GET /metrics", "", expected{http.StatusOK, "leaseway_build_info"})
	people.want(t, "GET /debug/pprof/goroutine?debug=1", "", expected{http.StatusOK, "goroutine profile"})
	people.want(t, "GET /openapi.json", "", expected{http.StatusOK, "/admin/rules"})
	people.want(t, "GET /readyz", "", expected{http.StatusOK, "ready"})
	people.want(t, "POST /v1/check", `{"attributes": {}}`, expected{http.StatusNotFound, ""})
	r.want(t, "GET /admin/rules", "", expected{http.StatusNotFound, ""})
	r.want(t, "GET /metrics", "", expected{http.StatusNotFound, ""})
	r.want(t, "GET /debug/pprof/", "", expected{http.StatusNotFound, ""})
}

// A coordinator that starts while its rule store is out of reach lets in whom it let in before, and nobody else.
func TestTokensOutlastAStartWithoutTheStore(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(t.TempDir(), "store", "rules.db")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))

	kept := filepath.Join(dir, "coordinator", "settings.json")
	args := []string{"--rule-store", "sqlite:" + path, "--rules-seed", file(t, thingsRules), "--data-dir", dir}
	r := start(t, args...)
	r.token = r.newToken(t, "admin")
	people, holder := r.token, r.newToken(t, "holder")
	r.want(t, "PUT /admin/settings/requireHolderToken?force=true", "true", expected{http.StatusOK, `"version"`})
	_, id, _ := strings.Cut(holder, "_")
	id, _, _ = strings.Cut(id, "_")
	eventually(t, "both are known and kept, and that one is required", func() bool {
		text, err := os.ReadFile(kept)

		return err == nil && strings.Contains(string(text), id) && strings.Contains(string(text), `"requireHolderToken":true`)
	})
	must(t, r.end(t))

	must(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".away"))
	must(t, os.WriteFile(filepath.Dir(path), nil, 0o600))

	for _, settings := range []bool{true, false} {
		if !settings { // as an older release left it
			must(t, os.Remove(kept))
		}

		r = start(t, args...)
		r.want(t, "POST /v1/check", things("ada", 0), expected{http.StatusUnauthorized, ""})

		managed, checked := http.StatusUnauthorized, http.StatusOK
		if !settings { // who may call is not known then
			managed, checked = http.StatusServiceUnavailable, http.StatusUnauthorized
		}

		r.want(t, "GET /admin/rules", "", expected{managed, ""})

		r.token = holder
		r.want(t, "POST /v1/check", things("ada", 0), expected{checked, ""})

		if r.token = people; settings {
			r.want(t, "GET /admin/rules", "", expected{http.StatusOK, "things"})
			r.want(t, "PUT /admin/rules/things", oneRule, expected{http.StatusServiceUnavailable, "rule store"})
		}

		must(t, r.end(t))
	}
}

// Tokens for holders that the store keeps admit to the doors of services, and to no other.
func TestTokensOfTheStore(t *testing.T) {
	r := start(t, "--rules-seed", file(t, thingsRules))
	r.token = r.newToken(t, "admin")
	holder := r.newToken(t, "holder")
	r.want(t, "PUT /admin/settings/requireHolderToken?force=true", "true", expected{http.StatusOK, `"version"`})

	people := r.token
	r.want(t, "GET /admin/rules", "", expected{http.StatusOK, "things"})

	r.token = ""
	r.want(t, "GET /admin/rules", "", expected{http.StatusUnauthorized, "token"})
	eventually(t, "checks ask for a token", func() bool {
		return r.call(t, http.MethodPost, "/v1/check", things("ada", 0)).status == http.StatusUnauthorized
	})

	r.token = holder
	r.want(t, "POST /v1/check", things("ada", 0), expected{http.StatusOK, `"allowed":true`})
	r.want(t, "GET /v1/limits?key=ada", "", expected{http.StatusOK, `"remaining"`})
	r.want(t, "GET /admin/rules", "", expected{http.StatusForbidden, ""})

	conn := r.dial(t, nil)

	for shown, want := range map[string]codes.Code{"": codes.Unauthenticated, people: codes.Unauthenticated, holder: codes.OK} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+shown)
		if _, err := leasewayv1.NewCheckServiceClient(conn).Check(ctx, &leasewayv1.CheckRequest{}); status.Code(err) != want {
			t.Errorf("Check over gRPC with %.8q: %v, want %v", shown, err, want)
		}
	}

	r.token = people
	r.want(t, "GET /admin/tokens", "", expected{http.StatusOK, "holder"})
}

// Who lowers a limit below what somebody uses is told so, and by how much; who lowers it to what is enough, is not.
func TestALimitBelowWhatIsUsedIsWarnedOf(t *testing.T) {
	r := start(t)
	lowered := func(limit string) string {
		body := strings.Replace(oneRule, `"limit": 3`, `"limit": `+limit, 1)

		return r.want(t, "PUT /admin/rules/things?dryRun=true", body, expected{http.StatusOK, `"warnings"`})
	}

	r.want(t, "PUT /admin/rules/things", strings.Replace(oneRule, "3", "1000", 1), expected{http.StatusOK, `"version"`})
	eventually(t, "the rule decides", func() bool { return r.limit(t) == "1000" })

	if got := lowered("20"); strings.Contains(got, "lately") {
		t.Errorf("a rule that nobody used yet: %s", got)
	}

	if got := r.admitted(t, 60, things("ada", 1)); got != 60 {
		t.Fatalf("%d of 60 admitted", got)
	}

	eventually(t, "what was spent is heard of", func() bool { return strings.Contains(lowered("20"), "a key used 60 tokens in 1h0m0s lately") })

	if got := lowered("60"); strings.Contains(got, "lately") {
		t.Errorf("what is used is enough: %s", got)
	}
}
