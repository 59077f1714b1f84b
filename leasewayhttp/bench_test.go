package leasewayhttp

import (
	"net/http"
	"testing"

	"github.com/leaseway/leaseway/rule"
)

// discard is a writer whose header is made anew for each request, as net/http's is.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func noop() http.Handler { return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) }

func benchmarkHandler(b *testing.B, h http.Handler) {
	r := get("/v1/search?q=x")
	r.Header.Set("X-API-Key", "k1")
	w := &discard{}
	b.ReportAllocs()
	for b.Loop() {
		w.header = make(http.Header)
		h.ServeHTTP(w, r)
	}
}

// BenchmarkHandler is what the middleware adds to a request, apart from the decision itself: compare with Bare.
func BenchmarkHandler(b *testing.B) {
	identity := rule.Identity{APIKey: []rule.Credential{{Header: "X-Api-Key"}, {Bearer: true}}}
	for name, h := range map[string]http.Handler{
		"Bare":    noop(),
		"Allowed": newMiddleware(&verdict{decision: allowed()}, []Option{WithIdentity(identity)}).Handler(noop()),
		"IETF":    newMiddleware(&verdict{decision: allowed()}, []Option{WithIdentity(identity), WithHeaders(HeadersIETF)}).Handler(noop()),
		"None":    newMiddleware(&verdict{decision: allowed()}, []Option{WithIdentity(identity), WithHeaders(HeadersNone)}).Handler(noop()),
		"Refused": newMiddleware(&verdict{decision: overLimit()}, []Option{WithIdentity(identity)}).Handler(noop()),
	} {
		b.Run(name, func(b *testing.B) { benchmarkHandler(b, h) })
	}
}

// All fields of an allowed request cost their text, the array of values, and the room of the header itself.
func TestAllocationsOfAnAllowedRequest(t *testing.T) {
	h := newMiddleware(&verdict{decision: allowed()}, nil).Handler(noop())
	r := get("/v1/search?q=x")
	w := &discard{}
	n := testing.AllocsPerRun(100, func() {
		w.header = make(http.Header)
		h.ServeHTTP(w, r)
	})
	if n > 4 {
		t.Errorf("%v allocations, want at most 4", n)
	}
}
