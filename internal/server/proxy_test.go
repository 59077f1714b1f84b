package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/websocket"
)

func loadProxy(args ...string) (Config, error) {
	settings := NewProxySettings()
	if err := settings.Flags().Parse(args); err != nil {
		return Config{}, err
	}

	return settings.Load([]string{"HOME=/home/ada"})
}

// startProxy runs a whole proxy on free ports, which writes its access log to out.
func startProxy(t *testing.T, out io.Writer, args ...string) *running {
	t.Helper()

	config, err := loadProxy(append([]string{
		"--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log-format", "json", "--data-dir", dataDir(t),
	}, args...)...)
	must(t, err)

	ctx, stop := context.WithCancel(context.Background())
	r := &running{Log: &buffer{}, scheme: "http", client: &http.Client{Transport: &http.Transport{}}, stop: stop, done: make(chan error, 1)}

	go func() { r.done <- RunProxy(ctx, config, out, r.Log) }()

	t.Cleanup(func() {
		if err := r.end(t); err != nil {
			t.Errorf("the proxy ended with %v; its log:\n%s", err, r.Log)
		}
	})

	eventually(t, "the proxy listens", func() bool {
		r.HTTP, r.GRPC = r.logged("listening", "http"), r.logged("listening", "metrics")

		return r.HTTP != ""
	})

	return r
}

// inspect asks the listener for metrics.
func (r *running) inspect(t *testing.T, path string) answer {
	t.Helper()

	of := *r
	of.HTTP, of.scheme, of.client = r.GRPC, "http", &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

	return of.call(t, http.MethodGet, path, "")
}

func echoing(t *testing.T) *httptest.Server {
	t.Helper()

	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	t.Cleanup(up.Close)

	return up
}

func TestAProxyLimitsLogsAndCounts(t *testing.T) {
	var out buffer

	rules := file(t, "rules: [{id: two, keyBy: ip, limit: 2, window: 1h}]")
	r := startProxy(t, &out, "--upstream", echoing(t).URL, "--rules", rules, "--access-log", "-")

	for _, want := range []int{200, 200, 429} {
		if got := r.call(t, http.MethodPost, "/a?b", "{}"); got.status != want {
			t.Errorf("got %d %s, want %d", got.status, got.body, want)
		}
	}

	// The rules are followed, as those of a server are.
	replace(t, rules, "rules: []")
	eventually(t, "the new rules are in force", func() bool { return r.call(t, http.MethodGet, "/", "").status == http.StatusOK })

	metrics := r.inspect(t, "/metrics").body
	for _, line := range []string{
		`leaseway_proxy_requests_total{status="2xx"}`, `leaseway_upstream_in_service{upstream=`, "leaseway_access_log_lines_total",
		"leaseway_rules_version",
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("/metrics has no %s", line)
		}
	}

	for _, path := range []string{"/readyz", "/healthz"} {
		if got := r.inspect(t, path); got.status != http.StatusOK {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}

	must(t, r.end(t))

	if !strings.Contains(out.String(), `"POST /a?b HTTP/1.1" 429 `) || strings.Count(out.String(), "\n") < 3 {
		t.Errorf("logged %s", out.String())
	}
}

