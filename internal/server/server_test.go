package server

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// running is a whole server on free ports.
type running struct {
	HTTP, GRPC string // addresses
	Key        string // public key
	Log        *buffer

	scheme string
	client *http.Client
	token  string
	stop   context.CancelFunc
	done   chan error
}

// start runs a server with args beside free ports and a data directory, and waits until it listens.
func start(t *testing.T, args ...string) *running {
	t.Helper()

	args = append([]string{"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--log-format", "json", "--data-dir", dataDir(t)}, args...)

	config, err := load(args, nil)
	if err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	r := &running{Log: &buffer{}, scheme: "http", client: &http.Client{Transport: &http.Transport{}}, stop: stop, done: make(chan error, 1)}

	go func() { r.done <- Run(ctx, config, r.Log) }()

	t.Cleanup(func() {
		if err := r.end(t); err != nil {
			t.Errorf("the server ended with %v; its log:\n%s", err, r.Log)
		}
	})

	eventually(t, "the server listens: "+r.Log.String(), func() bool {
		r.HTTP, r.GRPC = r.logged("listening", "http"), r.logged("listening", "grpc")

		return r.HTTP != ""
	})

	r.Key = r.logged("answers are signed; give the public key to holders with --coordinator-key", "publicKey")

	return r
}

// logged is an attribute of the last line with a message.
func (r *running) logged(message, attribute string) string {
	value := ""

	lines := bufio.NewScanner(strings.NewReader(r.Log.String()))
	for lines.Scan() {
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) == nil && line["msg"] == message {
			value, _ = line[attribute].(string)
		}
	}

	return value
}

// end stops the server gracefully, once, and waits for it.
func (r *running) end(t *testing.T) error {
	t.Helper()
	r.client.CloseIdleConnections()
	r.stop()

	err, first := <-r.done
	if first {
		close(r.done)
	}

	return err
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
}

// call sends a request with the token of r, if it has one. A body is sent as JSON.
func (r *running) call(t *testing.T, method, path, body string) answer {
	t.Helper()

	req, err := http.NewRequestWithContext(t.Context(), method, r.scheme+"://"+r.HTTP+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}

	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}

	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}

	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}

	return answer{resp.StatusCode, resp.Header, string(text)}
}

// metric is the value of a series, as text; "" when there is none.
func (r *running) metric(t *testing.T, series string) string {
	t.Helper()

	for line := range strings.Lines(r.call(t, http.MethodGet, "/metrics", "").body) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}

	return ""
}

func TestWithoutRulesEverythingIsAllowedWithAWarning(t *testing.T) {
	r := start(t)

	got := r.call(t, http.MethodPost, "/v1/check", `{"attributes": {"user": "ada"}}`)
	if got.status != http.StatusOK || !strings.Contains(got.body, `"allowed":true`) || !strings.Contains(got.body, `"rule":""`) {
		t.Errorf("got %d %s", got.status, got.body)
	}

	if !strings.Contains(r.Log.String(), "leaseway rules apply -f rules.yaml") {
		t.Errorf("the log does not name the next command:\n%s", r.Log)
	}
}

func TestHealthAndReadinessAndDescription(t *testing.T) {
	r := start(t)

	for _, row := range []struct{ path, want string }{
		{"/healthz", "ok"},
		{"/readyz", `{"ready":true,"reasons":[],"degraded":[]}`},
		{"/openapi.json", "/v1/rules/{ruleId}/check"},
		{"/metrics", "leaseway_build_info"},
		{"/metrics", "go_goroutines"},
		{"/metrics", "process_open_fds"},
	} {
		if got := r.call(t, http.MethodGet, row.path, ""); got.status != http.StatusOK || !strings.Contains(got.body, row.want) {
			t.Errorf("%s: got %d %.200s, want 200 with %s", row.path, got.status, got.body, row.want)
		}
	}

	for _, row := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/", http.StatusNotFound},
		{http.MethodGet, "/docs", http.StatusNotFound},
		{http.MethodGet, "/v1", http.StatusNotFound},
		{http.MethodPost, "/v1", http.StatusNotFound},
		{http.MethodGet, "/admin", http.StatusNotFound},
		{http.MethodGet, "/v1/other", http.StatusNotFound},
		{http.MethodGet, "/v1/check", http.StatusMethodNotAllowed},
	} {
		if got := r.call(t, row.method, row.path, ""); got.status != row.want {
			t.Errorf("%s %s: got %d, want %d", row.method, row.path, got.status, row.want)
		}
	}
}

