package proxy

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func named(t *testing.T, name string) string {
	t.Helper()

	return upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, name, string(body))
	}).URL
}

func TestUpstreamsTakeTurns(t *testing.T) {
	f := serve(t, noRules, Config{Upstreams: []string{named(t, "a"), named(t, "b"), named(t, "c")}})

	var got []string

	for range 6 {
		_, body := f.get(t, "/")
		got = append(got, body)
	}

	if !slices.Equal(got[:3], got[3:]) || len(slices.Compact(slices.Sorted(slices.Values(got)))) != 3 {
		t.Errorf("got %v", got)
	}
}

func TestTheIdlestUpstreamIsChosen(t *testing.T) {
	began, done := make(chan struct{}), make(chan struct{})
	slow := upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- struct{}{}

			<-done
		}
	})
	f := serve(t, noRules, Config{Upstreams: []string{slow.URL, named(t, "b")}, Balance: LeastInFlight})
	ended := make(chan struct{}, 2)

	ask := func() {
		if resp, err := f.client.Get(f.url + "/slow"); err == nil {
			_ = resp.Body.Close()
		}

		ended <- struct{}{}
	}

	// One of two requests in a row goes to each; the slow one occupies its upstream.
	go ask()
	go ask()

	<-began

	for range 4 {
		// A client may have its answer a moment before the proxy is done with it.
		eventually(t, "only the slow request is in flight", func() bool {
			s := f.Stats().Upstreams

			return s[0].InFlight == 1 && s[1].InFlight == 0
		})

		if _, body := f.get(t, "/"); body != "b" {
			t.Errorf("got %q, want the upstream with nothing in flight", body)
		}
	}

	close(done)
	<-ended
	<-ended
}

// A request that nothing was sent of goes to another upstream, with its body.
func TestAnUpstreamThatIsDownCostsNoRequest(t *testing.T) {
	f := serve(t, noRules, Config{Upstreams: []string{silent(t), named(t, "b")}})

	for i := range 8 {
		r, _ := http.NewRequest(http.MethodPost, f.url+"/", strings.NewReader("ody"))
		if resp, body := f.do(t, r); resp.StatusCode != http.StatusOK || body != "body" {
			t.Errorf("request %d: got %d %s", i, resp.StatusCode, body)
		}
	}

	s := f.Stats()
	if s.Retries != failuresOut || s.Upstreams[0].InService || s.Upstreams[0].Failures != failuresOut || !s.Upstreams[1].InService {
		t.Errorf("got %+v, want one upstream out of service after %d failures", s, failuresOut)
	}
}

// With all of them out of service, requests are the only way to find out that one is back.
func TestTheOnlyUpstreamIsAskedAgainAtOnce(t *testing.T) {
	var up atomic.Bool

	server := upstreamOf(t, func(http.ResponseWriter, *http.Request) {
		if !up.Load() {
			panic(http.ErrAbortHandler)
		}
	})

	var log lockedBuffer

	f := serve(t, noRules, Config{Upstreams: []string{server.URL}, Logger: slog.New(slog.NewTextHandler(&log, nil))})

	// Whoever runs it hears of the first request that failed, and not of each.
	const single, out, back = "did not answer a request", "is out of service", "is back in service"

	wantLogged := func(when string, counts map[string]int) {
		t.Helper()

		for what, want := range counts {
			if got := strings.Count(log.String(), what); got != want {
				t.Errorf("%s: the log says %d times %q, want %d:\n%s", when, got, what, want, log.String())
			}
		}
	}

	for i := range failuresOut + 1 {
		if resp, body := f.get(t, "/"); resp.StatusCode != http.StatusBadGateway {
			t.Fatalf("got %d %s", resp.StatusCode, body)
		}

		if i == 0 {
			wantLogged("after one failure", map[string]int{single: 1, out: 0})
		}
	}

	wantLogged("down", map[string]int{single: 1, out: 1, back: 0})

	if f.Stats().Upstreams[0].InService {
		t.Error("it is in service although it only failed")
	}

	up.Store(true)

	if resp, body := f.get(t, "/"); resp.StatusCode != http.StatusOK || !f.Stats().Upstreams[0].InService {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}

	wantLogged("up again", map[string]int{single: 1, out: 1, back: 1})
}

func TestProbesTakeAnUpstreamOutAndBringItBack(t *testing.T) {
	var sick atomic.Bool

	a := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" && sick.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}

		fmt.Fprint(w, "a")
	})
	f := serve(t, noRules, Config{Upstreams: []string{a.URL, named(t, "b")}, HealthPath: "/healthz", HealthEvery: 500 * time.Millisecond})
	inService := func() bool { return f.Stats().Upstreams[0].InService }

	sick.Store(true)
	eventually(t, "it is out of service", func() bool { return !inService() })

	for range 4 {
		if _, body := f.get(t, "/"); body != "b" {
			t.Errorf("got %q", body)
		}
	}

	sick.Store(false)
	eventually(t, "it is back", inService)
}

// Time is given, so that nothing waits for it: an upstream is out for outFor, and one failure more takes it out again.
func TestATimeline(t *testing.T) {
	u := &upstream{}
	at := func(s float64) time.Time { return time.Unix(1_000_000, int64(s*1e9)) }

	for _, row := range []struct {
		at     float64
		answer bool
		want   bool // in service afterwards
	}{
		{0, false, true},
		{1, false, true},
		{1.5, true, true}, // no longer in a row
		{2, false, true},
		{3, false, true},
		{4, false, false},
		{4 + outFor.Seconds(), false, false}, // its turn, and it fails again
		{4 + 2*outFor.Seconds(), true, true},
		{20, false, true}, // counted from the beginning
		{21, false, true},
		{22, false, false},
	} {
		if row.answer {
			u.heard()
		} else {
			u.failed(at(row.at))
		}

		if got := u.inService(at(row.at)); got != row.want {
			t.Errorf("at %v: in service %v, want %v", row.at, got, row.want)
		}
	}

	if !u.inService(at(-3_600)) {
		t.Error("it is out for an hour after the clock was set back by one")
	}

	u.probed = true
	u.failed(at(23))

	if u.inService(at(-3_600)) {
		t.Error("a clock that was set back did what a probe should")
	}
}

func TestSettingsThatCannotBeUsedAreNamed(t *testing.T) {
	for _, row := range []struct {
		config Config
		want   string
	}{
		{Config{}, "Upstreams: there are 0"},
		{Config{Upstreams: []string{"127.0.0.1:80"}}, "write http://HOST:PORT"},
		{Config{Upstreams: []string{"ftp://a"}}, `"ftp://a" is no upstream`},
		{Config{Upstreams: []string{"http://a/path"}}, "more than a host"},
		{Config{Upstreams: []string{"http://u:secret@a"}}, "more than a host"},
		{Config{Upstreams: []string{"http://a"}, Balance: "random"}, `Balance: "random" is neither`},
		{Config{Upstreams: []string{"http://a"}, HealthPath: "healthz"}, `HealthPath: "healthz" is no path`},
		{Config{Upstreams: []string{"http://a"}, MaxBody: -1}, "MaxBody: -1 is negative"},
		{Config{Upstreams: []string{"http://a"}, Origins: []string{"https://a.example/x"}}, `Origins: "https://a.example/x" is no origin`},
		{Config{Upstreams: []string{"http://a"}, Origins: []string{"*", "a.example"}}, `Origins: "a.example" is no origin`},
	} {
		_, err := New(nil, row.config)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: got %v, want %q", row.config, err, row.want)
		}
	}
}
