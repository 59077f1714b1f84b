package main

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewayhttp"
	"github.com/leaseway/leaseway/rule"
)

const rules = `
rules:
  - {id: two-a-second, scope: /limited, limit: 2, window: 1s}
  - {id: closed, scope: /blocked, block: true}
  - {id: tomorrow, scope: /daily, limit: 1, window: 1d}
`

// visit is one request that an API saw, and what it said.
type visit struct {
	call  string // method and path
	at    time.Time
	code  int
	after string // Retry-After
}

// api is a limited API that remembers who came when.
type api struct {
	handler http.Handler

	mu     sync.Mutex
	visits []visit
}

func newAPI(t *testing.T) *api {
	t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}

	limiter, err := leaseway.Embedded(set)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := limiter.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})

	a := &api{}
	a.handler = leasewayhttp.New(limiter).Handler(http.HandlerFunc(a.answer))

	return a
}

// answer is an API that is in trouble every other time, below /flaky, and always below /down.
func (a *api) answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/down" || r.URL.Path == "/flaky" && a.count(r.Method+" /flaky")%2 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (a *api) count(call string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()

	for _, v := range a.visits {
		if v.call == call {
			n++
		}
	}

	return n
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := httptest.NewRecorder()
	v := visit{call: r.Method + " " + r.URL.Path, at: time.Now()}
	a.handler.ServeHTTP(rec, r)
	v.code, v.after = rec.Code, rec.Header().Get("Retry-After")

	a.mu.Lock()
	a.visits = append(a.visits, v)
	a.mu.Unlock()

	maps.Copy(w.Header(), rec.Header())

	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes()) // a client that is gone needs no answer
}

// RoundTrip serves without a network, so that a Client can run in virtual time.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	a.ServeHTTP(rec, r)

	return rec.Result(), nil
}

// call is what a client is made to send, what it has to end with, and how many requests that takes.
type call struct {
	call     string
	code     int
	requests int
}

// calls come one after the other.
var calls = []call{
	{"GET /limited", 200, 1},
	{"GET /limited", 200, 1},
	{"GET /limited", 200, 2}, // told to wait, it comes back when it may
	{"GET /blocked", 429, 1}, // told that waiting does not help
	{"GET /daily", 200, 1},   //
	{"GET /daily", 429, 1},   // told to come back tomorrow
	{"GET /flaky", 200, 2},   // told nothing, it tries again
	{"POST /flaky", 503, 1},  // it could do the same twice
	{"GET /unlimited", 200, 1},
}

// curlCalls are fewer: curl tries again, with the pauses that it doubles, what waiting does not help.
var curlCalls = []call{
	{"GET /limited", 200, 1},
	{"GET /limited", 200, 1},
	{"GET /limited", 200, 2},
	{"GET /daily", 200, 1},
	{"GET /daily", 429, 1},
	{"GET /flaky", 200, 2},
	{"GET /unlimited", 200, 1},
}

// judge checks what the API saw of a client that ended with codes.
func (a *api) judge(t *testing.T, calls []call, codes []string) {
	t.Helper()

	if len(codes) != len(calls) {
		t.Fatalf("%d calls ended with %q", len(calls), codes)
	}

	i := 0

	for n, c := range calls {
		if codes[n] != strconv.Itoa(c.code) {
			t.Errorf("%s ended with %s, want %d", c.call, codes[n], c.code)
		}

		for range c.requests {
			if i == len(a.visits) || a.visits[i].call != c.call {
				t.Fatalf("request %d is not %s: %v", i, c.call, a.visits)
			}

			i++
		}
	}

	if i != len(a.visits) {
		t.Errorf("%d requests more than should be", len(a.visits)-i)
	}

	for i := range a.visits[1:] {
		told, next := a.visits[i], a.visits[i+1]
		if seconds, err := strconv.Atoi(told.after); err == nil && told.call == next.call && next.at.Sub(told.at) < time.Duration(seconds)*time.Second {
			t.Errorf("%s: told to wait %d s, it came after %v", told.call, seconds, next.at.Sub(told.at))
		}
	}
}

func TestGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		client := &Client{HTTP: http.Client{Transport: a}}

		var codes []string

		for _, c := range calls {
			method, path, _ := strings.Cut(c.call, " ")

			req, err := http.NewRequestWithContext(t.Context(), method, "http://api"+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}

			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}

			resp.Body.Close()

			codes = append(codes, strconv.Itoa(resp.StatusCode))
		}

		a.judge(t, calls, codes)
	})
}

