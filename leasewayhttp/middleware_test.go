package leasewayhttp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// verdict decides every request alike, and keeps the last one to look at.
type verdict struct {
	decision leaseway.Decision
	set      *rule.Set
	asked    int
	refunds  int
	last     leaseway.Request
}

func (v *verdict) Decide(_ context.Context, req leaseway.Request) leaseway.Decision {
	v.asked++
	v.last = req
	return v.decision
}

func (v *verdict) Rules() *rule.Set { return v.set }

func (v *verdict) Refund(leaseway.Decision) { v.refunds++ }

func (*verdict) Done(leaseway.Decision) {}

func (*verdict) TimeIn(d time.Duration) time.Time { return time.Now().Add(d) }

// broken panics, as a bug would make it.
type broken struct{ inRules bool }

func (b broken) Decide(context.Context, leaseway.Request) leaseway.Decision { panic("a bug in Decide") }

func (broken) TimeIn(time.Duration) time.Time { panic("a bug in TimeIn") }

func (b broken) Refund(leaseway.Decision) { panic("a bug in Refund") }

func (b broken) Done(leaseway.Decision) { panic("a bug in Done") }

func (b broken) Rules() *rule.Set {
	if b.inRules {
		panic("a bug in Rules")
	}
	return nil
}

func allowed() leaseway.Decision {
	return leaseway.Decision{
		Allowed: true, Origin: leaseway.OriginLease,
		Rule: "search", Limit: 150, Remaining: 149, Reset: 600 * time.Millisecond, Quota: 100, Window: time.Minute,
	}
}

func overLimit() leaseway.Decision {
	return leaseway.Decision{
		Reason: leaseway.ReasonOverLimit, Origin: leaseway.OriginLease,
		Rule: "search", Limit: 150, Remaining: 0, Reset: 90 * time.Second, RetryAfter: 4200 * time.Millisecond,
		Quota: 100, Window: time.Minute,
	}
}

// serve sends one request through a middleware to a handler that answers 204.
func serve(m *Middleware, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })).ServeHTTP(w, r)
	return w
}

func get(target string) *http.Request {
	return httptest.NewRequest(http.MethodGet, target, http.NoBody)
}

func mustParse(t *testing.T, document string) *rule.Set {
	t.Helper()
	set, err := rule.Parse("rules.yaml", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestAllowedRequestsAreServed(t *testing.T) {
	v := &verdict{decision: allowed()}
	w := serve(newMiddleware(v, nil), get("/v1/search"))
	if w.Code != http.StatusNoContent || v.asked != 1 {
		t.Errorf("status %d after %d decisions, want 204 after 1", w.Code, v.asked)
	}
}

func TestFieldsAreSetBeforeTheHandlerRuns(t *testing.T) {
	m := newMiddleware(&verdict{decision: allowed()}, nil)
	ran := false
	m.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		ran = true
		if got := w.Header().Get("X-Ratelimit-Remaining"); got != "149" {
			t.Errorf("X-RateLimit-Remaining is %q in the handler, want 149", got)
		}
	})).ServeHTTP(httptest.NewRecorder(), get("/"))
	if !ran {
		t.Error("the handler did not run")
	}
}

func TestRefusedRequestsDoNotReachTheHandler(t *testing.T) {
	m := newMiddleware(&verdict{decision: overLimit()}, nil)
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })).ServeHTTP(w, get("/"))
	if w.Code != http.StatusTooManyRequests {
		t.Errorf("status %d, want 429", w.Code)
	}
}

func TestExemptPathsAreComparedWhole(t *testing.T) {
	for _, c := range []struct {
		target string
		opts   []Option
		free   bool
	}{
		{"/healthz", nil, true},
		{"/readyz", nil, true},
		{"/livez", nil, true},
		{"/healthz?full=1", nil, true},
		{"/healthz-admin", nil, false},
		{"/healthz/", nil, false},
		{"/healthz/x", nil, false},
		{"/v1/healthz", nil, false},
		{"/Healthz", nil, false},
		{"/metrics", nil, false},
		{"/ping", []Option{WithExempt("/ping")}, true},
		{"/healthz", []Option{WithExempt("/ping")}, false},
		{"/healthz", []Option{WithExempt()}, false},
	} {
		v := &verdict{decision: overLimit()}
		w := serve(newMiddleware(v, c.opts), get(c.target))
		if free := v.asked == 0; free != c.free || (w.Code == http.StatusNoContent) != c.free {
			t.Errorf("%s: free %v, status %d; want free %v", c.target, free, w.Code, c.free)
		}
		if c.free && len(w.Header()) != 0 {
			t.Errorf("%s: fields %v on a response that no rule matched", c.target, w.Header())
		}
	}
}

