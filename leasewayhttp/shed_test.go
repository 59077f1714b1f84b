package leasewayhttp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// crowd sends requests of one class, as many at once as it has callers, and counts what comes.
type crowd struct {
	class           string
	callers         int
	served, refused atomic.Int64
}

// run sends until ctx ends. Who is refused waits a second, as it is told at least.
func (c *crowd) run(ctx context.Context, h http.Handler, wg *sync.WaitGroup) {
	for i := range c.callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody)
				r.Header.Set("X-Api-Key", c.class+string(rune('a'+i)))
				r.Header.Set("X-Class", c.class)

				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)

				if w.Code == http.StatusServiceUnavailable {
					c.refused.Add(1)
					time.Sleep(time.Second)
				} else {
					c.served.Add(1)
				}
			}
		})
	}
}

// A server with ten workers and a crowd of thirty: the middleware measures, the shedder makes room, and what matters is served
// as if nobody else were there. When the crowd has gone everybody is served again.
func TestABusyServerServesWhatMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := leaseway.Embedded(mustParse(t, `
rules: []
classes:
  - {class: test, scope: {headers: {X-Class: test}}}
  - {class: write, scope: {headers: {X-Class: write}}}
  - {class: critical, scope: {headers: {X-Class: critical}}}
shedders: {worker: {}}
`), leaseway.WithWorkers(10))
		if err != nil {
			t.Fatal(err)
		}

		var busiest, busy atomic.Int64

		h := New(limiter).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			busiest.Store(max(busiest.Load(), busy.Add(1)))
			time.Sleep(100 * time.Millisecond)
			busy.Add(-1)
		}))

		crowds := []*crowd{{class: "test", callers: 10}, {class: "read", callers: 12}, {class: "write", callers: 4}, {class: "critical", callers: 4}}

		var wg sync.WaitGroup

		ctx, stop := context.WithCancel(t.Context())
		for _, c := range crowds {
			c.run(ctx, h, &wg)
		}

		time.Sleep(30 * time.Second) // it settles

		for _, c := range crowds {
			c.served.Store(0)
			c.refused.Store(0)
		}

		busiest.Store(0)
		time.Sleep(30 * time.Second)

		most := busiest.Load()
		share := func(c *crowd) float64 { return float64(c.served.Load()) / float64(c.callers) / 300 } // of what one could be served

		tests, reads, writes, critical := share(crowds[0]), share(crowds[1]), share(crowds[2]), share(crowds[3])
		t.Logf("served: tests %.0f %%, reads %.0f %%, writes %.0f %%, critical %.0f %%; %d at once at most",
			100*tests, 100*reads, 100*writes, 100*critical, most)

		if tests > 0.1 || reads > 0.5 || writes < 0.95 || critical < 0.99 {
			t.Error("the wrong ones were served")
		}

		if n := crowds[3].refused.Load(); n > 0 {
			t.Errorf("%d critical requests were refused", n)
		}

		if most > 14 { // those who were refused knock once a second
			t.Errorf("up to %d requests were at work at once, on ten workers", most)
		}

		stop()
		wg.Wait()
		time.Sleep(40 * time.Second)

		r := get("/")
		r.Header.Set("X-Class", rule.ClassTest.String())

		if w := serve(New(limiter), r); w.Code != http.StatusNoContent {
			t.Errorf("a test got %d when the crowd had gone", w.Code)
		}

		if err := limiter.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A server that sheds everything it can still answers its probes: who asks whether it lives is not what makes it busy.
func TestProbesAreNotShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emptyPools()

		set := mustParse(t, "{rules: [], shedders: {worker: {}}, classes: [{class: test, scope: /**}]}")

		limiter, err := leaseway.Embedded(set, leaseway.WithSignal("full", func() float64 { return 1 }))
		if err != nil {
			t.Fatal(err)
		}

		m := New(limiter)
		shed := 0

		for range 60 {
			time.Sleep(time.Second)

			if w := serve(m, get("/healthz")); w.Code != http.StatusNoContent {
				t.Errorf("a probe got %d", w.Code)
			}

			if serve(m, get("/healthz-admin")).Code == http.StatusServiceUnavailable {
				shed++
			}
		}

		if shed < 40 {
			t.Errorf("only %d of 60 other requests were shed", shed)
		}

		if err := limiter.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
