package demo

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// answering is a server of the demo's kind, without any limit: the answer is in the path.
func answering(t *testing.T) *httptest.Server {
	t.Helper()

	s := httptest.NewServer(stamped(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/denied":
			w.WriteHeader(http.StatusTooManyRequests)
		case "/broken":
			w.WriteHeader(http.StatusBadGateway)
		case "/gone":
			panic(http.ErrAbortHandler)
		default:
			_, _ = w.Write([]byte("ok"))
		}
	})))
	t.Cleanup(s.Close)

	return s
}

func TestSenderKeepsWhatBecameOfEachRequest(t *testing.T) {
	host := strings.TrimPrefix(answering(t).URL, "http://")
	l := newLive(make([]caller, 1), time.Second)
	s := &sender{transport: &http.Transport{MaxIdleConnsPerHost: senders}, live: l, hosts: [servers]string{host, host, host}}

	paths := []string{"/", "/denied", "/broken", "/gone"}
	start, sent := time.Now(), 0

	s.run(t.Context(), &traffic{next: func() (shot, bool) {
		if sent == 400 {
			return shot{}, false
		}

		sent++

		return shot{server: sent % servers, target: &target{method: http.MethodGet, path: paths[sent%4], header: http.Header{}}}, true
	}}, start)

	got := map[int16]int{}

	for _, e := range s.events {
		got[e.status]++

		if e.before < start.UnixMicro() || e.after() > time.Now().UnixMicro() || e.after() <= e.before {
			t.Fatalf("decided from %d to %d, sent at %d", e.before, e.after(), start.UnixMicro())
		}
	}

	if got[200] != 100 || got[429] != 100 || got[502] != 100 || got[0] != 100 {
		t.Errorf("by status %v, want 100 each of 200, 429, 502 and none", got)
	}

	if now := l.snapshot(); now.counts[0].all() != 100 || now.counts[0].denied != 100 || now.failed != 200 || now.sent != 400 {
		t.Errorf("live: %+v, %d failed of %d", now.counts[0], now.failed, now.sent)
	}
}

func TestSenderStopsWithItsContext(t *testing.T) {
	host := strings.TrimPrefix(answering(t).URL, "http://")
	ctx, stop := context.WithCancel(t.Context())
	s := &sender{transport: &http.Transport{MaxIdleConnsPerHost: senders}, live: newLive(make([]caller, 1), time.Hour), hosts: [servers]string{host, host, host}}
	n := 0

	// The hundredth request would be due in an hour.
	s.run(ctx, &traffic{next: func() (shot, bool) {
		n++

		if n < 100 {
			return shot{target: &target{method: http.MethodGet, path: "/", header: http.Header{}}}, true
		}

		stop()

		return shot{at: time.Hour, target: &target{}}, true
	}}, time.Now())

	for _, e := range s.events {
		if e.status != 200 {
			t.Errorf("a request that was under way has the status %d", e.status)
		}
	}
}

func TestStampsThatAreNone(t *testing.T) {
	for _, text := range []string{"", "1", "x 1", "1 x", "1 -1", "1  1"} {
		if _, _, err := readStamp(http.Header{fieldStamp: {text}}); err == nil {
			t.Errorf("%q was read", text)
		}
	}

	if micros, nanos, err := readStamp(http.Header{fieldStamp: {"17 4"}}); micros != 17 || nanos != 4 || err != nil {
		t.Errorf("%d %d %v", micros, nanos, err)
	}
}
