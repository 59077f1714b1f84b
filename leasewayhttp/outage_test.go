package leasewayhttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// down is a source that has rules and no store: it refuses every ask, or never answers.
type down struct {
	set    *rule.Set
	silent bool
}

func (d down) Acquire(ctx context.Context, _ *ledger.Batch) (*ledger.Answers, error) {
	if d.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("connection refused")
}

func (d down) Watch(ctx context.Context, known uint64, apply func(*rule.Set) error) error {
	if known < d.set.Version {
		if err := apply(d.set); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

const outageRules = `
rules:
  - {id: open, scope: /open, limit: 5, window: 1m, onUnavailable: allow}
  - {id: closed, scope: /closed, limit: 5, window: 1m, onUnavailable: deny}
  - {id: local, scope: /local, limit: 50, window: 1m, fallback: {limit: 5, window: 1m}}
`

// withOutage runs test against an API whose limiter has no coordinator that answers: it refuses, or is silent.
func withOutage(t *testing.T, test func(a *api, silent bool)) {
	t.Helper()
	for name, silent := range map[string]bool{"refused connections": false, "no answer": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := down{set: mustParse(t, outageRules).Next(nil, 1), silent: silent}
				emptyPools()
				limiter, err := leaseway.Over(t.Context(), source)
				if err != nil {
					t.Fatal(err)
				}
				defer limiter.Close(context.Background())
				m := newMiddleware(limiter, nil)
				test(&api{t: t, handler: m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}, silent)
				if n := m.Stats().Panics; n != 0 {
					t.Errorf("%d panics", n)
				}
			})
		})
	}
}

func TestEachRuleSaysWhatAnOutageMeans(t *testing.T) {
	withOutage(t, func(a *api, _ bool) {
		a.expect("fail open", "AAAAAAAAAA", get("/open"))
		a.expect("the fallback of this instance", "AAAAADDDDD", get("/local"))
		a.expect("no rule", "AAAAAAAAAA", get("/free"))
		for range 10 {
			w := a.send(get("/closed"))
			after, err := strconv.Atoi(w.Header().Get("Retry-After"))
			if w.Code != http.StatusServiceUnavailable || err != nil || after < 1 {
				a.t.Errorf("fail closed: status %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
		}
	})
}

// Whoever goes away before the answer passes for free under no rule, and never gets a 500. A coordinator that refuses may
// be faster than the look at whether the caller is there: then each rule says what an outage means.
func TestClientsThatGoAwayAreNoFailure(t *testing.T) {
	withOutage(t, func(a *api, silent bool) {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		for path, inOutage := range map[string]int{
			"/open": http.StatusOK, "/local": http.StatusOK, "/closed": http.StatusServiceUnavailable,
		} {
			w := a.send(get(path).WithContext(gone))
			if w.Code != http.StatusServiceUnavailable && (silent || w.Code != inOutage) {
				a.t.Errorf("%s: status %d, want 503", path, w.Code)
			}
		}
	})
}
