package leasewayhttp

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

// startLimited serves handler behind a real limiter of three requests, in a window that ends after any test.
func startLimited(t *testing.T, http2 bool, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	limiter, err := leaseway.Embedded(mustParse(t, "rules: [{id: r, algorithm: fixed_window, limit: 3, window: 8784h}]"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close(context.Background()) })
	s := httptest.NewUnstartedServer(New(limiter).Handler(handler))
	if s.EnableHTTP2 = http2; http2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// webSocket is the server's side of RFC 6455, as far as one short text goes: it echoes what it is sent, in capitals.
func webSocket(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "this is a WebSocket", http.StatusUpgradeRequired)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		acceptOf(r.Header.Get("Sec-WebSocket-Key")))
	rw.Flush()
	for {
		var head [6]byte // a final text of less than 126 bytes, and its mask
		if _, err := io.ReadFull(rw, head[:]); err != nil {
			return
		}
		text := make([]byte, head[1]&0x7f)
		if _, err := io.ReadFull(rw, text); err != nil {
			return
		}
		for i := range text {
			text[i] ^= head[2+i%4]
		}
		_, _ = rw.Write(append([]byte{head[0], byte(len(text))}, strings.ToUpper(string(text))...))
		rw.Flush()
	}
}

func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// A WebSocket is one request, however much goes over it; one too many is refused in HTTP, before it is one.
func TestWebSocketsAreLimitedWhenTheyOpen(t *testing.T) {
	s := startLimited(t, false, webSocket)
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	for i := range 4 {
		var dialer net.Dialer
		conn, err := dialer.DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n", key)
		in := bufio.NewReader(conn)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if i == 3 {
			if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
				t.Errorf("a fourth WebSocket: status %d, fields %v", resp.StatusCode, resp.Header)
			}
			return
		}
		if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Accept") != acceptOf(key) {
			t.Fatalf("WebSocket %d: status %d, fields %v", i, resp.StatusCode, resp.Header)
		}
		for _, text := range []string{"hello", "and more", "than three", "texts"} {
			mask := []byte{0x37, 0xfa, 0x21, 0x3d}
			frame := append([]byte{0x81, 0x80 | byte(len(text))}, mask...)
			for j := range len(text) {
				frame = append(frame, text[j]^mask[j%4])
			}
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 2+len(text))
			if _, err := io.ReadFull(in, got); err != nil || string(got[2:]) != strings.ToUpper(text) {
				t.Fatalf("echo of %q: %q, %v", text, got, err)
			}
		}
	}
}

// Events arrive one by one, and whoever stops listening ends the handler.
func TestEventStreamsFlowAndEnd(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			next, ended := make(chan int), make(chan struct{})
			s := startLimited(t, http2, func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				w.Header().Set("Content-Type", "text/event-stream")
				for {
					select {
					case n := <-next:
						fmt.Fprintf(w, "data: %d\n\n", n)
						if err := http.NewResponseController(w).Flush(); err != nil {
							t.Errorf("flush: %v", err)
						}
					case <-r.Context().Done():
						return
					}
				}
			})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			go func() { next <- 0 }()
			resp, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.Proto != name || resp.Header.Get("X-Ratelimit-Remaining") != "2" {
				t.Errorf("%s, fields %v", resp.Proto, resp.Header)
			}
			events := bufio.NewReader(resp.Body)
			for n := range 5 {
				if n > 0 {
					next <- n
				}
				if line, err := events.ReadString('\n'); line != fmt.Sprintf("data: %d\n", n) {
					t.Fatalf("event %d: %q, %v", n, line, err)
				}
				if _, err := events.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
			}
			stop()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Error("the handler goes on without a listener")
			}
		})
	}
}

// zeros is a body of n bytes that are never in memory together.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// A body that is larger than any buffer goes in and out while it is sent.
func TestLargeBodiesStream(t *testing.T) {
	const size = 64 << 20
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			s := startLimited(t, http2, func(w http.ResponseWriter, r *http.Request) {
				if err := http.NewResponseController(w).EnableFullDuplex(); err != nil && !http2 {
					t.Errorf("full duplex: %v", err)
				}
				if n, err := io.Copy(w, r.Body); n != size || err != nil {
					t.Errorf("the handler got %d bytes: %v", n, err)
				}
			})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, zeros(size))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil || resp.Proto != name {
				t.Errorf("%s: %d bytes came back: %v", resp.Proto, n, err)
			}
			if got := resp.Header.Get("X-Ratelimit-Remaining"); got != "2" {
				t.Errorf("X-RateLimit-Remaining is %q, want 2", got)
			}
		})
	}
}

// What a client sends at once over one connection is limited like the rest.
func TestManyStreamsOfOneConnection(t *testing.T) {
	s := startLimited(t, true, func(http.ResponseWriter, *http.Request) {})
	codes := make(chan int)
	for range 20 {
		go func() {
			resp, err := s.Client().Get(s.URL)
			if err != nil {
				codes <- 0
				return
			}
			resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	count := map[int]int{}
	for range 20 {
		count[<-codes]++
	}
	if count[http.StatusOK] != 3 || count[http.StatusTooManyRequests] != 17 {
		t.Errorf("answers by status: %v, want 3 of 200 and 17 of 429", count)
	}
}