// Against an API that is down, retries end: ten, and one for every ten requests.
func TestGoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		client := &Client{HTTP: http.Client{Transport: a}}

		for range 100 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api/down", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}

			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}

			resp.Body.Close()
		}

		if n := a.count("GET /down"); n < 115 || n > 120 {
			t.Errorf("100 requests became %d, want some 120", n)
		}
	})
}

// A client that goes away while it waits is gone at once.
func TestGoContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		client := &Client{HTTP: http.Client{Transport: a}}

		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()

		began := time.Now()

		for range 3 {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api/limited", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}

			resp, err := client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
		}

		if took := time.Since(began); ctx.Err() == nil || took != 300*time.Millisecond {
			t.Errorf("it was done after %v, its time was over: %v", took, ctx.Err())
		}
	})
}

// The scripts run for real, and wait the second that they are told.
func TestScripts(t *testing.T) {
	t.Parallel()

	const (
		python = `
import sys, urllib.error, urllib.request
from retry import send
for call in sys.argv[2:]:
    method, path = call.split()
    try:
        print(send(urllib.request.Request(sys.argv[1] + path, method=method)).status)
    except urllib.error.HTTPError as answer:
        print(answer.code)
`
		node = `
import { send } from "./RETRY";
const [url, ...calls] = process.argv.slice(1);
for (const call of calls) {
  const [method, path] = call.split(" ");
  console.log((await send(url + path, { method })).status);
}
`
	)

	for name, command := range map[string][]string{
		"python": {"python3", "-c", python},
		"node":   {"node", "--input-type=module", "-e"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			if _, err := exec.LookPath(command[0]); err != nil {
				t.Skipf("there is no %s on this machine", command[0])
			}

			dir := ""

			if name == "node" {
				var file string

				dir, file = javaScript(t)
				command = append(command, strings.Replace(node, "RETRY", file, 1))
			}

			a := newAPI(t)
			server := httptest.NewServer(a)
			t.Cleanup(server.Close)

			args := slices.Concat(command[1:], []string{server.URL})
			for _, c := range calls {
				args = append(args, c.call)
			}

			// A client that waits for tomorrow is to fail here, and not to hang.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()

			script := exec.CommandContext(ctx, command[0], args...)
			script.Dir = dir

			out, err := script.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}

			a.judge(t, calls, strings.Fields(string(out)))
		})
	}
}

// javaScript returns a file that node can import, and its directory: retry.ts as the compiler of tools/ translates it, in its strictest
// mode. Without that, retry.ts itself, which node reads from version 24 on.
func javaScript(t *testing.T) (dir, file string) {
	t.Helper()

	compiler, err := filepath.Abs(filepath.Join("..", "..", "tools", "node_modules", ".bin", "tsc"))
	if err != nil {
		t.Fatal(err)
	}

	if _, err := os.Stat(compiler); err != nil {
		out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
		if err != nil {
			t.Fatal(err)
		}

		major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
		if n, err := strconv.Atoi(major); err != nil || n < 24 {
			t.Skip("there is neither a compiler of TypeScript (run make tools) nor node 24")
		}

		return "", "retry.ts"
	}

	dir = t.TempDir()

	out, err := exec.CommandContext(t.Context(), compiler, "--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes",
		"--target", "es2022", "--lib", "es2022,dom", "--module", "esnext", "--outDir", dir, "retry.ts").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600); err != nil {
		t.Fatal(err)
	}

	return dir, "retry.js"
}

// curl alone does, with the options that the page has.
func TestCurl(t *testing.T) {
	t.Parallel()

	const command = "curl -fsS --retry 4 --retry-max-time 120"

	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}

	if !strings.Contains(string(page), "\n"+command+" -H") {
		t.Fatalf("docs/clients.md does not show %s", command)
	}

	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("there is no curl on this machine")
	}

	a := newAPI(t)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var codes []string

	for _, c := range curlCalls {
		_, path, _ := strings.Cut(c.call, " ")
		args := slices.Concat(strings.Fields(command)[1:], []string{"-o", os.DevNull, "-w", "%{http_code}", server.URL + path})

		out, err := exec.CommandContext(ctx, "curl", args...).Output()
		if (err == nil) != (c.code == http.StatusOK) {
			t.Errorf("%s: curl ended with %v", c.call, err)
		}

		codes = append(codes, string(out))
	}

	a.judge(t, curlCalls, codes)
}

// What the page shows is what was tested.
func TestPageShowsTheFiles(t *testing.T) {
	t.Parallel()

	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}

	for file, language := range map[string]string{"retry.go": "go", "retry.py": "python", "retry.ts": "ts"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		if fenced := "```" + language + "\n" + string(text) + "```\n"; !strings.Contains(string(page), fenced) {
			t.Errorf("docs/clients.md does not show %s as it is: copy the whole file there", file)
		}
	}
}
