package leasewayhttp

import (
	"context"
	"net/http"
	"testing"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// discard is a writer whose header is made anew for each request, as net/http's is.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

func noop() http.Handler { return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) }

func benchmarkHandler(b *testing.B, h http.Handler) {
	b.Helper()
	r := get("/v1/search?q=x")
	r.Header.Set("X-Api-Key", "k1")
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

// embeddedHandler limits a handler that does nothing, by a limiter whose one hot key never runs out.
func embeddedHandler(b *testing.B) http.Handler {
	b.Helper()
	return limitedHandler(b, "rules: [{id: search, scope: /v1/search, keyBy: apikey, limit: 100000000, window: 1s}]")
}

func limitedHandler(b *testing.B, doc string) http.Handler {
	b.Helper()
	set, err := rule.Parse("rules.yaml", []byte(doc))
	if err != nil {
		b.Fatal(err)
	}
	limiter, err := leaseway.Embedded(set)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := limiter.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return New(limiter).Handler(noop())
}

// BenchmarkEmbedded is a whole limited request: attributes, decision from a lease, all fields.
func BenchmarkEmbedded(b *testing.B) { benchmarkHandler(b, embeddedHandler(b)) }

// BenchmarkInFlight is a whole request under a concurrency rule whose slots are here.
func BenchmarkInFlight(b *testing.B) {
	benchmarkHandler(b, limitedHandler(b, "rules: [{id: search, scope: /v1/search, keyBy: apikey, algorithm: concurrency, limit: 1000}]"))
}

// All fields of an allowed request cost one piece of memory for the values and their text, and the room of the header
// itself. The limiter is left out: under the race detector its pools forget, and allocate.
func TestAllocationsOfAnAllowedRequest(t *testing.T) {
	h := newMiddleware(&verdict{decision: allowed()}, nil).Handler(noop())
	r := get("/v1/search?q=x")
	r.Header.Set("X-Api-Key", "k1")
	w := &discard{}
	n := testing.AllocsPerRun(1000, func() {
		w.header = make(http.Header)
		h.ServeHTTP(w, r)
		if len(w.header["Ratelimit"]) == 0 {
			t.Error("no RateLimit")
		}
	})
	if n > 3 {
		t.Errorf("%v allocations, want at most 3", n)
	}
}

// A refusal is told in one piece of memory for what all responses say, one for what only refusals do, and the document. The
// other five are the header's: its ninth field makes it grow.
func TestAllocationsOfARefusedRequest(t *testing.T) {
	h := newMiddleware(&verdict{decision: overLimit()}, nil).Handler(noop())
	r := get("/v1/search?q=x")
	w := &discard{}
	n := testing.AllocsPerRun(1000, func() {
		w.header = make(http.Header)
		h.ServeHTTP(w, r)
	})
	if n > 8 {
		t.Errorf("%v allocations, want at most 8", n)
	}
}
