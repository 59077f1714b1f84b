package leasewayhttp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

// slotted is a server behind a real limiter with a concurrency rule.
type slotted struct {
	*httptest.Server

	limiter *leaseway.Limiter
	entered chan struct{} // a handler has begun
}

func startSlotted(t *testing.T, doc string, http2 bool, handler http.HandlerFunc) *slotted {
	t.Helper()
	limiter, err := leaseway.Embedded(mustParse(t, doc))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close(context.Background()) })
	s := &slotted{limiter: limiter, entered: make(chan struct{}, 10_000)}
	s.Server = httptest.NewUnstartedServer(New(limiter).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.entered <- struct{}{}
		handler(w, r)
	})))
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// inFlight waits until n are in flight.
func (s *slotted) inFlight(t *testing.T, n int64) {
	t.Helper()
	const d = 20 * time.Second
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for {
		got := s.limiter.Stats().Slots[0].InFlight
		if got == n {
			return
		}
		if time.Since(start) > d {
			t.Fatalf("after %v %d are in flight, want %d", d, got, n)
		}
		<-tick.C
	}
}

func (s *slotted) get(ctx context.Context) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	return s.Client().Do(r)
}

const oneAtATime = "rules: [{id: r, algorithm: concurrency, limit: 1}]"

// However a handler ends, the next request finds its slot.
func TestASlotComesBackHoweverTheHandlerEnds(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"return":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") },
		"panic":   func(http.ResponseWriter, *http.Request) { panic("a bug of the API") },
		"abort":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"timeout": http.TimeoutHandler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), time.Millisecond, "").ServeHTTP,
		"hijack": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		},
		"hijack and panic": func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				defer conn.Close()
			}
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			limiter, err := leaseway.Embedded(mustParse(t, oneAtATime))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = limiter.Close(context.Background()) }()
			s := httptest.NewUnstartedServer(New(limiter).Handler(handler))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.Start()
			defer s.Close()
			for range 5 {
				resp, err := http.Get(s.URL)
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode == http.StatusTooManyRequests {
						t.Error("a request after the other was refused")
					}
				}
				// The client can have its answer a moment before the handler has returned.
				for range 20_000 {
					if limiter.Stats().Slots[0].InFlight == 0 {
						break
					}
					<-time.After(time.Millisecond)
				}
			}
			if n := limiter.Stats().Slots[0].InFlight; n != 0 {
				t.Errorf("%d are in flight", n)
			}
		})
	}
}

// What a refused caller is told.
func TestTooManyInFlight(t *testing.T) {
	end := make(chan struct{})
	s := startSlotted(t, "rules: [{id: uploads, algorithm: concurrency, limit: 2}]", false, func(_ http.ResponseWriter, _ *http.Request) { <-end })
	responses := make(chan *http.Response, 2)
	for range 2 {
		go func() {
			resp, err := s.get(t.Context()) //nolint:bodyclose // whoever gets it closes it
			if err != nil {
				t.Error(err)
			}
			responses <- resp
		}()
		<-s.entered
	}
	resp, err := s.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body problem
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]string{
		"RateLimit-Policy": `"uploads";q=2;qu="concurrent-requests"`, "RateLimit": `"uploads";r=0;t=1`,
		"Retry-After": "1", "X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "",
	} {
		if got := resp.Header.Get(field); got != want {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
	}
	if resp.StatusCode != http.StatusTooManyRequests || body.Reason != leaseway.ReasonTooManyInFlight || body.Type != typeQuotaExceeded ||
		!strings.Contains(body.Detail, "allows 2 requests in flight at a time") || !strings.Contains(body.Detail, "fewer in parallel") {
		t.Errorf("status %d, %+v", resp.StatusCode, body)
	}
	close(end)
	for range 2 {
		resp := <-responses
		resp.Body.Close()
		if got := resp.Header.Get(fieldRateLimit); got != `"uploads";r=1` && got != `"uploads";r=0` {
			t.Errorf("an admitted one has RateLimit: %s", got)
		}
	}
}

