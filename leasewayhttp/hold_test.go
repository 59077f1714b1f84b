package leasewayhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
)

// arrival is a request on its way through the middleware, and what came of it.
type arrival struct {
	w      *httptest.ResponseRecorder
	served time.Duration // after the start; -1: the handler never ran
	done   chan struct{}
}

// queue is a handler behind a leaky bucket; requests enter it one after the other, at the same instant.
type queue struct {
	start   time.Time
	limited func(a *arrival) http.Handler
}

func newQueue(t *testing.T, rules string) *queue {
	t.Helper()
	emptyPools()
	limiter, err := leaseway.Embedded(mustParse(t, rules))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := limiter.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	m := New(limiter)
	q := &queue{start: time.Now()}
	q.limited = func(a *arrival) http.Handler {
		return m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { a.served = time.Since(q.start) }))
	}
	return q
}

func (q *queue) enter(ctx context.Context) *arrival {
	a := &arrival{w: httptest.NewRecorder(), served: -1, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		q.limited(a).ServeHTTP(a.w, get("/v1/x").WithContext(ctx))
	}()
	synctest.Wait()
	return a
}

func TestLeakyBucketsServeAtAnEvenPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, "rules: [{id: r, algorithm: leaky_bucket, limit: 6, window: 1m, burst: 4}]")
		var queued []*arrival
		for range 4 {
			queued = append(queued, q.enter(t.Context()))
		}
		over := q.enter(t.Context())
		select {
		case <-over.done:
		default:
			t.Fatal("a request beyond the burst is held")
		}
		if over.w.Code != http.StatusTooManyRequests || over.w.Header().Get("Retry-After") == "" || over.served >= 0 {
			t.Errorf("beyond the burst: status %d, fields %v", over.w.Code, over.w.Header())
		}
		for i, a := range queued {
			<-a.done
			turn := time.Duration(i) * 10 * time.Second
			if a.served != turn || a.w.Code != http.StatusOK {
				t.Errorf("request %d: status %d after %v, want 200 after %v", i, a.w.Code, a.served, turn)
			}
			// Its own token is the last in the bucket by now, and leaks within 10 s of being served.
			if got, want := a.w.Header().Get("Ratelimit"), fmt.Sprintf(`"r";r=%d;t=10`, 3-i); got != want {
				t.Errorf("request %d: RateLimit %s, want %s", i, got, want)
			}
			if got, want := a.w.Header().Get("X-Ratelimit-Reset"), strconv.FormatInt(q.start.Add(turn+10*time.Second).Unix(), 10); got != want {
				t.Errorf("request %d: X-RateLimit-Reset %s, want %s", i, got, want)
			}
		}
	})
}

func TestWhoLeavesTheQueueGivesItsPlaceBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, "rules: [{id: r, algorithm: leaky_bucket, limit: 6, window: 1m, burst: 3}]")
		first, second := q.enter(t.Context()), q.enter(t.Context())
		ctx, leave := context.WithCancel(t.Context())
		third := q.enter(ctx)
		if over := q.enter(t.Context()); over.w.Code != http.StatusTooManyRequests {
			t.Fatalf("a fourth request: status %d", over.w.Code)
		}
		time.Sleep(3 * time.Second)
		leave()
		<-third.done
		if stayed := time.Since(q.start); stayed != 3*time.Second || third.served >= 0 || third.w.Body.Len() != 0 || third.w.Code == http.StatusOK {
			t.Errorf("who left: status %d and %d bytes, served after %v; it stayed for %v", third.w.Code, third.w.Body.Len(), third.served, stayed)
		}
		if len(third.w.Header().Values("Ratelimit")) != 0 {
			t.Errorf("who left is told %v", third.w.Header())
		}
		next := q.enter(t.Context())
		<-first.done
		<-second.done
		<-next.done
		if first.served != 0 || second.served != 10*time.Second || next.served != 20*time.Second {
			t.Errorf("served after %v, %v and %v, want 0 s, 10 s and the place that was left, 20 s", first.served, second.served, next.served)
		}
	})
}

// Nobody is kept until a deadline that its turn comes after.
func TestTurnsBeyondTheDeadlineAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, "rules: [{id: r, algorithm: leaky_bucket, limit: 6, window: 1m}]")
		<-q.enter(t.Context()).done
		for _, c := range []struct {
			deadline time.Duration
			status   int
			took     time.Duration
		}{
			{10*time.Second - 1, http.StatusServiceUnavailable, 0},
			{10 * time.Second, http.StatusOK, 10 * time.Second},
		} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			a := q.enter(ctx)
			<-a.done
			cancel()
			if took := time.Since(start); a.w.Code != c.status || took != c.took || (a.served >= 0) != (c.status == http.StatusOK) {
				t.Errorf("deadline %v: status %d after %v, want %d after %v", c.deadline, a.w.Code, took, c.status, c.took)
			}
		}
	})
}

