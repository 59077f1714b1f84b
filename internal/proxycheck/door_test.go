package proxycheck

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The rules of these tests: windows so long that nothing comes back while they run.
const rules = `
rules:
  - {id: per-address, scope: {paths: [/v1/addresses], methods: [GET]}, keyBy: ip, limit: 2, window: 1h}
  - {id: per-key, scope: /v1/keys, keyBy: apikey, limit: 1, window: 1h}
  - {id: host, scope: {hosts: [api.example.com], paths: [/v1/host]}, limit: 1, window: 1h}
  - {id: odd, scope: "/v1/odd/**", limit: 1, window: 1h}
  - {id: own-token, scope: /v1/token, keyBy: header:X-Leaseway-Token, missing: skip, limit: 1, window: 1h}
  - {id: closed, scope: /v1/closed, block: true}
  - {id: kinds, scope: /v1/kinds, limit: 2, window: 60s}
  - {id: slow, scope: /v1/slow, algorithm: leaky_bucket, limit: 1, window: 10s, burst: 5}
  - {id: in-flight, scope: /v1/in-flight, algorithm: concurrency, limit: 1}
`

// proxy is one of the proxies, as its documentation has it ask.
type proxy struct {
	door    *Door
	profile string
}

func newDoor(t *testing.T) *Door {
	t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}

	limiter, err := leaseway.Embedded(set)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := limiter.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})

	return New(Config{Limiter: limiter, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}})
}

// asks sends what the proxy would ask about a client's request. More are fields, each a line such as "X-Api-Key: k".
func (p *proxy) asks(t *testing.T, method, uri string, more ...string) *httptest.ResponseRecorder {
	t.Helper()

	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/check?profile="+p.profile, http.NoBody)
	r.RemoteAddr = "10.0.0.1:5000"
	r.Header.Set("X-Forwarded-For", "192.0.2.1")
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set("X-Forwarded-Host", "api.example.com")

	if p.profile == "nginx" {
		r.Header.Set("X-Original-Method", method)
		r.Header.Set("X-Original-Uri", uri)
	} else {
		r.Header.Set("X-Forwarded-Method", method)
		r.Header.Set("X-Forwarded-Uri", uri)
	}

	for _, line := range more {
		name, value, _ := strings.Cut(line, ": ")
		if name == "peer" {
			r.RemoteAddr = value
		} else {
			r.Header.Set(name, value)
		}
	}

	w := httptest.NewRecorder()
	p.door.ServeHTTP(w, r)

	return w
}

// each is every proxy, before a door of its own.
func each(t *testing.T) []*proxy {
	t.Helper()

	var all []*proxy
	for _, name := range []string{"nginx", "caddy", "traefik", "haproxy"} {
		all = append(all, &proxy{door: newDoor(t), profile: name})
	}

	return all
}

// told is the status that reaches the client, and the problem it gets.
func told(t *testing.T, w *httptest.ResponseRecorder) (status string, problem map[string]any) {
	t.Helper()

	text := w.Body.String()
	status = map[int]string{204: "", 400: "400", 403: "403", 429: "429", 503: "503"}[w.Code]

	if own := w.Header().Get("X-Leaseway-Status"); own != "" {
		status, text = own, w.Header().Get("X-Leaseway-Problem")
		if w.Code != http.StatusForbidden || w.Body.Len() > 0 {
			t.Errorf("a refusal for nginx has status %d and the body %q, want 403 without one", w.Code, w.Body)
		}
	}

	if text != "" {
		if err := json.Unmarshal([]byte(text), &problem); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}

	return status, problem
}

func TestRefusalsSayAllThatClientsAreTold(t *testing.T) {
	t.Parallel()
	for _, p := range each(t) {
		for range 2 {
			if w := p.asks(t, "GET", "/v1/addresses?q=1"); w.Code != http.StatusNoContent || w.Header().Get("Ratelimit") == "" {
				t.Fatalf("%s: allowed: status %d, fields %v", p.profile, w.Code, w.Header())
			}
		}

		w := p.asks(t, "GET", "/v1/addresses?q=2")

		status, problem := told(t, w)
		if status != "429" || problem["rule"] != "per-address" || problem["status"] != 429.0 {
			t.Errorf("%s: refused: status %s, problem %v", p.profile, status, problem)
		}

		h := w.Header()
		if h.Get("Retry-After") == "" || h.Get("Ratelimit") == "" || h.Get("Ratelimit-Policy") == "" || h.Get("X-Ratelimit-Limit") != "2" {
			t.Errorf("%s: refused without all fields: %v", p.profile, h)
		}

		// It is the request's own method and address that count.
		if w := p.asks(t, "POST", "/v1/addresses"); w.Code != http.StatusNoContent {
			t.Errorf("%s: another method: status %d", p.profile, w.Code)
		}

		if w := p.asks(t, "GET", "/v1/addresses", "X-Forwarded-For: 192.0.2.1, 192.0.2.2"); w.Code != http.StatusNoContent {
			t.Errorf("%s: another client: status %d", p.profile, w.Code)
		}

		if w := p.asks(t, "GET", "/v1/addresses", "X-Forwarded-For: 203.0.113.9, 192.0.2.1, fd00::7"); w.Code == http.StatusNoContent {
			t.Error(p.profile + ": a client escapes its limit by what it claims to the left of its address")
		}
	}
}

