package proxycheck

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// BenchmarkCheck is the door behind net/http, beside a handler that answers 204 to the same questions: 16 connections that are
// kept, the client in the same process.
func BenchmarkCheck(b *testing.B) {
	set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, keyBy: ip, limit: 1000000000, window: 1s}]"))
	if err != nil {
		b.Fatal(err)
	}

	limiter, err := leaseway.Embedded(set)
	if err != nil {
		b.Fatal(err)
	}

	b.Cleanup(func() { _ = limiter.Close(context.Background()) })

	door := New(Config{Limiter: limiter, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	for _, entrant := range []struct {
		name    string
		handler http.Handler
	}{{"bare", http.HandlerFunc(allow)}, {"door", door}} {
		b.Run(entrant.name, func(b *testing.B) { ask(b, entrant.handler) })
	}
}

// ask reports how many answers a second come, and how long one in a hundred takes at least.
func ask(b *testing.B, handler http.Handler) {
	b.Helper()

	const connections = 16

	server := httptest.NewServer(handler)
	defer server.Close()

	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()

	var (
		all  sync.WaitGroup
		took [connections][]time.Duration
	)

	b.ResetTimer()

	for i := range connections {
		all.Go(func() {
			for range b.N/connections + 1 {
				r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+"/v1/check?profile=caddy", http.NoBody)
				r.Header.Set("X-Forwarded-Method", http.MethodGet)
				r.Header.Set("X-Forwarded-Uri", "/v1/things?a=b")
				r.Header.Set("X-Forwarded-Host", "api.example.com")
				r.Header.Set("X-Forwarded-For", "192.0.2.1")

				began := time.Now()

				resp, err := transport.RoundTrip(r)
				if err != nil {
					b.Error(err)

					return
				}

				_ = resp.Body.Close()

				if took[i] = append(took[i], time.Since(began)); resp.StatusCode != http.StatusNoContent {
					b.Errorf("status %d", resp.StatusCode)
				}
			}
		})
	}

	all.Wait()
	b.StopTimer()

	sorted := slices.Sorted(slices.Values(slices.Concat(took[:]...)))
	b.ReportMetric(float64(len(sorted))/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(sorted[len(sorted)*99/100].Microseconds()), "µs-p99")
}
