package leasewayhttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestPreflightsAreFree(t *testing.T) {
	const origin, method = "Origin", "Access-Control-Request-Method"
	for _, c := range []struct {
		name   string
		method string
		fields map[string]string
		free   bool
	}{
		{"a preflight", "OPTIONS", map[string]string{origin: "https://app.example.com", method: "GET"}, true},
		{"a plain OPTIONS", "OPTIONS", nil, false},
		{"OPTIONS of another origin that asks nothing", "OPTIONS", map[string]string{origin: "https://app.example.com"}, false},
		{"OPTIONS without an origin", "OPTIONS", map[string]string{method: "GET"}, false},
		{"another method with a preflight's fields", "POST", map[string]string{origin: "https://app.example.com", method: "GET"}, false},
	} {
		v := &verdict{decision: overLimit()}
		r := httptest.NewRequest(c.method, "/", http.NoBody)
		for name, value := range c.fields {
			r.Header.Set(name, value)
		}
		w := serve(newMiddleware(v, nil), r)
		if free := v.asked == 0; free != c.free || (w.Code == http.StatusNoContent) != c.free {
			t.Errorf("%s: free %v, status %d; want free %v", c.name, free, w.Code, c.free)
		}
	}
}

func TestPagesCanReadRefusals(t *testing.T) {
	const app = "https://app.example.com"
	for _, c := range []struct {
		name        string
		origin      string
		before      string // Access-Control-Allow-Origin as a middleware before this one set it
		opts        []Option
		allow       string
		credentials string
		exposed     bool
	}{
		{"CORS is not configured", app, "", nil, "", "", false},
		{"an origin of the option", app, "", []Option{WithCORS("https://other.example.com", app)}, app, "true", true},
		{"an origin written with a slash", app, "", []Option{WithCORS(app + "/")}, app, "true", true},
		{"another origin", "https://evil.example", "", []Option{WithCORS(app)}, "", "", false},
		{"an origin that only begins so", app + ".evil.example", "", []Option{WithCORS(app)}, "", "", false},
		{"every origin, without credentials", "https://any.example", "", []Option{WithCORS("*")}, "*", "", true},
		{"no page", "", "", []Option{WithCORS("*")}, "", "", false},
		{"allowed before", app, app, nil, app, "", true},
		{"what was allowed before stands", app, "*", []Option{WithCORS(app)}, "*", "", true},
	} {
		m := newMiddleware(&verdict{decision: overLimit()}, c.opts)
		w := httptest.NewRecorder()
		if c.before != "" {
			w.Header().Set("Access-Control-Allow-Origin", c.before)
		}
		r := get("/")
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		m.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != http.StatusTooManyRequests {
			t.Errorf("%s: status %d", c.name, w.Code)
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != c.allow {
			t.Errorf("%s: origin %q is allowed, want %q", c.name, got, c.allow)
		}
		if got := w.Header().Get("Access-Control-Allow-Credentials"); got != c.credentials {
			t.Errorf("%s: credentials %q, want %q", c.name, got, c.credentials)
		}
		if got, want := w.Header().Get("Vary"), c.credentials == "true"; (got == "Origin") != want {
			t.Errorf("%s: Vary is %q", c.name, got)
		}
		exposed := w.Header().Get("Access-Control-Expose-Headers")
		for _, field := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "X-RateLimit-Remaining"} {
			if strings.Contains(exposed, field) != c.exposed {
				t.Errorf("%s: exposed is %q", c.name, exposed)
			}
		}
	}
}
