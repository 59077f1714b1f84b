package leasewayhttp

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

// fleet is several limited APIs before one coordinator, whose rules can change.
type fleet struct {
	*testing.T

	book *coordinator.Book
	apis []*api

	limiters []*leaseway.Limiter
}

// withFleet runs test with n servers under document, in a bubble of its own.
func withFleet(t *testing.T, n int, document string, test func(f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		emptyPools()
		store, err := memory.New(memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{T: t, book: coordinator.NewBook(time.Now)}
		f.apply(document)
		c, err := coordinator.New(coordinator.Config{Store: store, Book: f.book})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = c.Run(ctx) })
		for range n {
			limiter, err := leaseway.Over(ctx, c, leaseway.WithInProcess())
			if err != nil {
				t.Fatal(err)
			}
			f.limiters = append(f.limiters, limiter)
			m := newMiddleware(limiter, []Option{WithoutJitter()})
			f.apis = append(f.apis, &api{
				t: t, holds: strings.Contains(document, "leaky_bucket"),
				handler: m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})),
			})
		}
		defer running.Wait()
		defer stop()
		defer f.close()
		test(f)
		for _, a := range f.apis {
			a.held.Wait()
		}
	})
}

// close ends the servers.
func (f *fleet) close() {
	for _, limiter := range f.limiters {
		if err := limiter.Close(context.Background()); err != nil {
			f.Error(err)
		}
	}
}

// apply puts a document in force, at every server.
func (f *fleet) apply(document string) {
	f.Helper()
	if _, err := f.book.Apply(mustParse(f.T, document)); err != nil {
		f.Fatal(err)
	}
	synctest.Wait()
}

// Whoever used 80 of 100 has used 80 of 50: 31 must come back before the next request can pass, and not one.
func TestRetryAfterOfALoweredLimit(t *testing.T) {
	const document = "rules: [{id: r, algorithm: sliding_log, limit: %d, window: 86400s}]"
	withFleet(t, 1, fmt.Sprintf(document, 100), func(f *fleet) {
		a := f.apis[0]
		for range 80 {
			a.expect("under the first limit", "A", get("/v1/x"))
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		f.apply(fmt.Sprintf(document, 50))
		time.Sleep(10 * time.Second)
		h := a.send(get("/v1/x")).Header()
		// The 31st was let in 30 s after the start, 70 s ago.
		for name, want := range map[string]string{
			"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "Retry-After": "86330",
			"RateLimit": `"r";r=0;t=86330`, "RateLimit-Policy": `"r";q=50;w=86400`,
		} {
			if got := h.Get(name); got != want {
				f.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

func TestWhoWaitsAfterALoweredLimitIsServed(t *testing.T) {
	for algorithm := rule.TokenBucket; algorithm <= rule.LeakyBucket; algorithm++ {
		t.Run(algorithm.String(), func(t *testing.T) {
			document := "rules: [{id: r, algorithm: " + algorithm.String() + ", limit: %d, window: 100s}]"
			withFleet(t, 1, fmt.Sprintf(document, 100), func(f *fleet) {
				a := f.apis[0]
				a.expect("under the first limit", strings.Repeat("A", 80), get("/v1/x"))
				f.apply(fmt.Sprintf(document, 50))
				time.Sleep(10 * time.Second) // what was leased under the first limit may be spent for its TTL
				w := a.send(get("/v1/x"))
				if w == nil || w.Code != http.StatusTooManyRequests || w.Header().Get("X-Ratelimit-Remaining") != "0" {
					f.Fatalf("80 used of 50: %v", w)
				}
				after, err := strconv.Atoi(w.Header().Get("Retry-After"))
				if err != nil {
					f.Fatal(err)
				}
				time.Sleep(time.Duration(after-1) * time.Second)
				a.expect("a second early", "D", get("/v1/x"))
				time.Sleep(time.Second)
				a.expect("in time", "A", get("/v1/x"))
			})
		})
	}
}

// Servers share what they count, rules do not: neither by equal settings, nor by ids and keys that run together.
func TestOneRuleIsOneBudgetOverServers(t *testing.T) {
	for algorithm := rule.TokenBucket; algorithm <= rule.LeakyBucket; algorithm++ {
		t.Run(algorithm.String(), func(t *testing.T) {
			document := "rules: [{id: r, keyBy: 'header:X-Key', algorithm: " + algorithm.String() + ", limit: 10, window: 1m}]"
			withFleet(t, 2, document, func(f *fleet) {
				r := get("/v1/x")
				r.Header.Set("X-Key", "k")
				served := 0
				for i := range 12 {
					if w := f.apis[i%2].send(r); w == nil || w.Code == http.StatusOK {
						served++
					}
				}
				if served != 10 {
					f.Errorf("%d of twelve requests over two servers are served, want 10", served)
				}
			})
		})
	}
}

func TestRulesAndKeysDoNotRunTogether(t *testing.T) {
	withEachAlgorithm(t, `rules:
  - {id: fa, scope: /fa, keyBy: 'header:X-A', limit: 10, window: 10m}
  - {id: fb, scope: /fb, keyBy: 'header:X-A', limit: 5, window: 1m}
  - {id: r1, scope: /same/1, keyBy: 'header:X-A', limit: 3, window: 1m}
  - {id: r2, scope: /same/2, keyBy: 'header:X-A', limit: 3, window: 1m}
  - {id: pair, scope: /pair, keyBy: ['header:X-A', 'header:X-B'], missing: shared, limit: 2, window: 1m}
`, nil, func(a *api) {
		with := func(path, one, two string) *http.Request {
			r := get(path)
			r.Header.Set("X-A", one)
			r.Header.Set("X-B", two)
			return r
		}
		a.expect("one rule", "AAAAAA", with("/fa", "u1", ""))
		a.expect("another rule, the same key", "AAAAAD", with("/fb", "u1", ""))
		a.expect("the first of two alike", "AAAD", with("/same/1", "u1", ""))
		a.expect("the second", "AAAD", with("/same/2", "u1", ""))
		for _, key := range [][2]string{
			{"10.0.0.1", "1/x"}, {"10.0.0.11", "/x"}, {"a:b", "c"}, {"a", "b:c"}, {"a", ""}, {"", "a"}, {"a|b", "c"}, {"a", "b|c"}, {`a\`, "|c"}, {`a\|`, "c"},
		} {
			a.expect(fmt.Sprintf("%q", key), "AAD", with("/pair", key[0], key[1]))
		}
	})
}