// Certificates are renewed while requests are under way, and none of them fails.
func TestAProxysCertificateIsReplacedUnderLoad(t *testing.T) {
	authority, dir := newAuthority(t), t.TempDir()
	certFile, keyFile, _ := authority.issue(t, dir, "server")
	r := startProxy(t, io.Discard, "--upstream", echoing(t).URL, "--rules", file(t, "rules: []"), "--tls-cert", certFile, "--tls-key", keyFile)
	r.overTLS(authority.config())

	var (
		callers  sync.WaitGroup
		failures atomic.Int64
		renewed  atomic.Bool
	)

	for range 2 {
		callers.Go(func() {
			for !renewed.Load() {
				resp, err := r.client.Get("https://" + r.HTTP + "/")
				if err != nil {
					failures.Add(1)
					t.Error(err)

					return
				}

				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}

	_, _, want := authority.issue(t, dir, "server")
	eventually(t, "the renewed certificate is served", func() bool {
		resp, err := r.client.Get("https://" + r.HTTP + "/")
		must(t, err)

		_ = resp.Body.Close()

		if resp.ProtoMajor != 2 {
			t.Fatalf("got HTTP/%d", resp.ProtoMajor)
		}

		return resp.TLS.PeerCertificates[0].SerialNumber.Cmp(want) == 0
	})
	renewed.Store(true)
	callers.Wait()
}

// Browsers open a WebSocket over HTTP/1.1, at an address that speaks HTTP/2 as well.
func TestAWebSocketPassesOverTLS(t *testing.T) {
	authority, dir := newAuthority(t), t.TempDir()
	certFile, keyFile, _ := authority.issue(t, dir, "server")
	up := httptest.NewServer(websocket.Handler(func(c *websocket.Conn) { _, _ = io.Copy(c, c) }))
	t.Cleanup(up.Close)

	r := startProxy(t, io.Discard, "--upstream", up.URL, "--rules", file(t, "rules: []"), "--tls-cert", certFile, "--tls-key", keyFile)

	config, err := websocket.NewConfig("wss://"+r.HTTP+"/socket", "https://a.example/")
	must(t, err)

	config.TlsConfig = authority.config()

	conn, err := config.DialContext(t.Context())
	must(t, err)

	defer conn.Close()

	must(t, websocket.Message.Send(conn, "over TLS"))

	var got string

	must(t, websocket.Message.Receive(conn, &got))

	if got != "over TLS" {
		t.Errorf("got %q", got)
	}
}

// A stop waits for what is under way: a request is answered whole, and a WebSocket that does not end is cut off in the end.
func TestAProxyDrains(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/socket", websocket.Handler(func(c *websocket.Conn) { _, _ = io.Copy(c, c) }))
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish

		_, _ = io.WriteString(w, "whole")
	})

	up := httptest.NewServer(mux)
	t.Cleanup(up.Close)

	r := startProxy(t, io.Discard, "--upstream", up.URL, "--rules", file(t, "rules: []"), "--drain-timeout", "1s")

	conn, err := websocket.Dial("ws://"+r.HTTP+"/socket", "", "http://a.example/")
	must(t, err)

	defer conn.Close()

	slow := make(chan answer, 1)

	go func() { slow <- r.call(t, http.MethodGet, "/slow", "") }()

	<-began
	r.stop()
	eventually(t, "no connection is taken any more", func() bool {
		conn, err := net.Dial("tcp", r.HTTP)
		if err == nil {
			_ = conn.Close()
		}

		return err != nil
	})
	close(finish)

	if got := <-slow; got.status != http.StatusOK || got.body != "whole" {
		t.Errorf("got %d %s", got.status, got.body)
	}

	must(t, r.end(t))

	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the WebSocket is still open")
	}
}

// Who rotates logs moves the file away; nobody has to tell the proxy.
func TestAnAccessLogThatIsMovedAwayIsBegunAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	r := startProxy(t, io.Discard, "--upstream", echoing(t).URL, "--rules", file(t, "rules: []"), "--access-log", path,
		"--access-log-format", "json")
	has := func(path, text string) func() bool {
		return func() bool {
			got, err := os.ReadFile(path)

			return err == nil && strings.Contains(string(got), text)
		}
	}

	r.call(t, http.MethodGet, "/first", "")
	eventually(t, "the line is written", has(path, `"path":"/first"`))
	must(t, os.Rename(path, path+".1"))
	eventually(t, "the file is begun anew", has(path, ""))
	r.call(t, http.MethodGet, "/second", "")
	eventually(t, "the next line is in it", has(path, `"path":"/second"`))
}

