//go:build linux

package deploy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/proctest"
)

// apiMain is an API in a process of its own: it says its name, and of /half it says half and no more. It ends with its input.
func apiMain(address, name string, stdin io.Reader) int {
	mux := http.NewServeMux()
	mux.HandleFunc("/half", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		fmt.Fprintln(w, name)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })

	listener, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		return 1
	}

	server := &http.Server{Handler: mux}

	go func() { _ = server.Serve(listener) }() // until Close

	_, _ = io.Copy(io.Discard, stdin)
	_ = server.Close()

	return 0
}

// fleet is two APIs behind a proxy, all of them processes.
type fleet struct {
	front, metrics string
	addresses      map[string]string // by name
	apis           map[string]*proctest.Process
	proxy          *process
}

func newFleet(t *testing.T) *fleet {
	t.Helper()

	dir := t.TempDir()
	f := &fleet{
		front: freeAddress(t), metrics: freeAddress(t),
		addresses: map[string]string{"a": freeAddress(t), "b": freeAddress(t)}, apis: map[string]*proctest.Process{},
	}

	for name := range f.addresses {
		f.start(t, name)
	}

	write(t, filepath.Join(dir, "rules.yaml"), "rules: []")
	f.proxy = startProcess(t, os.Args[0], "proxy", "--upstream", "http://"+f.addresses["a"]+",http://"+f.addresses["b"],
		"--health-path", "/healthz", "--health-every", "200ms", "--rules", filepath.Join(dir, "rules.yaml"), "--listen", f.front,
		"--metrics-listen", f.metrics, "--data-dir", filepath.Join(dir, "data"), "--log-format", "json")
	f.proxy.Answers(t, f.front)

	return f
}

// start starts an API, for the first time or again.
func (f *fleet) start(t *testing.T, name string) {
	t.Helper()

	cmd := exec.Command(os.Args[0], f.addresses[name], name)
	cmd.Env = []string{role + "=api"}
	f.apis[name] = proctest.Start(t, cmd)
	f.apis[name].Answers(t, f.addresses[name])
}

// inService reports what the proxy thinks of an API.
func (f *fleet) inService(t *testing.T, name string) bool {
	t.Helper()

	resp, err := http.Get("http://" + f.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = resp.Body.Close() }()

	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}

	series := fmt.Sprintf("leaseway_upstream_in_service{upstream=%q} ", "http://"+f.addresses[name])
	if !strings.Contains(string(text), series) {
		t.Fatalf("there is no %s", series)
	}

	return strings.Contains(string(text), series+"1")
}

// An API that is killed in the middle of an answer costs that answer, which its client sees to be broken, and no other: the next
// requests go to the API that is left, and when it is started again probes bring it back.
func TestAnUpstreamIsKilled(t *testing.T) {
	t.Parallel()

	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP/%d", version), func(t *testing.T) {
			t.Parallel()

			f := newFleet(t)
			client := speaking(version)

			defer client.CloseIdleConnections()

			get := func(path string) *http.Response {
				resp, err := client.Get("http://" + f.front + path)
				if err != nil {
					t.Fatal(err)
				}

				if resp.ProtoMajor != version {
					t.Fatalf("answered over %s", resp.Proto)
				}

				return resp
			}

			resp := get("/half")
			body := bufio.NewReader(resp.Body)

			line, err := body.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}

			victim := strings.TrimSpace(line)
			left := map[string]string{"a": "b", "b": "a"}[victim]

			f.apis[victim].Kill()

			if rest, err := io.ReadAll(body); err == nil {
				t.Errorf("the answer broke off, and its client takes %q for all of it", line+string(rest))
			}

			_ = resp.Body.Close()

			f.served(t, get, left, "after the kill")
			f.proxy.Eventually(t, "out of service", func() bool { return !f.inService(t, victim) })
			f.start(t, victim)
			f.proxy.Eventually(t, "back in service", func() bool { return f.inService(t, victim) })
			f.served(t, get, victim, "when it is back")
			f.served(t, get, left, "beside it")

			f.apis[victim].Kill()
			f.apis[left].Kill()

			gone := get("/")
			_ = gone.Body.Close()

			if gone.StatusCode != http.StatusBadGateway || gone.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("without any API: %d, %v", gone.StatusCode, gone.Header)
			}
		})
	}
}

// served fails unless the next requests are all answered, and some of them by an API.
func (f *fleet) served(t *testing.T, get func(path string) *http.Response, by, when string) {
	t.Helper()

	const requests = 20

	count := 0

	for range requests {
		resp := get("/")
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()

		if resp.StatusCode != http.StatusOK || err != nil {
			t.Errorf("%s: %d, %q, %v", when, resp.StatusCode, text, err)
		}

		if strings.TrimSpace(string(text)) == by {
			count++
		}
	}

	if count == 0 {
		t.Errorf("%s: none of %d answers is by %s", when, requests, by)
	}
}

// speaking is a client that speaks one version of HTTP, without TLS.
func speaking(version int) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == 1)
	protocols.SetUnencryptedHTTP2(version == 2)

	return &http.Client{Timeout: patience, Transport: &http.Transport{Protocols: protocols}}
}
