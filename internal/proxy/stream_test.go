package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

func TestEventsArriveWhenTheyAreSent(t *testing.T) {
	next := make(chan string)
	up := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")

		for text := range next {
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
		}
	})
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}})

	answered := make(chan *http.Response, 1)

	go func() {
		resp, err := f.client.Get(f.url + "/events") //nolint:bodyclose // closed by who receives it
		if err != nil {
			t.Error(err)
		}

		answered <- resp
	}()

	next <- "0"

	resp := <-answered
	defer resp.Body.Close()

	events := bufio.NewReader(resp.Body)

	for i := range 3 { // each is read before the next is sent
		if got, err := events.ReadString('\n'); err != nil || got != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("got %q, %v", got, err)
		}

		_, _ = events.ReadString('\n')

		next <- strconv.Itoa(i + 1)
	}

	close(next)
}

// An answer that says how long it will be is no reason to wait for all of it.
func TestAnAnswerOfKnownLengthIsSentOnAsItComes(t *testing.T) {
	for _, first := range []string{"", "half"} {
		next := make(chan struct{})
		up := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "8")
			_, _ = io.WriteString(w, first)
			w.(http.Flusher).Flush()
			<-next

			_, _ = io.WriteString(w, "halfhalf"[len(first):])
		})
		f := serve(t, noRules, Config{Upstreams: []string{up.URL}})

		resp, err := f.client.Get(f.url)
		if err != nil {
			t.Fatal(err)
		}

		text := make([]byte, 8)
		if _, err := io.ReadFull(resp.Body, text[:len(first)]); err != nil {
			t.Error(err)
		}

		close(next)

		if _, err := io.ReadFull(resp.Body, text[len(first):]); err != nil || string(text) != "halfhalf" {
			t.Errorf("got %q, %v", text, err)
		}

		_ = resp.Body.Close()
	}
}

// The answer to a body's first half comes before its second half is sent: neither direction waits for the other.
func TestBothDirectionsStreamAtOnceOverHTTP2(t *testing.T) {
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()

		read := bufio.NewReader(r.Body)

		for {
			line, err := read.ReadString('\n')
			if err != nil {
				break
			}

			_, _ = io.WriteString(w, strings.ToUpper(line))
			w.(http.Flusher).Flush()
		}

		w.Header().Set("X-Sum", "done, "+r.Trailer.Get("X-Mine"))
	}))
	up.Config.Protocols = new(http.Protocols)
	up.Config.Protocols.SetUnencryptedHTTP2(true)
	up.Start()
	t.Cleanup(up.Close)

	f := serve(t, noRules, Config{Upstreams: []string{strings.Replace(up.URL, "http:", "h2c:", 1)}})
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)

	body, send := io.Pipe()
	r, _ := http.NewRequest(http.MethodPost, f.url+"/", body)
	r.Trailer = http.Header{"X-Mine": {"mine"}}

	resp, err := client.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	lines := bufio.NewReader(resp.Body)

	for _, word := range []string{"one", "two", "three"} {
		_, _ = io.WriteString(send, word+"\n")

		if got, err := lines.ReadString('\n'); err != nil || got != strings.ToUpper(word)+"\n" {
			t.Fatalf("got %q, %v", got, err)
		}
	}

	_ = send.Close()
	_, _ = io.ReadAll(lines)

	if got := resp.Trailer.Get("X-Sum"); got != "done, mine" || resp.ProtoMajor != 2 {
		t.Errorf("HTTP/%d, the trailer is %q", resp.ProtoMajor, got)
	}
}

func TestTrailersPassOverHTTP1(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		w.(http.Flusher).Flush() // or its length would be known, and there is no place for trailers then
		w.Header().Set(http.TrailerPrefix+"X-Sum", r.Trailer.Get("X-Mine"))
	})
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}})

	r, _ := http.NewRequest(http.MethodPost, f.url+"/", io.MultiReader(strings.NewReader("body")))
	r.Trailer = http.Header{"X-Mine": {"mine"}}

	if resp, body := f.do(t, r); body != "body" || resp.Trailer.Get("X-Sum") != "mine" {
		t.Errorf("got %q and %v", body, resp.Trailer)
	}
}

