package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/accesslog"
	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/rule"
)

// For half a second net/http reads on from a client whose request it refused in the middle.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// patience is how long a test waits for what should come at once.
const patience = proctest.Patience

// noRules lets everything pass.
const noRules = "rules: []"

// lines is an access log in memory.
type lines struct {
	mu  sync.Mutex
	all []accesslog.Served
}

func (l *lines) Record(s accesslog.Served) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.all = append(l.all, s)
}

func (l *lines) last() (s accesslog.Served) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if len(l.all) > 0 {
		s = l.all[len(l.all)-1]
	}

	return s
}

// front is a proxy that listens.
type front struct {
	*Proxy

	address, url string
	limiter      *leaseway.Limiter
	log          *lines
	client       *http.Client
}

// serve runs a proxy under rules, which listens for HTTP/1 and HTTP/2 on a port of its own.
func serve(t *testing.T, rules string, config Config) *front {
	t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}

	limiter, err := leaseway.Embedded(set)
	if err != nil {
		t.Fatal(err)
	}

	f := &front{limiter: limiter, log: &lines{}}
	config.AccessLog = f.log

	if f.Proxy, err = New(limiter, config); err != nil {
		t.Fatal(err)
	}

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	server := &http.Server{Handler: f.Proxy, Protocols: protocols, ReadHeaderTimeout: patience}
	served := make(chan struct{})

	go func() {
		defer close(served)

		_ = server.Serve(listener)
	}()

	ctx, stop := context.WithCancel(context.Background())
	ran := make(chan struct{})

	go func() {
		defer close(ran)

		f.Run(ctx)
	}()

	f.address, f.url = listener.Addr().String(), "http://"+listener.Addr().String()
	f.client = &http.Client{Transport: &http.Transport{}, Timeout: patience}

	t.Cleanup(func() {
		f.client.CloseIdleConnections()

		_ = server.Close()

		<-served
		stop()
		<-ran
		f.Close()

		_ = limiter.Close(context.Background())
	})

	return f
}

// upstreamOf is a server for the time of a test.
func upstreamOf(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()

	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)

	return server
}

// silent is an address at which nobody listens.
func silent(t *testing.T) string {
	t.Helper()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	defer listener.Close()

	return "http://" + listener.Addr().String()
}

// eventually waits until ok, and fails with what was missing.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()

	proctest.Eventually(t, what, ok)
}

// get asks for path with header fields, as name and value in turn.
func (f *front) get(t *testing.T, path string, fields ...string) (answer, string) {
	t.Helper()

	r, err := http.NewRequest(http.MethodGet, f.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}

	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}

	return f.do(t, r)
}

// answer is what came back, its body read.
type answer struct {
	StatusCode      int
	Header, Trailer http.Header
}

func (f *front) do(t *testing.T, r *http.Request) (answer, string) {
	t.Helper()

	resp, err := f.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}

	return answer{resp.StatusCode, resp.Header, resp.Trailer}, string(text)
}

// raw sends bytes as they are, and returns all that comes back until the connection ends.
func (f *front) raw(t *testing.T, text string) string {
	t.Helper()

	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	_ = conn.SetDeadline(time.Now().Add(patience))

	if _, err := io.Copy(conn, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}

	got, _ := io.ReadAll(conn) // a reset ends it as well

	return string(got)
}
