package leasewayhttp

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// halfway decides, and then whatever else it is asked is a bug.
type halfway struct {
	verdict

	decided bool
}

func (h *halfway) Decide(ctx context.Context, req leaseway.Request) leaseway.Decision {
	h.decided = true
	return h.verdict.Decide(ctx, req)
}

func (h *halfway) Rules() *rule.Set {
	if h.decided {
		panic("a bug in Rules")
	}
	return h.set
}

// A bug after the decision, in the fields or in the answer, changes nothing about it.
func TestABugAfterTheDecisionKeepsIt(t *testing.T) {
	delayed := allowed()
	delayed.Rule = strings.Repeat("r", 100)
	for name, c := range map[string]struct {
		limiter decider
		want    int
		bugs    int64
	}{
		"fields of a served request":  {&noClock{verdict{decision: allowed()}}, http.StatusNoContent, 1},
		"fields of a refused request": {&noClock{verdict{decision: overLimit()}}, http.StatusTooManyRequests, 1},
		"body of a refused request":   {&halfway{verdict: verdict{decision: overLimit()}}, http.StatusTooManyRequests, 1},
		"nothing":                     {&verdict{decision: delayed}, http.StatusNoContent, 0},
	} {
		var log bytes.Buffer
		m := newMiddleware(c.limiter, []Option{WithLogger(slog.New(slog.NewTextHandler(&log, nil)))})
		w := serve(m, get("/"))
		if w.Code != c.want || m.Stats().Panics != c.bugs || int64(strings.Count(log.String(), "recovered a panic")) != c.bugs {
			t.Errorf("%s: status %d and %d panics, want %d and %d; the log:\n%s", name, w.Code, m.Stats().Panics, c.want, c.bugs, &log)
		}
		if c.want == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
	}
}

type noClock struct{ verdict }

func (*noClock) TimeIn(time.Duration) time.Time { panic("a bug in TimeIn") }

// A request whose fields cannot be written is in flight until it is over, and no longer.
func TestABugInTheFieldsLosesNoSlot(t *testing.T) {
	limiter, err := leaseway.Embedded(mustParse(t, "rules: [{id: r, keyBy: apikey, algorithm: concurrency, limit: 1}]"))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close(context.Background())
	for range 3 {
		r := get("/")
		r.Header.Set("X-Api-Key", "k")
		m := newMiddleware(&halfReal{Limiter: limiter}, nil)
		if w := serve(m, r); w.Code != http.StatusNoContent || m.Stats().Panics != 1 {
			t.Errorf("status %d, %d panics; want 204 and 1: the slot before came back", w.Code, m.Stats().Panics)
		}
	}
}

// halfReal is a real limiter, of whose decisions the fields cannot be written.
type halfReal struct{ *leaseway.Limiter }

func (h *halfReal) Decide(ctx context.Context, req leaseway.Request) leaseway.Decision {
	d := h.Limiter.Decide(ctx, req)
	d.Quota, d.Window = 0, 1 // as of a rate, so that the clock is asked
	return d
}

func (*halfReal) TimeIn(time.Duration) time.Time { panic("a bug in TimeIn") }

// What the program is called for may have bugs, too: such a request is served, and asked about nothing.
func TestAttributesThatPanicServeTheRequest(t *testing.T) {
	v := &verdict{decision: overLimit()}
	m := newMiddleware(v, []Option{WithAttributes(func(*http.Request, *leaseway.Request) { panic("a bug of theirs") })})
	if w := serve(m, get("/")); w.Code != http.StatusNoContent || v.asked != 0 || m.Stats().Panics != 1 {
		t.Errorf("status %d, asked %d times, %d panics; want 204, 0 and 1", w.Code, v.asked, m.Stats().Panics)
	}
}