// A WebSocket is in flight for as long as it is open, under a concurrency rule, too.
func TestWebSocketsPassAndAreCounted(t *testing.T) {
	up := httptest.NewServer(websocket.Handler(func(c *websocket.Conn) {
		for {
			var text string
			if websocket.Message.Receive(c, &text) != nil || websocket.Message.Send(c, text) != nil {
				return
			}
		}
	}))
	t.Cleanup(up.Close)

	f := serve(t, "rules: [{id: one, algorithm: concurrency, limit: 1}]", Config{Upstreams: []string{up.URL}, BodyTimeout: time.Millisecond})
	dial := func() (*websocket.Conn, error) {
		return websocket.Dial("ws"+strings.TrimPrefix(f.url, "http")+"/socket", "", "http://a.example/")
	}

	conn, err := dial()
	if err != nil {
		t.Fatal(err)
	}

	for _, word := range []string{"one", strings.Repeat("x", 100_000)} {
		if err := websocket.Message.Send(conn, word); err != nil {
			t.Fatal(err)
		}

		var got string
		if err := websocket.Message.Receive(conn, &got); err != nil || got != word {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
	}

	if s := f.Stats(); s.Upgraded != 1 || s.InFlight != 1 || s.Upstreams[0].InFlight != 1 {
		t.Errorf("got %+v", s)
	}

	if _, err := dial(); err == nil {
		t.Error("a second WebSocket was opened, where one may be in flight")
	}

	_ = conn.Close()

	eventually(t, "the slot is back", func() bool {
		again, err := dial()
		if err == nil {
			_ = again.Close()
		}

		return err == nil
	})
	eventually(t, "nothing is in flight", func() bool {
		s := f.Stats()

		return s.InFlight == 0 && s.Upgraded == 0 && s.Upstreams[0].InFlight == 0
	})
}

// Fifty streams that their client leaves cost the caller nothing: four are open at once afterwards. A fifth is refused before any
// connection to the API is opened for it, and a stream that has ended has ended there, too.
func TestARefusedStreamReachesNoUpstream(t *testing.T) {
	const limit = 4

	var opened, open atomic.Int64

	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)

		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()

		<-r.Context().Done()
	}))
	up.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	up.Start()
	t.Cleanup(up.Close)

	f := serve(t, "rules: [{id: four, keyBy: ip, algorithm: concurrency, limit: 4}]", Config{Upstreams: []string{up.URL}})
	stream := func(ctx context.Context) *http.Response {
		t.Helper()

		r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}

		resp, err := f.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}

		return resp
	}
	inFlight := func(want int64) {
		t.Helper()
		eventually(t, "the slots and streams that are open are counted", func() bool {
			return f.limiter.Stats().Slots[0].InFlight == want && open.Load() == want
		})
	}

	for range 50 {
		ctx, leave := context.WithCancel(t.Context())

		resp := stream(ctx)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a stream got %d", resp.StatusCode)
		}

		leave()

		_ = resp.Body.Close()

		inFlight(0)
	}

	ctx, leave := context.WithCancel(t.Context())
	defer leave()

	for range limit {
		resp := stream(ctx)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("one of the four got %d", resp.StatusCode)
		}

		t.Cleanup(func() { _ = resp.Body.Close() })
	}

	inFlight(limit)

	before := opened.Load()

	for range 20 {
		resp := stream(ctx)
		if resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("a fifth got %d", resp.StatusCode)
		}

		_ = resp.Body.Close()
	}

	if n := opened.Load() - before; n != 0 || open.Load() != limit {
		t.Errorf("%d connections were opened for refused streams, and %d are at the API", n, open.Load())
	}

	leave()
	inFlight(0)
}

