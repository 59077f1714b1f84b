package leasewayhttp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startServer serves handler behind a middleware that allows everything, over a real connection.
func startServer(t *testing.T, handler http.HandlerFunc, start func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(newMiddleware(&verdict{decision: allowed()}, nil).Handler(handler))
	start(s)
	t.Cleanup(s.Close)
	return s
}

func fetch(t *testing.T, s *httptest.Server, path string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// A middleware that wraps the writer hides what it can do; this one hands over what it got.
func TestTheWriterIsNotWrapped(t *testing.T) {
	w := httptest.NewRecorder()
	newMiddleware(&verdict{decision: allowed()}, nil).Handler(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
		if got != http.ResponseWriter(w) {
			t.Errorf("the handler writes to a %T", got)
		}
	})).ServeHTTP(w, get("/"))
}

func TestFlushedFieldsArriveBeforeTheEnd(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){
		"HTTP/1.1": (*httptest.Server).Start,
		"HTTP/2.0": func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.StartTLS()
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			s := startServer(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "one\n")
				w.(http.Flusher).Flush()
				select {
				case <-release:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "two\n")
			}, start)
			resp := fetch(t, s, "/")
			defer resp.Body.Close()
			if resp.Proto != name {
				t.Errorf("the protocol is %s", resp.Proto)
			}
			if got := resp.Header.Get("Ratelimit"); !strings.HasPrefix(got, `"search";r=149;`) {
				t.Errorf("RateLimit is %q", got)
			}
			body := bufio.NewReader(resp.Body)
			if line, err := body.ReadString('\n'); line != "one\n" {
				t.Fatalf("before the end: %q, %v", line, err)
			}
			close(release)
			if rest, err := io.ReadAll(body); string(rest) != "two\n" {
				t.Fatalf("at the end: %q, %v", rest, err)
			}
		})
	}
}

func TestHandlersCanHijackAndUpgrade(t *testing.T) {
	s := startServer(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Errorf("hijack: %v", err)
			return
		}
		defer conn.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprint(rw, "echo "+line)
		rw.Flush()
	}, (*httptest.Server).Start)

	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	defer resp.Body.Close()
	fmt.Fprint(conn, "hello\n")
	if line, err := in.ReadString('\n'); line != "echo hello\n" {
		t.Errorf("%q, %v", line, err)
	}
}

// Files go out by sendfile only through the writer's own ReadFrom.
func TestFilesAreSentThroughReadFrom(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(io.ReaderFrom); !ok {
			t.Errorf("a %T has no ReadFrom", w)
		}
		http.ServeFile(w, r, name)
	}, (*httptest.Server).Start)
	resp := fetch(t, s, "/")
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d arrived: %v", len(got), len(content), err)
	}
	if resp.Header.Get("Ratelimit") == "" {
		t.Error("no RateLimit")
	}
}

func TestResponseControllerWorks(t *testing.T) {
	s := startServer(t, func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		deadline := time.Now().Add(time.Minute)
		for what, err := range map[string]error{
			"SetReadDeadline":  c.SetReadDeadline(deadline),
			"SetWriteDeadline": c.SetWriteDeadline(deadline),
			"EnableFullDuplex": c.EnableFullDuplex(),
			"Flush":            c.Flush(),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}, (*httptest.Server).Start)
	resp := fetch(t, s, "/")
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestAbortedHandlersCloseTheConnection(t *testing.T) {
	s := startServer(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, (*httptest.Server).Start)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err == nil {
		resp.Body.Close()
		t.Errorf("status %d, want a closed connection", resp.StatusCode)
	}
}

// A refused upload is answered without reading it, over either protocol.
func TestRefusedUploadsAreAnswered(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		h := newMiddleware(&verdict{decision: overLimit()}, nil).Handler(http.NotFoundHandler())
		s := httptest.NewUnstartedServer(h)
		s.EnableHTTP2 = http2
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		s.StartTLS()
		t.Cleanup(s.Close)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(strings.Repeat("x", 64<<10)))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests || err != nil || !bytes.Contains(body, []byte(`"rule":"search"`)) {
			t.Errorf("HTTP/2 %v: status %d, body %q, %v", http2, resp.StatusCode, body, err)
		}
		if got := resp.Header.Get("Retry-After"); got != "5" {
			t.Errorf("HTTP/2 %v: Retry-After %q", http2, got)
		}
	}
}
