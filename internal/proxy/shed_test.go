package proxy

import (
	"io"
	"net/http"
	"sync"
	"testing"
)

// A request at the API is in flight for both shedders, as it would be in a server of Go: who finds too many is refused with 503 by
// the proxy, unless it is critical, and served again when they are over.
func TestShedders(t *testing.T) {
	const critical = "classes: [{class: critical, scope: {headers: {X-Class: critical}}}]"

	for _, c := range []struct{ name, shedder, reason string }{
		{"fleet", "fleet: {capacity: 10, reserve: 20%}", "shed_fleet"},
		{"worker", "worker: {inFlight: 10, high: 80%, low: 50%, rise: 100ms, fall: 100ms}", "shed_worker"},
	} {
		t.Run(c.name, func(t *testing.T) {
			const crowd = 8

			began, finish := make(chan struct{}), make(chan struct{})
			up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					began <- struct{}{}

					<-finish
				}

				_, _ = io.WriteString(w, "served")
			})

			f := serve(t, "{rules: [], shedders: {"+c.shedder+"}, "+critical+"}", Config{Upstreams: []string{up.URL}})

			var all sync.WaitGroup

			for range crowd {
				all.Go(func() {
					if got, text := f.get(t, "/slow"); got.StatusCode != http.StatusOK || text != "served" {
						t.Errorf("of the crowd: got %d %s", got.StatusCode, text)
					}
				})

				<-began
			}

			eventually(t, "who is not critical is shed", func() bool {
				got, _ := f.get(t, "/")

				return got.StatusCode == http.StatusServiceUnavailable && got.Header.Get("Leaseway-Reason") == c.reason &&
					got.Header.Get("Retry-After") != ""
			})

			for range crowd {
				if got, text := f.get(t, "/", "X-Class", "critical"); got.StatusCode != http.StatusOK {
					t.Errorf("a critical request got %d %s", got.StatusCode, text)
				}
			}

			// The API's own probes are not what makes it busy.
			for path, want := range map[string]int{
				"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/livez": http.StatusOK,
				"/healthz-admin": http.StatusServiceUnavailable, "/metrics": http.StatusServiceUnavailable,
			} {
				if got, text := f.get(t, path); got.StatusCode != want {
					t.Errorf("%s got %d %s, want %d", path, got.StatusCode, text, want)
				}
			}

			close(finish)
			all.Wait()
			eventually(t, "all are served again", func() bool {
				got, _ := f.get(t, "/")

				return got.StatusCode == http.StatusOK
			})
		})
	}
}