func TestAttributes(t *testing.T) {
	const document = `
rules: [{id: r, scope: /v1/**, limit: 1, window: 1s}]
identity:
  apikey: [X-API-Key, bearer]
  user: {header: x-user, trusted: true}
`
	r := httptest.NewRequest(http.MethodPost, "http://api.example.com/v1/a%2Fb//c?x=1", http.NoBody)
	r.RemoteAddr = "10.0.0.2:4000"
	r.Header.Set("X-Forwarded-For", "203.0.113.5")
	r.Header.Set("X-User", "u1")
	r.Header.Set("X-Api-Key", "k1")
	v := &verdict{decision: allowed(), set: mustParse(t, document)}
	serve(newMiddleware(v, []Option{WithTrustedProxies(netip.MustParsePrefix("10.0.0.0/8"))}), r)

	got := v.last
	if got.Method != http.MethodPost || got.Host != "api.example.com" || got.Path != "/v1/a%2Fb//c" || got.Cost != 0 || got.Peek {
		t.Errorf("the request is %+v", got)
	}
	if got.IP != netip.MustParseAddr("203.0.113.5") || got.User != "u1" || got.APIKey != "k1" {
		t.Errorf("the caller is %v, user %q, key %q", got.IP, got.User, got.APIKey)
	}
	if values := got.Headers["X-User"]; len(values) != 1 || values[0] != "u1" {
		t.Errorf("header fields are %v", got.Headers)
	}
}

func TestIdentity(t *testing.T) {
	keys := []rule.Credential{{Header: "X-Api-Key"}, {Bearer: true}}
	for _, c := range []struct {
		name   string
		header http.Header
		want   string
	}{
		{"none", http.Header{}, ""},
		{"a header", http.Header{"X-Api-Key": {"k"}}, "k"},
		{"the first place wins", http.Header{"Authorization": {"Bearer t"}, "X-Api-Key": {"k"}}, "k"},
		{"an empty header counts as absent", http.Header{"Authorization": {"Bearer t"}, "X-Api-Key": {""}}, "t"},
		{"sent twice: the first, as handlers read it", http.Header{"X-Api-Key": {"k", "l"}}, "k"},
		{"a comma is part of it", http.Header{"X-Api-Key": {"a,b"}}, "a,b"},
		{"a scheme in any case", http.Header{"Authorization": {"bEaReR t"}}, "t"},
		{"several spaces", http.Header{"Authorization": {"Bearer   t "}}, "t"},
		{"another scheme", http.Header{"Authorization": {"Basic dTpw"}}, ""},
		{"a scheme that only begins so", http.Header{"Authorization": {"Bearers t"}}, ""},
		{"no token", http.Header{"Authorization": {"Bearer"}}, ""},
		{"no token but a space", http.Header{"Authorization": {"Bearer "}}, ""},
		{"64 KiB", http.Header{"X-Api-Key": {strings.Repeat("k", 64<<10)}}, strings.Repeat("k", 64<<10)},
	} {
		if got := apiKey(c.header, keys); got != c.want {
			t.Errorf("%s: %.20q, want %.20q", c.name, got, c.want)
		}
	}
}

// Unless the document says that every peer may name the user, only a trusted proxy may.
func TestUserIsBelievedFromTrustedPeersOnly(t *testing.T) {
	for _, c := range []struct {
		source   rule.UserSource
		viaProxy bool
		want     string
	}{
		{rule.UserSource{Header: "X-User", Trusted: true}, false, "u1"},
		{rule.UserSource{Header: "X-User"}, false, ""},
		{rule.UserSource{Header: "X-User"}, true, "u1"},
		{rule.UserSource{}, true, ""},
	} {
		if got := user(http.Header{"X-User": {"u1"}}, c.source, c.viaProxy); got != c.want {
			t.Errorf("%+v, behind a trusted proxy %v: %q, want %q", c.source, c.viaProxy, got, c.want)
		}
	}
}