// When what is left of the fleet is for critical requests, others are told so with 503.
func TestAFleetThatIsFull(t *testing.T) {
	end := make(chan struct{})
	s := startSlotted(t, "rules: [{id: r, algorithm: concurrency, limit: 100}]\nshedders: {fleet: {capacity: 5}}", false,
		func(_ http.ResponseWriter, _ *http.Request) { <-end })
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			if resp, err := s.get(t.Context()); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%v, %v", resp, err)
			} else {
				resp.Body.Close()
			}
		})
		<-s.entered
	}
	resp, err := s.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || resp.Header.Get("Leaseway-Reason") != "shed_fleet" {
		t.Errorf("status %d, %v", resp.StatusCode, resp.Header)
	}
	close(end)
	clients.Wait()
	s.inFlight(t, 0)
}

// Fifty event streams are opened and aborted, in every way that a client has; then four can be open, and a fifth never
// reaches the handler.
func TestAbortedStreamsFreeTheirSlots(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			s := startSlotted(t, "rules: [{id: r, keyBy: ip, algorithm: concurrency, limit: 4}]", http2, func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			for i := range 50 {
				if how := i % 4; how > 0 && !http2 {
					abortByHand(t, s, how)
				} else {
					ctx, abort := context.WithCancel(t.Context())
					resp, err := s.get(ctx)
					if err != nil || resp.StatusCode != http.StatusOK {
						t.Fatalf("stream %d: %v, %v", i, resp, err)
					}
					<-s.entered
					abort()
					resp.Body.Close()
				}
				s.inFlight(t, 0)
			}
			for range 4 {
				resp, err := s.get(t.Context())
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("after all: %v, %v", resp, err)
				}
				t.Cleanup(func() { resp.Body.Close() })
				<-s.entered
			}
			resp, err := s.get(t.Context())
			if err != nil || resp.StatusCode != http.StatusTooManyRequests {
				t.Fatalf("a fifth: %v, %v", resp, err)
			}
			resp.Body.Close()
			if len(s.entered) != 0 {
				t.Error("a refused request reached the handler")
			}
			s.CloseClientConnections()
			s.inFlight(t, 0)
		})
	}
}

// abortByHand opens a stream, and ends it with a reset, by closing, or by closing the client's half alone.
func abortByHand(t *testing.T, s *slotted, how int) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tcp := conn.(*net.TCPConn)
	fmt.Fprint(tcp, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-s.entered
	switch how {
	case 1:
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	case 2:
		_ = tcp.Close()
	default:
		_ = tcp.CloseWrite()
		t.Cleanup(func() { _ = tcp.Close() })
	}
}

// A handler that does not look at its context holds the slot of a client that has gone for a second at most, and gives it
// back once all the same.
func TestAGoneClientIsNotInFlightForLong(t *testing.T) {
	end := make(chan struct{})
	s := startSlotted(t, oneAtATime, false, func(http.ResponseWriter, *http.Request) { <-end })
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-s.entered
		leave()
	}()
	if resp, err := s.get(ctx); err == nil {
		resp.Body.Close()
	}
	s.inFlight(t, 0)
	next := make(chan struct{})
	go func() {
		defer close(next)
		if resp, err := s.get(t.Context()); err == nil {
			resp.Body.Close()
		}
	}()
	<-s.entered
	s.inFlight(t, 1) // the second one's, whatever the first does
	close(end)
	<-next
	s.inFlight(t, 0)
}

// An upgraded connection is in flight until it is closed, long after its handler has returned.
func TestAHijackedConnectionHoldsItsSlot(t *testing.T) {
	conns := make(chan net.Conn, 1)
	s := startSlotted(t, oneAtATime, false, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		rw.Flush()
		conns <- conn
	})
	client, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	conn := <-conns
	for range 3 {
		refused, err := s.get(t.Context())
		if err != nil || refused.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("while it is open: %v, %v", refused, err)
		}
		refused.Body.Close()
	}
	if half, ok := conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		t.Error("the connection has lost its half-close")
	}
	s.inFlight(t, 1)
	_ = conn.Close()
	_ = conn.Close()
	s.inFlight(t, 0)
}