// What the API behind a proxy can do is the proxy's to announce: a fifth of it is kept for critical requests.
func TestAProxyAnnouncesTheWorkersOfItsAPI(t *testing.T) {
	inside, leave := make(chan struct{}, 4), make(chan struct{})

	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			inside <- struct{}{}

			<-leave
		}
	}))
	t.Cleanup(api.Close)

	r := startProxy(t, io.Discard, "--upstream", api.URL, "--workers", "5",
		"--rules", file(t, "{rules: [], shedders: {fleet: {}}, classes: [{class: critical, scope: /paid}]}"))
	eventually(t, "the fleet knows of them", func() bool {
		return strings.Contains(r.inspect(t, "/metrics").body, "\nleaseway_fleet_capacity 5\n")
	})

	var slow sync.WaitGroup
	for range 4 {
		slow.Go(func() { r.call(t, http.MethodGet, "/slow", "") })
	}

	for range 4 {
		<-inside
	}

	for path, want := range map[string]int{"/read": http.StatusServiceUnavailable, "/paid": http.StatusOK} {
		if got := r.call(t, http.MethodGet, path, ""); got.status != want {
			t.Errorf("%s beside four slow requests of five: status %d, want %d: %s", path, got.status, want, got.body)
		}
	}

	close(leave)
	slow.Wait()
}

func TestProxySettingsThatCannotBeUsedAreAllNamed(t *testing.T) {
	_, err := loadProxy("--listen", "nowhere", "--metrics-listen", "0.0.0.0:1", "--trusted-proxies", "x", "--max-body", "-1", "--max-header", "1",
		"--access-log-format", "xml", "--idle-timeout", "0s", "--tls-key", "key", "--docs-url", "limits.html", "--workers", "-1")

	wrong, ok := errors.AsType[*UsageError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}

	for _, flag := range []string{
		"--upstream is missing", "--rules or --coordinator is missing", "--listen", "--metrics-listen 0.0.0.0:1", "--trusted-proxies",
		"--max-body", "--max-header", "--access-log-format", "--idle-timeout", "--workers", `--docs-url "limits.html" is no URL`, "--tls-cert and --tls-key",
	} {
		if !strings.Contains(wrong.Error(), flag) {
			t.Errorf("nothing is said of %q in\n%s", flag, wrong)
		}
	}

	// What is said to mend it is there: a proxy has no tokens.
	if strings.Contains(wrong.Error(), "--token-file") {
		t.Errorf("a flag that the proxy has not is named in\n%s", wrong)
	}
}

// One setting is wrong, and it alone is named.
func TestAProxyNamesTheSettingThatIsWrong(t *testing.T) {
	usable := []string{"--upstream", "http://a", "--rules", file(t, "rules: []"), "--data-dir", dataDir(t), "--listen", "127.0.0.1:0"}

	for _, row := range []struct{ flag, value, want string }{
		{"--upstream", "nonsense", `"nonsense" is no upstream: write http://HOST:PORT`},
		{"--upstream", "http://a/b", `"http://a/b" has more than a host and a port`},
		{"--balance", "random", `"random" is neither round-robin nor least-in-flight`},
		{"--health-path", "healthz", `"healthz" is no path: write one such as /healthz`},
		{"--cors-origins", "a.example", `"a.example" is no origin: write what browsers send`},
		{"--upstream-ca", "/does/not/exist", "open /does/not/exist: no such file or directory (check the path)"},
	} {
		config, err := loadProxy(append(usable, row.flag, row.value)...)
		must(t, err)

		err = RunProxy(t.Context(), config, io.Discard, io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), row.flag+": "+row.want) {
			t.Errorf("%s %s: got %v, want %q", row.flag, row.value, err, row.want)
		}
	}
}

// The address of a proxy may be a public one: it is there for everybody.
func TestAProxyMayListenForEverybody(t *testing.T) {
	if _, err := loadProxy("--upstream", "http://a", "--rules", "r", "--listen", "0.0.0.0:80"); err != nil {
		t.Error(err)
	}
}
