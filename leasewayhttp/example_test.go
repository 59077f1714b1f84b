package leasewayhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewayhttp"
	"github.com/leaseway/leaseway/rule"
)

func Example() {
	rules, err := rule.Parse("rules.yaml", []byte(`
rules:
  - {id: search, scope: /v1/search, keyBy: apikey, limit: 2, window: 1m}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := leaseway.Embedded(rules)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close(context.Background())

	api := http.NewServeMux()
	api.HandleFunc("GET /v1/search", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "results") })
	limited := leasewayhttp.New(limiter).Handler(api)

	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/v1/search", http.NoBody)
		r.Header.Set("X-Api-Key", "k1")
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("X-Ratelimit-Remaining"), w.Header().Get("Retry-After") != "")
	}
	// Output:
	// 200 1 false
	// 200 0 false
	// 429 0 true
}

// Behind a load balancer in 10.0.0.0/8, callers are told apart by the address that it reports.
func ExampleClientIP() {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = "10.0.0.2:41000"
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 203.0.113.5")
	fmt.Println(leasewayhttp.ClientIP(r, nil))
	fmt.Println(leasewayhttp.ClientIP(r, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}))
	// Output:
	// 10.0.0.2
	// 203.0.113.5
}

// A client that waits as it is told gets through a limit, instead of an error.
func ExampleNewTransport() {
	rules, err := rule.Parse("rules.yaml", []byte("rules: [{id: search, keyBy: apikey, limit: 1, window: 1s}]"))
	if err != nil {
		fmt.Println(err)
		return
	}
	limiter, err := leaseway.Embedded(rules)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close(context.Background())
	api := httptest.NewServer(leasewayhttp.New(limiter).Handler(http.NotFoundHandler()))
	defer api.Close()

	transport := leasewayhttp.NewTransport(nil, leasewayhttp.WithBackoff(10*time.Millisecond, time.Second))
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	for range 2 {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, api.URL, http.NoBody)
		if err != nil {
			fmt.Println(err)
			return
		}
		r.Header.Set("X-Api-Key", "k1")
		resp, err := client.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	fmt.Println(transport.Stats().Retries, "retry")
	// Output:
	// 404 Not Found
	// 404 Not Found
	// 1 retry
}
