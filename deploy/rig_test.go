//go:build linux

package deploy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/leaseway/leaseway/internal/proctest"
)

// patience is how long a test waits for what should come soon, on a machine that has other things to do.
const patience = proctest.Patience

// The rules of these tests: windows so long that nothing comes back while they run.
const rules = `
identity: {user: {header: X-User, trusted: false}}
rules:
  - {id: per-address, scope: /v1/addresses, keyBy: ip, limit: 2, window: 1h}
  - {id: per-user, scope: /v1/users, keyBy: user, limit: 1, window: 1h}
  - {id: per-key, scope: {paths: [/v1/keys], methods: [POST]}, keyBy: apikey, limit: 2, window: 1h}
  - {id: closed, scope: /v1/closed, block: true}
`

// The addresses in the configurations.
const (
	frontAddress    = "127.0.0.1:8000"
	leasewayAddress = "127.0.0.1:8080"
	apiAddress      = "127.0.0.1:3000"
	stubAddress     = "127.0.0.1:8002" // of Caddy's answer while Leaseway is down
	wayAddress      = "127.0.0.1:8003" // of HAProxy's way to Leaseway
)

// patient has configurations wait for longer: on a machine that has other things to do 200 ms are no sign of a hanging server.
var patient = strings.NewReplacer("100ms", "2s", "200ms", "2s", "lb_try_duration 1s", "lb_try_duration 8s", "timeout = 2000", "timeout = 20000")

// rig is a proxy before an API, with Leaseway beside it.
type rig struct {
	front    string // where clients go
	leaseway *process
	proxy    *process
}

// kind is one configuration, and how it is run.
type kind struct {
	name, program, file string

	closed []string // what is replaced by what to have it fail closed
	args   func(dir, file string) []string
	wrap   string // the file around it; FILE is its path
}

func kinds() []kind {
	const nginx = `daemon off; master_process off; pid DIR/nginx.pid; error_log stderr warn;
events { worker_connections 256; }
http {
  access_log off; client_max_body_size 8m;
  client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
  include FILE;
}`

	byNginx := func(dir, file string) []string { return []string{"-p", dir, "-e", "stderr", "-c", file} }

	return []kind{
		{
			name: "nginx, auth_request", program: "nginx", file: "nginx/auth-request.conf", wrap: nginx, args: byNginx,
			closed: []string{"return 204;", "return 403;"},
		},
		{
			name: "nginx, X-Accel-Redirect", program: "nginx", file: "nginx/accel.conf", wrap: nginx, args: byNginx,
			closed: []string{"504 = @api;", "504 = @closed;"},
		},
		{
			name: "Caddy", program: "caddy", file: "caddy/Caddyfile", wrap: "{\n\tadmin off\n}\nimport FILE\n",
			closed: []string{leasewayAddress + " " + stubAddress, leasewayAddress, "lb_try_duration 1s", ""},
			args:   func(_, file string) []string { return []string{"run", "--adapter", "caddyfile", "--config", file} },
		},
		{
			name: "HAProxy", program: "haproxy", file: "haproxy/haproxy.cfg",
			closed: []string{"=haproxy open", "=haproxy closed"},
			args:   func(dir, file string) []string { return []string{"-db", "-C", dir, "-f", file} },
		},
	}
}

// docsURL is what refusals link to.
const docsURL = "https://docs.example/limits"

// newRig starts all three, from the files that are in this directory.
func newRig(t *testing.T, k kind, closed bool) *rig {
	t.Helper()

	dir, address := t.TempDir(), freeAddress(t)
	write(t, filepath.Join(dir, "rules.yaml"), rules)
	leaseway := startProcess(t, os.Args[0], "serve", "--rules", filepath.Join(dir, "rules.yaml"), "--listen", address,
		"--grpc-listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"), "--trusted-proxies", "127.0.0.1", "--log-format", "json",
		"--docs-url", docsURL)
	leaseway.Answers(t, address)

	r := proxyBefore(t, k, closed, address)
	r.leaseway = leaseway

	return r
}

