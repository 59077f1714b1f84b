package leasewayhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
)

// direct sends requests to a handler without a network, so that time can be virtual. It counts the bodies still open.
type direct struct {
	handler http.HandlerFunc
	open    atomic.Int64
}

func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	defer closeBody(r)
	w := httptest.NewRecorder()
	d.handler(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	d.open.Add(1)
	resp.Body = &counted{ReadCloser: resp.Body, close: sync.OnceFunc(func() { d.open.Add(-1) })}
	return resp, nil
}

type counted struct {
	io.ReadCloser

	close func()
}

func (c *counted) Close() error {
	c.close()
	return c.ReadCloser.Close()
}

// steady is a Transport without chance: waits have no random part, and nothing is held back but what always is.
func steady(base http.RoundTripper, opts ...TransportOption) *Transport {
	t := NewTransport(base, opts...)
	t.chance = func() float64 { return 0 }
	return t
}

// call is a request to a server.
func call() *http.Request {
	return httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
}

func send(t *testing.T, transport http.RoundTripper, r *http.Request) (status int) {
	t.Helper()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// A caller who listens gets everything through a limit, and not later than the limit allows.
func TestTransportWaitsAsToldByTheRealLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := leaseway.Embedded(mustParse(t, "rules: [{id: r, keyBy: apikey, limit: 1, window: 2s, burst: 1}]"))
		if err != nil {
			t.Fatal(err)
		}
		defer limiter.Close(context.Background())
		base := &direct{handler: New(limiter).Handler(noop()).ServeHTTP}
		transport := steady(base)
		start := time.Now()
		for range 5 {
			r := call()
			r.Header.Set("X-Api-Key", "k")
			if status := send(t, transport, r); status != http.StatusOK {
				t.Errorf("status %d, want 200", status)
			}
		}
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("5 requests at one in 2 s took %v, want 8 s", took)
		}
		if got := transport.Stats(); got != (TransportStats{Retries: 4}) {
			t.Errorf("stats %+v, want 4 retries", got)
		}
		if open := base.open.Load(); open != 0 {
			t.Errorf("%d bodies are still open", open)
		}
	})
}

// What is tried again, how often, and how long that takes without chance.
func TestTransportTriesAgainOnlyWhatHelps(t *testing.T) {
	type fields map[string]string
	for name, c := range map[string]struct {
		method   string
		status   int
		answer   fields
		request  fields
		body     io.Reader
		attempts int
		took     time.Duration
	}{
		"served":                            {"GET", 200, nil, nil, nil, 1, 0},
		"another error":                     {"GET", 500, nil, nil, nil, 1, 0},
		"429 that says when":                {"GET", 429, fields{"Retry-After": "3"}, nil, nil, 5, 12 * time.Second},
		"429 that waiting does not mend":    {"GET", 429, nil, nil, nil, 1, 0},
		"429 to a POST was not carried out": {"POST", 429, fields{"Retry-After": "1"}, nil, strings.NewReader("x"), 5, 4 * time.Second},
		"a body that cannot be had again":   {"POST", 429, fields{"Retry-After": "1"}, nil, io.MultiReader(strings.NewReader("x")), 1, 0},
		"429 with RateLimit alone":          {"GET", 429, fields{"Ratelimit": `"a";r=0;t=2, "b";r=5;t=60`}, nil, nil, 5, 8 * time.Second},
		"tomorrow":                          {"GET", 429, fields{"Retry-After": "86400"}, nil, nil, 1, 0},
		"never in time to come":             {"GET", 429, fields{"Retry-After": strings.Repeat("9", 40)}, nil, nil, 1, 0},
		"more than a minute in all":         {"GET", 429, fields{"Retry-After": "25"}, nil, nil, 3, 50 * time.Second},
		"503 to a GET":                      {"GET", 503, fields{"Retry-After": "1"}, nil, nil, 5, 4 * time.Second},
		"503 without a word":                {"GET", 503, nil, nil, nil, 5, 0},
		"503 to a POST":                     {"POST", 503, fields{"Retry-After": "1"}, nil, strings.NewReader("x"), 1, 0},
		"503 to a POST by a limiter": {"POST", 503, fields{"Retry-After": "1", "Leaseway-Reason": "shed_worker"}, nil,
			strings.NewReader("x"), 5, 4 * time.Second},
		"503 to a POST with a key": {"POST", 503, nil, fields{"Idempotency-Key": "7"}, strings.NewReader("x"), 5, 0},
		"502":                      {"PUT", 502, nil, nil, strings.NewReader("x"), 5, 0},
		"504 to a PATCH":           {"PATCH", 504, nil, nil, strings.NewReader("x"), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies []string
				base := &direct{handler: func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					bodies = append(bodies, string(body))
					for field, value := range c.answer {
						w.Header().Set(field, value)
					}
					w.WriteHeader(c.status)
				}}
				r, err := http.NewRequestWithContext(t.Context(), c.method, "http://api.example.com/v1", c.body)
				if err != nil {
					t.Fatal(err)
				}
				if r.Body == nil {
					r.Body = http.NoBody
				}
				for field, value := range c.request {
					r.Header.Set(field, value)
				}
				start := time.Now()
				if status := send(t, steady(base), r); status != c.status {
					t.Errorf("status %d, want %d", status, c.status)
				}
				if took := time.Since(start); len(bodies) != c.attempts || took != c.took {
					t.Errorf("%d attempts in %v, want %d in %v", len(bodies), took, c.attempts, c.took)
				}
				for _, body := range bodies {
					if c.body != nil && body != "x" {
						t.Errorf("an attempt had the body %q", body)
					}
				}
				if open := base.open.Load(); open != 0 {
					t.Errorf("%d bodies are still open", open)
				}
			})
		})
	}
}