func TestWithIdentityReplacesTheDocuments(t *testing.T) {
	v := &verdict{decision: allowed(), set: mustParse(t, "rules: [{id: r, limit: 1, window: 1s}]")}
	own := rule.Identity{APIKey: []rule.Credential{{Header: "x-token"}}, User: rule.UserSource{Header: "x-name", Trusted: true}}
	r := get("/")
	r.Header.Set("X-Token", "t")
	r.Header.Set("X-Api-Key", "k")
	r.Header.Set("X-Name", "n")
	serve(newMiddleware(v, []Option{WithIdentity(own)}), r)
	if v.last.APIKey != "t" || v.last.User != "n" {
		t.Errorf("key %q, user %q; want t and n", v.last.APIKey, v.last.User)
	}
}

// It also sees what no rule reads.
func TestWithAttributesHasTheLastWord(t *testing.T) {
	v := &verdict{decision: allowed(), set: mustParse(t, "rules: [{id: r, limit: 1, window: 1s}]")}
	serve(newMiddleware(v, []Option{WithAttributes(func(r *http.Request, req *leaseway.Request) {
		req.User, req.Cost = r.URL.Query().Get("u"), 7
	})}), get("/?u=u9"))
	if v.last.User != "u9" || v.last.Cost != 7 || v.last.Path != "/" {
		t.Errorf("the request is %+v", v.last)
	}
}

func TestPanicsOfTheLimiterServeTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		limiter decider
		opts    []Option
	}{
		"Decide": {broken{}, nil},
		"Rules":  {broken{inRules: true}, nil},
		"an option": {&verdict{decision: overLimit()}, []Option{
			WithAttributes(func(*http.Request, *leaseway.Request) { panic("a bug in the caller's code") }),
		}},
	} {
		m := newMiddleware(c.limiter, c.opts)
		for range 2 {
			if w := serve(m, get("/")); w.Code != http.StatusNoContent {
				t.Errorf("%s: status %d, want 204", name, w.Code)
			}
		}
		if got := m.Stats().Panics; got != 2 {
			t.Errorf("%s: %d panics counted, want 2", name, got)
		}
	}
}

func TestPanicsAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := newMiddleware(broken{}, []Option{WithLogger(slog.New(slog.NewTextHandler(&log, nil)))})
		lines := func() int { return strings.Count(log.String(), "level=ERROR") }
		r := get("/secret-path")
		r.Header.Set("X-Api-Key", "secret-key")
		for range 10 {
			serve(m, r)
		}
		if lines() != 1 {
			t.Errorf("%d lines for 10 panics at once, want 1", lines())
		}
		time.Sleep(time.Minute)
		serve(m, r)
		if lines() != 2 {
			t.Errorf("%d lines a minute later, want 2", lines())
		}
		if got := log.String(); strings.Contains(got, "secret") || !strings.Contains(got, "a bug in Decide") {
			t.Errorf("the log should have the panic and nothing of the request: %s", got)
		}
	})
}

func TestPanicsOfTheHandlerAreItsOwn(t *testing.T) {
	m := newMiddleware(&verdict{decision: allowed()}, nil)
	h := m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("recovered %v, want http.ErrAbortHandler", err)
		}
		if got := m.Stats().Panics; got != 0 {
			t.Errorf("%d panics counted that are not the limiter's", got)
		}
	}()
	h.ServeHTTP(httptest.NewRecorder(), get("/"))
}

// Callers at once, under more policies than are kept: each gets its own numbers.
func TestCallersAtOnce(t *testing.T) {
	m := newMiddleware(echo{}, nil)
	h := m.Handler(http.NotFoundHandler())
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for i := range maxPolicies {
				limit := strconv.Itoa(caller*maxPolicies/2 + i)
				r := get("/")
				r.Host = limit
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if got := w.Header().Get("Ratelimit-Policy"); got != `"r";q=`+limit+`;w=1` {
					t.Errorf("RateLimit-Policy is %s, want q=%s", got, limit)
					return
				}
			}
		})
	}
	callers.Wait()
}

// echo allows every request, under the limit that its host names.
type echo struct{}

func (echo) Rules() *rule.Set { return nil }

func (echo) Refund(leaseway.Decision) {}

func (echo) Done(leaseway.Decision) {}

func (echo) TimeIn(d time.Duration) time.Time { return time.Now().Add(d) }

func (echo) Decide(_ context.Context, req leaseway.Request) leaseway.Decision {
	limit, err := strconv.ParseInt(req.Host, 10, 64)
	return leaseway.Decision{Allowed: err == nil, Rule: "r", Limit: limit, Quota: limit, Window: time.Second}
}