// A shadow rule never refuses, and so never holds.
func TestShadowsDoNotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, "rules: [{id: r, algorithm: leaky_bucket, mode: shadow, limit: 1, window: 1m}]")
		for range 5 {
			if a := q.enter(t.Context()); a.served != 0 {
				t.Errorf("served after %v", a.served)
			}
		}
	})
}

// The longest of several delays holds; a refund gives back what all rules took.
func TestHeldUnderSeveralRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, `rules:
  - {id: slow, algorithm: leaky_bucket, limit: 6, window: 1m}
  - {id: quick, algorithm: leaky_bucket, limit: 60, window: 1m}
  - {id: day, limit: 3, window: 86400s}
`)
		first := q.enter(t.Context())
		ctx, leave := context.WithCancel(t.Context())
		second, third := q.enter(ctx), q.enter(t.Context())
		leave()
		<-second.done
		fourth, fifth := q.enter(t.Context()), q.enter(t.Context())
		for _, a := range []*arrival{first, third, fourth, fifth} {
			<-a.done
		}
		if first.served != 0 || second.served >= 0 || third.served != 20*time.Second || fourth.served != 20*time.Second {
			t.Errorf("served after %v, %v, %v and %v", first.served, second.served, third.served, fourth.served)
		}
		if fifth.w.Code != http.StatusTooManyRequests {
			t.Errorf("a request that the day has no token for: status %d", fifth.w.Code)
		}
	})
}

func TestRefundsThatPanicServeTheRequest(t *testing.T) {
	d := allowed()
	d.Delay = time.Hour
	gone, leave := context.WithCancel(t.Context())
	leave()
	m := newMiddleware(&panicsAtRefund{verdict{decision: d}}, nil)
	if w := serve(m, get("/").WithContext(gone)); w.Code != http.StatusNoContent || m.Stats().Panics != 1 {
		t.Errorf("status %d, %d panics", w.Code, m.Stats().Panics)
	}
}

type panicsAtRefund struct{ verdict }

func (*panicsAtRefund) Refund(leaseway.Decision) { panic("a bug in Refund") }

// Over real connections: of many held requests, those whose clients go away end at once, and nothing is left of any.
func TestManyHeldRequestsLeaveNothingBehind(t *testing.T) {
	const many = 300
	before := runtime.NumGoroutine()
	// What waits for longer than the deadline, or until its client has gone, is decided as in an outage, out of turn.
	limiter, err := leaseway.Embedded(mustParse(t, "rules: [{id: r, algorithm: leaky_bucket, limit: 1, window: 1h, burst: 1000}]"),
		leaseway.WithDeadline(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close(context.Background())

	var served atomic.Int64
	var inside sync.WaitGroup
	entered := make(chan struct{}, many)
	limited := New(limiter).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer inside.Done()
		entered <- struct{}{}
		limited.ServeHTTP(w, r)
	}))
	defer s.Close()

	ctx, leave := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range many {
		inside.Add(1)
		clients.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := s.Client().Do(r); err == nil {
				resp.Body.Close()
			}
		})
	}
	for range many {
		<-entered
	}
	const burst = 1000
	for limiter.Decide(t.Context(), leaseway.Request{Peek: true}).Remaining > burst-many { // until each has its turn
		runtime.Gosched()
	}
	leave()
	clients.Wait()
	inside.Wait() // within the test's time: the turns are hours away
	if n := served.Load(); n > 1 {
		t.Errorf("%d requests were served, want the first at most", n)
	}
	// Every place was given back.
	d := limiter.Decide(t.Context(), leaseway.Request{})
	if !d.Allowed || d.Delay > time.Hour {
		t.Errorf("a later request is delayed by %v", d.Delay)
	}
	s.Close() // the connections' own goroutines end with it, or a moment later
	if err := limiter.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestWhoDoesNotWaitIsRefusedInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		emptyPools()
		limiter, err := leaseway.Embedded(mustParse(t, "rules: [{id: r, algorithm: leaky_bucket, limit: 10, window: 1s, burst: 9}]"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = limiter.Close(context.Background()) })
		served := 0
		handler := New(limiter, WithMaxDelay(100*time.Millisecond)).Handler(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
		// The first is served at once, the second is held for 100 ms. Meanwhile a third would wait for 200 ms.
		serve := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, get("/v1/x"))
			return w
		}
		serve()
		go serve()
		synctest.Wait()
		for range 3 { // the tokens come back each time
			w := serve()
			if h := w.Header(); w.Code != http.StatusTooManyRequests || h.Get("Retry-After") != "1" ||
				h.Get("Leaseway-Reason") != "delayed" || h.Get("X-Ratelimit-Remaining") != "7" {
				t.Errorf("status %d, fields %v; want 429, delayed, 7 left", w.Code, h)
			}
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if w := serve(); w.Code != http.StatusOK || served != 3 {
			t.Errorf("100 ms later: status %d, %d served, want 200 and 3", w.Code, served)
		}
	})
}