// Without an answer a GET is sent again, with pauses that double, and the last error is returned as it came.
func TestTransportTriesErrorsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start, broken := time.Now(), errors.New("connection refused")
		transport := NewTransport(roundTripper(func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(start))
			return nil, broken
		}), WithBackoff(time.Second, 3*time.Second))
		transport.chance = func() float64 { return 0.5 }
		if _, err := transport.RoundTrip(call()); !errors.Is(err, broken) { //nolint:bodyclose // there is none
			t.Errorf("error %v, want that of the base", err)
		}
		want := []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second, 4500 * time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
	})
}

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func refusing(after string) *direct {
	return &direct{handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(http.StatusTooManyRequests)
	}}
}

// Who has too little time is told at once, and who gives up while he waits is not held.
func TestTransportKeepsToTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, base := time.Now(), refusing("10")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if status := send(t, steady(base), call().WithContext(ctx)); status != http.StatusTooManyRequests || time.Since(start) != 0 {
			t.Errorf("status %d after %v, want 429 at once", status, time.Since(start))
		}
		ctx, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, giveUp)
		_, err := steady(base).RoundTrip(call().WithContext(ctx)) //nolint:bodyclose // there is none
		if !errors.Is(err, context.Canceled) || time.Since(start) != 3*time.Second {
			t.Errorf("error %v after %v, want context.Canceled after 3 s", err, time.Since(start))
		}
		if open := base.open.Load(); open != 0 {
			t.Errorf("%d bodies are still open", open)
		}
	})
}

// A server in trouble gets a tenth more, and ten; one that only limits is waited for without a budget.
func TestTransportRetriesWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		transport := steady(&direct{handler: func(w http.ResponseWriter, _ *http.Request) {
			sent++
			w.WriteHeader(http.StatusBadGateway)
		}})
		for range 200 {
			send(t, transport, call())
		}
		stats := transport.Stats()
		if sent != 230 || stats.Retries != 30 || stats.OutOfBudget == 0 {
			t.Errorf("%d sent for 200 requests, stats %+v; want 230: a tenth more, and 10", sent, stats)
		}
		time.Sleep(2 * time.Minute) // what was spent is forgotten
		sent = 0
		send(t, transport, call())
		if sent != 5 {
			t.Errorf("%d attempts two minutes later, want 5", sent)
		}
	})
}