func TestRequestsArePutTogetherAgain(t *testing.T) {
	t.Parallel()
	for _, p := range each(t) {
		for _, row := range []struct{ uri, field string }{
			{"/v1/keys", "Authorization: Bearer k1"},
			{"/v1/keys", "X-Api-Key: k2"},
			{"/v1/host", "Host: 10.0.0.9:8080"},
			{"/v1/odd/%zz?%zz", "X-Any: 1"}, // a bad escape is counted, whoever serves it
			{"http://api.example.com/v1/odd/absolute", "X-Any: 1"},
		} {
			first := p.asks(t, "POST", row.uri, row.field)
			second, _ := told(t, p.asks(t, "POST", row.uri, row.field))

			want := http.StatusNoContent
			if row.uri == "http://api.example.com/v1/odd/absolute" {
				want = first.Code // it shares the budget of the row before
			}

			if first.Code != want || second != "429" {
				t.Errorf("%s: %s with %s: status %d and then %q, want 204 and then 429", p.profile, row.uri, row.field, first.Code, second)
			}
		}

		if w := p.asks(t, "OPTIONS", "*"); w.Code != http.StatusNoContent {
			t.Errorf("%s: OPTIONS *: status %d", p.profile, w.Code)
		}

		if status, _ := told(t, p.asks(t, "GET", "/v1/closed")); status != "429" {
			t.Errorf("%s: a blocked request: status %s", p.profile, status)
		}
	}
}

