package proxy

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Preflights are the API's, cost nothing and are never refused; a refusal can be read by the pages of the origins that are named.
func TestBrowsersCanReadRefusals(t *testing.T) {
	const (
		limit = 40
		ours  = "https://app.example.com"
	)

	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
		w.WriteHeader(http.StatusNoContent)
	})
	f := serve(t, "rules: [{id: r, keyBy: ip, limit: 40, window: 60s}]", Config{Upstreams: []string{up.URL}, Origins: []string{ours}})

	preflight := func() {
		t.Helper()

		r, _ := http.NewRequest(http.MethodOptions, f.url+"/", http.NoBody)
		r.Header.Set("Origin", ours)
		r.Header.Set("Access-Control-Request-Method", http.MethodPut)

		if got, _ := f.do(t, r); got.StatusCode != http.StatusNoContent || got.Header.Get("Access-Control-Allow-Origin") != ours {
			t.Errorf("a preflight got %d, %v", got.StatusCode, got.Header)
		}
	}

	for i := range limit {
		preflight()

		got, _ := f.get(t, "/", "Origin", ours)
		if got.StatusCode != http.StatusNoContent || !slices.Equal(got.Header.Values("Access-Control-Allow-Origin"), []string{ours}) {
			t.Fatalf("request %d got %d, %v", i, got.StatusCode, got.Header)
		}
	}

	preflight()

	for origin, allowed := range map[string]string{ours: ours, "https://elsewhere.example": ""} {
		got, _ := f.get(t, "/", "Origin", origin)
		exposed := strings.Contains(got.Header.Get("Access-Control-Expose-Headers"), "Retry-After")

		if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Access-Control-Allow-Origin") != allowed || exposed != (allowed != "") {
			t.Errorf("from %s: %d, %v", origin, got.StatusCode, got.Header)
		}
	}
}