// A server that refuses everything gets less and less, and everything again when it has recovered for two minutes.
func TestTransportThrottlesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, status := 0, http.StatusServiceUnavailable
		base := &direct{handler: func(w http.ResponseWriter, _ *http.Request) {
			sent++
			w.WriteHeader(status)
		}}
		transport, n := NewTransport(base, WithAttempts(1)), 0
		transport.chance = func() float64 { n++; return float64(n%100) / 100 }
		try := func(n int) (held int) {
			sent = 0
			for range n {
				time.Sleep(10 * time.Millisecond)
				resp, err := transport.RoundTrip(call())
				var throttled *ThrottledError
				switch {
				case err == nil:
					_ = resp.Body.Close()
				case !errors.As(err, &throttled) || throttled.Host != "example.com" || !(throttled.Share > 0):
					t.Fatalf("error %v, want a *ThrottledError of example.com", err)
				default:
					held++
				}
			}
			return held
		}
		if held := try(fewest); held != 0 || sent != fewest {
			t.Errorf("%d of the first %d held back, want none", held, fewest)
		}
		if held := try(1000); held < 970 || sent == 0 {
			t.Errorf("%d of 1000 held back, %d sent; want nearly all, and some to find out", held, sent)
		}
		status = http.StatusOK
		time.Sleep(2 * time.Minute)
		if held := try(1000); held != 0 {
			t.Errorf("%d of 1000 held back by a server that has recovered, want none", held)
		}
	})
}

// A server that accepts every second request is not throttled: that is what K = 2 means.
func TestTransportLetsHalfBeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		transport := steady(&direct{handler: func(w http.ResponseWriter, _ *http.Request) {
			n++
			if n%2 == 1 {
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}})
		transport.chance = func() float64 { return 0.1 }
		for range 500 {
			send(t, transport, call())
		}
		if got := transport.Stats(); got != (TransportStats{}) || n != 500 {
			t.Errorf("%d sent, stats %+v; want 500 sent, and nothing held back", n, got)
		}
	})
}

// One host's trouble is not another's, and many hosts do not fill the memory.
func TestTransportTellsHostsApart(t *testing.T) {
	transport := steady(&direct{handler: func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "BUSY.example.com" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}}, WithAttempts(1))
	to := func(host string) *http.Request {
		return httptest.NewRequest(http.MethodGet, "http://"+host+"/", http.NoBody)
	}
	for range 2 * fewest {
		resp, err := transport.RoundTrip(to("BUSY.example.com"))
		if err == nil {
			_ = resp.Body.Close()
		}
		send(t, transport, to("fine.example.com"))
	}
	if got := transport.Stats().Throttled; got != 2*fewest-fewest {
		t.Errorf("%d held back, want all after the first %d", got, fewest)
	}
	for i := range 2 * maxHosts {
		send(t, transport, to(strconv.Itoa(i)+".example.com"))
	}
	if got := len(transport.hosts.each); got != maxHosts {
		t.Errorf("%d hosts are remembered, want %d", got, maxHosts)
	}
}

// Over a real connection, by many at once: the body of a refusal is read, so that its connection serves again.
func TestTransportOverTheNetwork(t *testing.T) {
	limiter, err := leaseway.Embedded(mustParse(t, "rules: [{id: r, keyBy: apikey, limit: 20, window: 1s, burst: 1}]"))
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close(context.Background())
	s := httptest.NewUnstartedServer(New(limiter).Handler(noop()))
	var connections atomic.Int64
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	client := &http.Client{Transport: NewTransport(s.Client().Transport), Timeout: time.Minute}
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("a body"))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-Api-Key", strconv.Itoa(caller/2))
			resp, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %d, want 200", resp.StatusCode)
			}
		})
	}
	callers.Wait()
	if got := connections.Load(); got > 4 {
		t.Errorf("%d connections for 4 callers", got)
	}
}