// A proxy is answered about a request of any kind as about any other.
func TestRequestsOfEveryKindAreRefusedAlike(t *testing.T) {
	t.Parallel()

	upgrade := []string{"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}

	for _, row := range []struct {
		method string
		fields []string
	}{
		{http.MethodGet, nil}, {http.MethodHead, nil}, {http.MethodPost, []string{"Content-Length: 3000", "Content-Type: text/plain"}}, {http.MethodGet, upgrade},
	} {
		for _, p := range each(t) {
			for i, want := range []string{"", "", "429"} {
				w := p.asks(t, row.method, "/v1/kinds", row.fields...)
				status, problem := told(t, w)

				if row.method == http.MethodHead && problem == nil {
					problem = map[string]any{"rule": "kinds"} // such an answer has no body
				}

				if status != want || want != "" && (problem["rule"] != "kinds" || w.Header().Get("Retry-After") == "") {
					t.Errorf("%s, %s with %v: request %d has status %q, fields %v", p.profile, row.method, row.fields, i, status, w.Header())
				}
			}
		}
	}
}

// A browser asks before the request itself, at no cost to it.
func TestPreflightsAreFree(t *testing.T) {
	t.Parallel()

	for _, p := range each(t) {
		for i, want := range []string{"", "", "429"} {
			for range 5 {
				w := p.asks(t, "OPTIONS", "/v1/kinds", "Origin: https://app.example.com", "Access-Control-Request-Method: GET")
				if w.Code != http.StatusNoContent || w.Header().Get("Ratelimit") != "" {
					t.Errorf("%s: a preflight: status %d, fields %v", p.profile, w.Code, w.Header())
				}
			}

			if status, _ := told(t, p.asks(t, "GET", "/v1/kinds", "Origin: https://app.example.com")); status != want {
				t.Errorf("%s: request %d has status %q, want %q", p.profile, i, status, want)
			}
		}
	}
}

// What a client sends under the name of a field that its proxy does not set must not stand for the request.
func TestFieldsOfOtherProxiesMeanNothing(t *testing.T) {
	t.Parallel()
	for _, p := range each(t) {
		others := []string{"X-Original-Uri: /free", "X-Original-Url: http://h/free", "X-Original-Method: PUT"}
		if p.profile == "nginx" {
			others = []string{"X-Forwarded-Uri: /free", "X-Forwarded-Method: PUT", "X-Original-Url: http://h/free"}
		}

		for range 2 {
			p.asks(t, "GET", "/v1/addresses", others...)
		}

		if status, _ := told(t, p.asks(t, "GET", "/v1/addresses", others...)); status != "429" {
			t.Errorf("%s: the third request has status %q, want 429", p.profile, status)
		}
	}
}

func TestTokensOfProxiesAreNoKeys(t *testing.T) {
	t.Parallel()
	for _, p := range each(t) {
		for range 3 {
			if w := p.asks(t, "GET", "/v1/token", TokenField+": secret"); w.Code != http.StatusNoContent {
				t.Errorf("%s: status %d: a rule counts by the token of the proxy", p.profile, w.Code)
			}
		}
	}
}

func TestWhoIsNotSetUpRightIsToldSo(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		profile, uri string
		fields       []string
		status       int
		says         string
	}{
		{"caddy", "/v1/x", []string{"peer: 192.0.2.7:1"}, http.StatusForbidden, "--trusted-proxies"},
		{"caddy", "/v1/x", []string{"peer: @"}, http.StatusForbidden, "--trusted-proxies"},
		{"caddy", "", nil, http.StatusBadRequest, "X-Forwarded-Uri"},
		{"nginx", "", nil, http.StatusBadRequest, "X-Original-Uri"},
		{"caddy", "/v1/x", []string{"X-Forwarded-Method: "}, http.StatusBadRequest, "X-Forwarded-Method"},
		{"caddy", "/" + strings.Repeat("x", 64<<10), nil, http.StatusBadRequest, "longer"},
		{"squid", "/v1/x", nil, http.StatusBadRequest, "nginx, caddy, traefik"},
		{"nginx&accel=app", "/v1/x", nil, http.StatusBadRequest, "accel"},
		{"nginx&accel=@a%0d%0a", "/v1/x", nil, http.StatusBadRequest, "accel"},
	} {
		p := &proxy{door: newDoor(t), profile: row.profile}
		w := p.asks(t, "GET", row.uri, append(row.fields, "X-Original-Uri: "+row.uri, "X-Original-Method: GET")...)

		var problem struct {
			Detail string `json:"detail"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != row.status || !strings.Contains(problem.Detail, row.says) {
			t.Errorf("%s %.20s %v: status %d and %q, want %d and a word of %s", row.profile, row.uri, row.fields, w.Code, w.Body, row.status, row.says)
		}
	}
}

func TestAccelSendsNginxOn(t *testing.T) {
	t.Parallel()

	p := &proxy{door: newDoor(t), profile: "nginx&accel=@app"}
	more := []string{"X-Original-Uri: /v1/keys", "X-Original-Method: POST", "X-Api-Key: k"}

	allowed := p.asks(t, "POST", "/v1/keys", more...)
	if allowed.Code != http.StatusOK || allowed.Header().Get("X-Accel-Redirect") != "@app" {
		t.Errorf("allowed: status %d, fields %v", allowed.Code, allowed.Header())
	}

	// nginx adds these to what the API says, so that nothing could be cached.
	for _, name := range []string{"Cache-Control", "Content-Type", "Expires", "Set-Cookie"} {
		if got := allowed.Header().Values(name); got != nil {
			t.Errorf("allowed, with %s %q for the API's answer", name, got)
		}
	}

	refused := p.asks(t, "POST", "/v1/keys", more...)
	if refused.Code != http.StatusTooManyRequests || refused.Header().Get("X-Accel-Redirect") != "" || refused.Body.Len() == 0 {
		t.Errorf("refused: status %d, fields %v", refused.Code, refused.Header())
	}
}

// What a query says is what net/url says of it.
func FuzzParameter(f *testing.F) {
	for _, seed := range []string{
		"profile=nginx", "accel=@app&profile=nginx", "profile", "profile=a&profile=b", "profile=a;b&profile=c", "pro%66ile=%6eginx",
		"profile=%zz&profile=x+y", "%zz=1&profile=", "&&=&profile=a=b",
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, query string) {
		if strings.Count(query, "&") > 1000 {
			return // net/url reads none of so many
		}

		values, _ := url.ParseQuery(query)

		for _, name := range []string{"profile", "accel"} {
			if value, ok := parameter(query, name); ok != values.Has(name) || value != values.Get(name) {
				t.Errorf("%q: %s is %q, %t, and net/url says %q", query, name, value, ok, values[name])
			}
		}
	})
}

// A proxy does not wait for long, and goes on without an answer if it is set up so.
func TestLongDelaysAreRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &proxy{door: newDoor(t), profile: "caddy"}
		if w := p.asks(t, "GET", "/v1/slow"); w.Code != http.StatusNoContent {
			t.Errorf("the first request has status %d", w.Code)
		}

		w := p.asks(t, "GET", "/v1/slow")
		if _, problem := told(t, w); w.Code != http.StatusTooManyRequests || problem["reason"] != "delayed" {
			t.Errorf("the second, held for 10 s, has status %d and the problem %v", w.Code, problem)
		}
	})
}

// Nobody says here when a request ends, so it is in flight for the check alone.
func TestSlotsComeBackAtOnce(t *testing.T) {
	t.Parallel()
	for _, p := range each(t) {
		for i := range 3 {
			if w := p.asks(t, "GET", "/v1/in-flight"); w.Code != http.StatusNoContent {
				t.Errorf("%s: request %d: status %d", p.profile, i, w.Code)
			}
		}
	}
}