// No rule and no shedder is asked about the server's own probes and metrics: while all is refused to services and proxies, who
// watches it is answered, however often.
func TestItsOwnProbesAreNotLimited(t *testing.T) {
	r := start(t, "--rules", file(t, "rules: [{id: all, block: true}, {id: per-address, keyBy: ip, limit: 1, window: 24h}]\nshedders: {worker: {}, fleet: {capacity: 1}}"),
		"--trusted-proxies", "127.0.0.1")

	for range 100 {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if got := r.call(t, http.MethodGet, path, ""); got.status != http.StatusOK {
				t.Fatalf("%s got %d %s", path, got.status, got.body)
			}

			if got := r.call(t, http.MethodGet, path+"-admin", ""); got.status != http.StatusNotFound {
				t.Fatalf("%s-admin got %d %s", path, got.status, got.body)
			}
		}

		if got := r.call(t, http.MethodPost, "/v1/check", `{"attributes": {"path": "/healthz"}}`); !strings.Contains(got.body, `"allowed":false`) {
			t.Fatalf("a service is told %d %s", got.status, got.body)
		}

		if status, body := r.asProxy(t, http.MethodGet); status != http.StatusTooManyRequests {
			t.Fatalf("a proxy is told %d %s", status, body)
		}
	}

	if n := r.metric(t, `leaseway_decisions_total{mode="enforce",outcome="denied",rule="per-address",source="lease"}`); n != "" && n != "0" {
		t.Errorf("%s requests were refused by address", n)
	}
}

func TestReadinessSaysWhy(t *testing.T) {
	r := start(t)

	config, err := load([]string{"--data-dir", dataDir(t)}, nil)
	must(t, err)

	e, err := openEngine(t.Context(), &config, r.Log.logger())
	must(t, err)

	defer func() { must(t, e.close(context.Background())) }()

	ready := e.readiness()
	if not, worse := ready.reasons(); len(not)+len(worse) != 0 {
		t.Errorf("not ready: %q, degraded: %q", not, worse)
	}

	ready.degraded = func() bool { return true }

	if not, worse := ready.reasons(); len(not) != 0 || len(worse) != 1 {
		t.Errorf("degraded: not ready: %q, degraded: %q", not, worse)
	}

	ready.draining.Store(true)
	ready.store = func() string { return "out of order" }

	not, _ := ready.reasons()
	got := strings.Join(not, "; ")

	if !strings.Contains(got, "draining") || !strings.Contains(got, "store unavailable: out of order") {
		t.Errorf("got %q", got)
	}
}

func TestServerRefusesWhatItCannotUse(t *testing.T) {
	first := start(t)
	certificate, key, _ := newAuthority(t).issue(t, t.TempDir(), "one")
	_, other, _ := newAuthority(t).issue(t, t.TempDir(), "two")
	nothing := file(t, "rules: []")

	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen", first.HTTP}, "--listen: listen tcp"},
		{[]string{"--rules", "/does/not/exist"}, "--rules: open /does/not/exist: no such file or directory (check the path)"},
		{[]string{"--rules", "not-here"}, "no such file or directory (check the path, which begins where leaseway was started)"},
		{[]string{"--rules", t.TempDir()}, "is a directory, not a regular file (name a file)"},
		{[]string{"--token-file", "/does/not/exist"}, "--token-file: open /does/not/exist: no such file or directory (check"},
		{[]string{"--tls-cert", "/does/not/exist", "--tls-key", "/nor/this"}, "--tls-cert: open /does/not/exist: no such file"},
		{[]string{"--tls-cert", certificate, "--tls-key", "/nor/this"}, "--tls-key: open /nor/this: no such file"},
		{[]string{"--tls-cert", nothing, "--tls-key", key}, "--tls-cert: " + nothing + " has no certificate in PEM form"},
		{[]string{"--tls-cert", certificate, "--tls-key", certificate}, "--tls-key: " + certificate + " has no private key in PEM form"},
		{[]string{"--tls-cert", certificate, "--tls-key", other}, "--tls-cert " + certificate + " and --tls-key " + other + ": tls: private key"},
		{[]string{"--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", nothing}, "--tls-client-ca: " + nothing + " has no certificate"},
		{[]string{"--signing-key-file", "/does/not/exist"}, "--signing-key-file: rpc: signing key file: open /does/not/exist: no such file"},
		{[]string{"--data-dir", "/dev/null/none"}, "--data-dir"},
	} {
		args := append([]string{"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir", dataDir(t)}, row.args...)

		config, err := load(args, nil)
		must(t, err)

		if err := Run(t.Context(), config, io.Discard); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: got %v, want %q", row.args, err, row.want)
		}
	}
}

func TestTwoServersCannotShareADataDirectory(t *testing.T) {
	dir := dataDir(t)
	start(t, "--data-dir", dir)

	config, err := load([]string{"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir", dir}, nil)
	must(t, err)

	if err := Run(t.Context(), config, io.Discard); err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("got %v", err)
	}
}

func TestSigningKeyOutlivesTheProcess(t *testing.T) {
	dir := dataDir(t)
	first := start(t, "--data-dir", dir)
	must(t, first.end(t))

	second := start(t, "--data-dir", dir)
	if first.Key == "" || first.Key != second.Key {
		t.Errorf("keys %q and %q: want the same, or holders refuse the restarted coordinator", first.Key, second.Key)
	}

	info, err := os.Stat(filepath.Join(dir, "coordinator", "signing.key"))
	must(t, err)

	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key file has mode %v", info.Mode())
	}
}