// A client that goes away in the middle of its body ends the upstream's request, and is not the upstream's failure.
func TestAClientThatGoesAwayEndsTheRequest(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	up := upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) {
		close(began)

		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}})

	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}

	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
	<-began

	_ = conn.Close()

	if err := <-ended; err == nil {
		t.Error("the upstream took half a body for a whole one")
	}

	eventually(t, "nothing is in flight", func() bool { s := f.Stats(); return s.InFlight == 0 && s.Upstreams[0].InFlight == 0 })

	if s := f.Stats().Upstreams[0]; s.Failures != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestAClientThatFallsSilentIsCutOff(t *testing.T) {
	up := upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}, BodyTimeout: time.Second})

	got := f.raw(t, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
	if !strings.HasPrefix(got, "HTTP/1.1 408") {
		t.Errorf("got %q", got)
	}

	if s := f.Stats().Upstreams[0]; s.Failures != 0 {
		t.Errorf("got %+v", s)
	}
}

// A time for silence is no time for the whole: a body and an answer that go on may last many times as long.
func TestAStreamMayOutlastEveryTimeout(t *testing.T) {
	const timeout, pause, pieces = 2 * time.Second, 250 * time.Millisecond, 12

	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	})
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}, BodyTimeout: timeout})

	body, send := io.Pipe()

	go func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()

		for range pieces {
			<-tick.C

			_, _ = send.Write([]byte("x"))
		}

		_ = send.Close()
	}()

	r, _ := http.NewRequest(http.MethodPost, f.url+"/", body)
	if resp, got := f.do(t, r); resp.StatusCode != http.StatusOK || len(got) != pieces {
		t.Errorf("got %d %q", resp.StatusCode, got)
	}

	// The connection is kept, and no old deadline hits what comes over it next.
	if resp, _ := f.get(t, "/"); resp.StatusCode != http.StatusOK {
		t.Errorf("afterwards: got %d", resp.StatusCode)
	}
}

// steps is a writer and a body that note what is done with them, in order.
type steps struct {
	*httptest.ResponseRecorder
	io.Reader

	mu    sync.Mutex
	taken []string
}

func (s *steps) take(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.taken = append(s.taken, step)
}

func (s *steps) Read(b []byte) (int, error) {
	s.take("read")

	return s.Reader.Read(b)
}

func (s *steps) Write(b []byte) (int, error) {
	s.take("write")

	return s.ResponseRecorder.Write(b)
}

func (s *steps) SetWriteDeadline(time.Time) error {
	s.take("time")

	return nil
}

// What net/http writes by itself has its time as well, whenever something was written before: that a client may send its body, as that is
// read, and the end of an answer, after the handler.
func TestWhatTheServerWritesHasItsTime(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}, BodyTimeout: 1}) // so that each deadline is set, and none passes here

	s := &steps{ResponseRecorder: httptest.NewRecorder(), Reader: strings.NewReader("body")}
	f.ServeHTTP(s, httptest.NewRequest(http.MethodPost, "/", s))

	if s.taken[0] != "time" || s.taken[len(s.taken)-1] != "time" || s.Body.String() != "body" {
		t.Errorf("an answer of %q came by these steps: %q", s.Body, s.taken)
	}
}

// An answer that breaks off must not look whole.
func TestAnAnswerThatBreaksOffBreaksOffForTheClient(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("x"), 10_000))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}})

	resp, err := f.client.Get(f.url + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	if n, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %d bytes and %v", n, err)
	}

	eventually(t, "nothing is in flight", func() bool { return f.Stats().InFlight == 0 })

	if n := f.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

func TestAClientThatDoesNotWaitIsLogged499(t *testing.T) {
	up := upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}})

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()

	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/", http.NoBody)
	if resp, err := f.client.Do(r); err == nil {
		_ = resp.Body.Close()

		t.Fatalf("got %d", resp.StatusCode)
	}

	eventually(t, "it is logged", func() bool { return f.log.last().Status == statusClientGone })
}