// What the writer could do without the middleware it can do with it.
func TestAHeldWriterHasAllAbilities(t *testing.T) {
	s := startSlotted(t, oneAtATime, false, func(w http.ResponseWriter, _ *http.Request) {
		_, flushes := w.(http.Flusher)
		_, hijacks := w.(http.Hijacker)
		_, reads := w.(io.ReaderFrom)
		_, writes := w.(io.StringWriter)
		rc := http.NewResponseController(w)
		if !flushes || !hijacks || !reads || !writes || rc.SetWriteDeadline(time.Time{}) != nil || rc.EnableFullDuplex() != nil {
			t.Errorf("flush %v, hijack %v, read from %v, write string %v", flushes, hijacks, reads, writes)
		}
	})
	resp, err := s.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// Who waits in a queue is served when a slot comes back, and leaves it at once when the client goes.
func TestAQueueOfRequests(t *testing.T) {
	end := make(chan struct{})
	s := startSlotted(t, "rules: [{id: r, algorithm: concurrency, limit: 1, queue: {size: 10, wait: 1m}}]", false,
		func(http.ResponseWriter, *http.Request) { <-end })
	codes := make(chan int, 2)
	ask := func(ctx context.Context) {
		resp, err := s.get(ctx)
		if err != nil {
			codes <- 0
			return
		}
		resp.Body.Close()
		codes <- resp.StatusCode
	}
	queued := func(n int64) {
		t.Helper()
		for range 20_000 {
			if s.limiter.Stats().Slots[0].Queued == n {
				return
			}
			<-time.After(time.Millisecond)
		}
		t.Fatalf("%d wait, want %d", s.limiter.Stats().Slots[0].Queued, n)
	}
	go ask(t.Context())
	<-s.entered
	ctx, leave := context.WithCancel(t.Context())
	go ask(ctx)
	queued(1)
	leave()
	if code := <-codes; code != 0 {
		t.Errorf("who left was answered %d", code)
	}
	queued(0)
	go ask(t.Context())
	queued(1)
	end <- struct{}{}
	<-s.entered
	end <- struct{}{}
	if a, b := <-codes, <-codes; a != http.StatusOK || b != http.StatusOK {
		t.Errorf("answers %d and %d", a, b)
	}
	s.inFlight(t, 0)
}

// A thousand clients that come, leave and are served at random leave nothing in flight, and never pass the limit.
func TestAThousandClientsLeaveNothingInFlight(t *testing.T) {
	const limit = 20
	var running, most atomic.Int64
	var crowd sync.Once
	crowded := make(chan struct{}) // once two were in flight at a time, which two that wait for each other are on any machine
	s := startSlotted(t, "rules: [{id: r, algorithm: concurrency, limit: 20, queue: {size: 50, wait: 200ms}}]", false,
		func(w http.ResponseWriter, r *http.Request) {
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m; m = most.Load() {
				most.CompareAndSwap(m, n)
			}
			if n > 1 {
				crowd.Do(func() { close(crowded) })
			}
			<-crowded
			select {
			case <-r.Context().Done():
			case <-time.After(time.Duration(rand.IntN(5)) * time.Millisecond):
			}
			_, _ = io.WriteString(w, "fine")
		})
	ask := func(ctx context.Context) {
		if resp, err := s.get(ctx); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() { ask(t.Context()) })
	}
	<-crowded
	start := make(chan struct{})
	for range 1000 {
		clients.Go(func() {
			<-start
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(300))*time.Millisecond)
			defer cancel()
			ask(ctx)
		})
	}
	close(start)
	clients.Wait()
	s.inFlight(t, 0)
	if m := most.Load(); m > limit || m < 2 {
		t.Errorf("%d were in flight at a time, want at most %d", m, limit)
	}
}
