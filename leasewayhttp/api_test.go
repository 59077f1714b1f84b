package leasewayhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// api is a limited API whose callers are told apart over HTTP alone, on a clock that stands still but when a test sleeps.
type api struct {
	t       *testing.T
	handler http.Handler
	holds   bool // some rule is a leaky bucket
	held    sync.WaitGroup
}

// withAPI runs test against each limiter that decides by document.
func withAPI(t *testing.T, document string, opts []Option, test func(a *api)) {
	t.Helper()
	set := mustParse(t, document)
	for name, limiter := range limiters() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMiddleware(limiter(t, set), opts)
				a := &api{t: t, holds: strings.Contains(document, "leaky_bucket"), handler: m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
				test(a)
				a.held.Wait()
				if n := m.Stats().Panics; n != 0 {
					t.Errorf("%d panics", n)
				}
			})
		})
	}
}

// withEachAlgorithm is withAPI for a document whose rules name no algorithm, by each in turn.
func withEachAlgorithm(t *testing.T, document string, opts []Option, test func(a *api)) {
	t.Helper()
	for algorithm := rule.TokenBucket; algorithm <= rule.LeakyBucket; algorithm++ {
		t.Run(algorithm.String(), func(t *testing.T) {
			withAPI(t, strings.ReplaceAll(document, " limit:", " algorithm: "+algorithm.String()+", limit:"), opts, test)
		})
	}
}

func limiters() map[string]func(*testing.T, *rule.Set) decider {
	return map[string]func(*testing.T, *rule.Set) decider{
		"central": func(_ *testing.T, set *rule.Set) decider { return newCentral(set) },
		"leases": func(t *testing.T, set *rule.Set) decider {
			t.Helper()
			emptyPools()
			limiter, err := leaseway.Embedded(set)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := limiter.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			return limiter
		},
	}
}

// emptyPools drops what an earlier test left in a sync.Pool: a channel may only be used in the bubble that made it.
func emptyPools() {
	runtime.GC() // moves it aside
	runtime.GC() // drops it
}

// send sends r, and returns the response; nil for a request that is held, which must be served when its turn comes.
func (a *api) send(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	if !a.holds {
		a.handler.ServeHTTP(w, r)
		return w
	}
	served := make(chan struct{})
	a.held.Go(func() {
		defer close(served)
		a.handler.ServeHTTP(w, r)
	})
	synctest.Wait() // time does not pass: what is not done now is held
	select {
	case <-served:
		return w
	default:
	}
	a.held.Go(func() {
		<-served
		if w.Code != http.StatusOK {
			a.t.Errorf("a request that was held got status %d", w.Code)
		}
	})
	return nil
}

// expect sends r once for each letter: A for a request that is served, now or when its turn comes, D for a 429.
func (a *api) expect(what, letters string, r *http.Request) {
	a.t.Helper()
	var got strings.Builder
	for range letters {
		switch w := a.send(r); {
		case w == nil || w.Code == http.StatusOK:
			got.WriteByte('A')
		case w.Code == http.StatusTooManyRequests:
			got.WriteByte('D')
		default:
			fmt.Fprintf(&got, "(%d)", w.Code)
		}
	}
	if got.String() != letters {
		a.t.Errorf("%s: %s, want %s", what, got.String(), letters)
	}
}