// proxyBefore starts a proxy before an API; it asks Leaseway at an address.
func proxyBefore(t *testing.T, k kind, closed bool, leaseway string) *rig {
	t.Helper()

	program, err := exec.LookPath(k.program)
	if err != nil {
		if program = "/usr/sbin/" + k.program; !isThere(program) { // Debian keeps servers off the PATH of users
			t.Skipf("%s is not installed: run make proxies", k.program)
		}
	}

	dir := t.TempDir()
	api := httptest.NewServer(http.HandlerFunc(serveAPI))
	t.Cleanup(api.Close)

	front := freeAddress(t)
	r := &rig{front: front}
	text := read(t, k.file)
	if closed {
		for i := 0; i < len(k.closed); i += 2 {
			if !strings.Contains(text, k.closed[i]) {
				t.Fatalf("%s does not have %q", k.file, k.closed[i])
			}
		}

		text = strings.NewReplacer(k.closed...).Replace(text)
	}

	stub := freeAddress(t)
	text = strings.NewReplacer(frontAddress, front, leasewayAddress, leaseway, stubAddress, stub, wayAddress, freeAddress(t),
		apiAddress, strings.TrimPrefix(api.URL, "http://"),
		siteOf(frontAddress), siteOf(front), siteOf(stubAddress), siteOf(stub)).Replace(text)

	text = patient.Replace(text)
	file := filepath.Join(dir, filepath.Base(k.file))
	write(t, file, text)
	write(t, filepath.Join(dir, "leaseway.lua"), patient.Replace(read(t, "haproxy/leaseway.lua")))

	if k.wrap != "" {
		whole := filepath.Join(dir, "whole.conf")
		write(t, whole, strings.NewReplacer("DIR", dir, "FILE", file).Replace(k.wrap))
		file = whole
	}

	r.proxy = startProcess(t, program, k.args(dir, file)...)
	r.proxy.Answers(t, front)

	return r
}

// siteOf is how a Caddyfile names what it serves at an address, by whatever name it is called.
func siteOf(address string) string {
	_, port, _ := strings.Cut(address, ":")

	return "http://:" + port + " {"
}

// limitFields are the fields of an answer that speak of limits.
func limitFields() [5]string {
	return [...]string{"Ratelimit", "Ratelimit-Policy", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}
}

// ownLimit is what the API says in them.
const ownLimit = "of the API"

// serveAPI echoes bodies, says what it was asked for, and can be told which status to answer.
func serveAPI(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/socket":
		serveSocket(w, r)
	case "/forbidden":
		http.Error(w, "of the API", http.StatusForbidden)
	case "/broken":
		http.Error(w, "of the API", http.StatusInternalServerError)
	default:
		for _, field := range limitFields() { // the API has limits of its own
			w.Header().Set(field, ownLimit)
		}

		w.Header().Set("Asked", r.Method+" "+r.URL.RequestURI())
		w.Header().Set("Cache-Control", "max-age=60")

		// Fields of answers have no place in a request, and placeholders nowhere.
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, ""), "{") {
				http.Error(w, name+" is a placeholder", http.StatusBadRequest)

				return
			}
		}

		_, _ = io.Copy(w, r.Body)
	}
}

// serveSocket switches to a protocol that echoes, as WebSocket does with its frames.
func serveSocket(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" || !strings.EqualFold(r.Header.Get("Connection"), "upgrade") {
		http.Error(w, "not upgraded", http.StatusUpgradeRequired)

		return
	}

	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}

	defer func() { _ = conn.Close() }()

	// The answer to the key that RFC 6455 has as its example: HAProxy looks at it.
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	_, _ = io.Copy(conn, buffered)
}

// process is a program that ends with its test.
type process struct{ *proctest.Process }

func startProcess(t *testing.T, program string, args ...string) *process {
	t.Helper()

	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), role+"=program", "HOME="+t.TempDir())

	return &process{proctest.Start(t, cmd)}
}

// stop has the process hang, and waits until each of its threads does.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.Signal(syscall.SIGSTOP)
	p.Eventually(t, "has stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.PID()))
		if err != nil || len(threads) == 0 {
			return false
		}

		for _, thread := range threads {
			if text, err := os.ReadFile(thread); err != nil || !bytes.Contains(text, []byte("State:\tT")) {
				return false
			}
		}

		return true
	})
}

// ports is the last port that was given out. All are below those that systems give to connections, and each is given out once.
var ports atomic.Int64

// freeAddress finds a port that nobody has.
func freeAddress(t *testing.T) string {
	t.Helper()

	const tries = 100

	var config net.ListenConfig

	for range tries {
		port := ports.Add(1)

		// On all addresses, since somebody may listen on another one.
		if listener, err := config.Listen(t.Context(), "tcp", fmt.Sprintf(":%d", port)); err == nil {
			_ = listener.Close()

			return fmt.Sprintf("127.0.0.1:%d", port)
		}
	}

	t.Fatal("no port is free")

	return ""
}

// from is a client at another address of this machine, which does not follow redirects or reuse connections.
func from(ip string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		},
	}}

	return client
}

func isThere(path string) bool {
	_, err := os.Stat(path)

	return err == nil
}

func write(t *testing.T, path, text string) {
	t.Helper()

	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}
