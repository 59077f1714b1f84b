//go:build linux

package deploy

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask is a request of a client.
type ask struct {
	from              string // its address
	method, uri, body string
	fields            []string // lines such as "X-Api-Key: k"
}

func (r *rig) send(t *testing.T, q ask) answer {
	t.Helper()

	req, err := http.NewRequestWithContext(t.Context(), q.method, "http://"+r.front+q.uri, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}

	req.Host = "api.example" // clients call it by a name

	for _, line := range q.fields {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}

	return hear(t, from(q.from), req)
}

// hear sends a request and reads its answer.
func hear(t *testing.T, client *http.Client, req *http.Request) answer {
	t.Helper()

	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = resp.Body.Close() }()

	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}

	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (a *answer) want(t *testing.T, status int, what string) {
	t.Helper()

	if a.status != status {
		t.Errorf("%s: status %d, want %d; fields %v; body %.300s", what, a.status, status, a.header, a.body)
	}
}

// wantTold fails unless the client is told what its budget is, once.
func (a *answer) wantTold(t *testing.T, what string) {
	t.Helper()

	for _, field := range limitFields() {
		if values := a.header[field]; len(values) != 1 || values[0] == "" || values[0] == ownLimit {
			t.Errorf("%s: %s is %q, want one value, and none of the API's own", what, field, values)
		}
	}
}

// wantProblem fails unless the body says why, as Leaseway writes it.
func (a *answer) wantProblem(t *testing.T, rule string) {
	t.Helper()

	var problem struct {
		Status int    `json:"status"`
		Rule   string `json:"rule"`
		Detail string `json:"detail"`
	}

	if err := json.Unmarshal([]byte(a.body), &problem); err != nil || problem.Rule != rule || problem.Status != a.status || problem.Detail == "" {
		t.Errorf("status %d has the body %q (%v), want the problem of rule %s", a.status, a.body, err, rule)
	}

	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("the problem has the type %q", got)
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()

	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()

			r := newRig(t, k, false)
			r.limits(t)
			r.addresses(t)
			r.bodies(t)
			r.passes(t)
			r.socket(t)
			r.outages(t, http.StatusOK)
		})
	}
}

func TestProxiesFailClosed(t *testing.T) {
	t.Parallel()

	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()

			r := newRig(t, k, true)
			r.limits(t)
			r.bodies(t)
			r.outages(t, http.StatusServiceUnavailable)
		})
	}
}

// limits: who is over the limit is told 429, with all that belongs to it.
func (r *rig) limits(t *testing.T) {
	t.Helper()

	const client = "127.0.0.2"

	for _, method := range []string{http.MethodGet, http.MethodHead} {
		got := r.send(t, ask{client, method, "/v1/addresses?q=a%20b", "", nil})
		got.want(t, http.StatusOK, method+" within the limit")
		got.wantTold(t, method+" within the limit")

		if asked := got.header.Get("Asked"); asked != method+" /v1/addresses?q=a%20b" {
			t.Errorf("the API was asked for %q", asked)
		}

		if cached := got.header.Values("Cache-Control"); !slices.Equal(cached, []string{"max-age=60"}) {
			t.Errorf("the API says max-age=60, clients are told %q", cached)
		}
	}

	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
		body := ""
		if method == http.MethodPost {
			body = "what is posted"
		}

		got := r.send(t, ask{client, method, "/v1/addresses", body, nil})
		got.want(t, http.StatusTooManyRequests, method+" over the limit")
		got.wantTold(t, method+" over the limit")

		if got.header.Get("Retry-After") == "" || got.header.Get("Leaseway-Reason") != "over_limit" {
			t.Errorf("%s over the limit: fields %v", method, got.header)
		}

		if link := got.header.Get("Link"); link != "<"+docsURL+`>; rel="help"` {
			t.Errorf("%s over the limit: the link is %q", method, link)
		}

		if method != http.MethodHead {
			got.wantProblem(t, "per-address")
		}
	}

	upgrade := []string{"Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	socket := r.send(t, ask{client, http.MethodGet, "/v1/addresses", "", upgrade})
	socket.want(t, http.StatusTooManyRequests, "a WebSocket over the limit")
	socket.wantTold(t, "a WebSocket over the limit")
	socket.wantProblem(t, "per-address")

	blocked := r.send(t, ask{client, http.MethodGet, "/v1/closed", "", nil})
	blocked.want(t, http.StatusTooManyRequests, "blocked")

	if wait, told := blocked.header["Retry-After"]; told {
		t.Errorf("who is blocked is told to wait for %v", wait)
	}

	other := r.send(t, ask{client, http.MethodGet, "/elsewhere", "", []string{"RateLimit: \"mine\";r=9"}})
	other.want(t, http.StatusOK, "no rule")

	for _, field := range limitFields() {
		if values := other.header[field]; !slices.Equal(values, []string{ownLimit}) {
			t.Errorf("where no rule matches %s is %q, want what the API says", field, values)
		}
	}
}

// A limiter that hangs is asked once: more would cost as many times the wait, and, if it only was slow, as many charges.
func TestAHangingLimiterIsAskedOnce(t *testing.T) {
	t.Parallel()

	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()

			var asked atomic.Int64

			hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				<-r.Context().Done()
			}))
			t.Cleanup(hanging.Close)

			r := proxyBefore(t, k, false, strings.TrimPrefix(hanging.URL, "http://"))
			got := r.send(t, ask{"127.0.0.2", http.MethodGet, "/v1/addresses", "", nil})
			got.want(t, http.StatusOK, "while the limiter hangs")

			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// addresses: the address that counts is the one that a client comes from, whatever it says. 127.0.0.2 has spent its budget.
func (r *rig) addresses(t *testing.T) {
	t.Helper()

	for _, claim := range []string{
		"X-Forwarded-For: 192.0.2.1", "X-Real-IP: 192.0.2.1", "Forwarded: for=192.0.2.1", "X-Forwarded-For: 192.0.2.1, 127.0.0.1",
		"X-Original-URI: /free", "X-Forwarded-Uri: /free", "X-Original-Method: PUT", "X-Forwarded-Host: free", "X-Leaseway-Status: 204",
	} {
		got := r.send(t, ask{"127.0.0.2", http.MethodGet, "/v1/addresses", "", []string{claim}})
		got.want(t, http.StatusTooManyRequests, "with "+claim)
	}

	got := r.send(t, ask{"127.0.0.3", http.MethodGet, "/v1/addresses", "", nil})
	got.want(t, http.StatusOK, "another address")

	// A client does not say who the user is: nobody's budget is spent.
	for range 2 {
		got := r.send(t, ask{"127.0.0.3", http.MethodGet, "/v1/users", "", []string{"X-User: somebody-else"}})
		got.want(t, http.StatusOK, "a claimed user")
	}
}

// bodies: what is posted arrives, in one piece and in chunks, and refusals of a post are answered.
func (r *rig) bodies(t *testing.T) {
	t.Helper()

	for _, size := range []int{3, 1 << 20} {
		body := strings.Repeat("x", size)
		got := r.send(t, ask{"127.0.0.4", http.MethodPost, "/v1/keys?a=b", body, []string{"Authorization: Bearer poster"}})
		got.want(t, http.StatusOK, "a post")

		if got.body != body || got.header.Get("Asked") != "POST /v1/keys?a=b" {
			t.Errorf("of %d bytes %d arrived, with %q", size, len(got.body), got.header.Get("Asked"))
		}
	}

	got := r.send(t, ask{"127.0.0.4", http.MethodPost, "/v1/keys", strings.Repeat("x", 3000), []string{"Authorization: Bearer poster"}})
	got.want(t, http.StatusTooManyRequests, "a post over the limit")
	got.wantProblem(t, "per-key")
}

// passes: what the API itself refuses passes as it is.
func (r *rig) passes(t *testing.T) {
	t.Helper()

	forbidden := r.send(t, ask{"127.0.0.5", http.MethodGet, "/forbidden", "", nil})
	forbidden.want(t, http.StatusForbidden, "the API's own 403")

	broken := r.send(t, ask{"127.0.0.5", http.MethodGet, "/broken", "", nil})
	broken.want(t, http.StatusInternalServerError, "the API's own 500")

	if !strings.Contains(forbidden.body, "of the API") || !strings.Contains(broken.body, "of the API") {
		t.Errorf("the API's own words became %q and %q", forbidden.body, broken.body)
	}
}

// socket: a connection that is upgraded works in both directions.
func (r *rig) socket(t *testing.T) {
	t.Helper()

	var dialer net.Dialer

	conn, err := dialer.DialContext(t.Context(), "tcp", r.front)
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = conn.Close() }()

	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}

	_, _ = io.WriteString(conn, "GET /socket HTTP/1.1\r\nHost: "+r.front+"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")

	reader := bufio.NewReader(conn)

	resp, err := http.ReadResponse(reader, nil) //nolint:bodyclose // the connection is what is used and closed
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrading: %v, %v", resp, err)
	}

	for _, line := range []string{"one\n", "two\n"} {
		_, _ = io.WriteString(conn, line)

		if got, err := reader.ReadString('\n'); err != nil || got != line {
			t.Errorf("sent %q, got %q, %v", line, got, err)
		}
	}
}

// outages: while Leaseway hangs, and once it is gone, requests get the status that the configuration says.
func (r *rig) outages(t *testing.T, status int) {
	t.Helper()

	check := func(what string) {
		t.Helper()

		for _, method := range []string{http.MethodGet, http.MethodPost} {
			got := r.send(t, ask{"127.0.0.2", method, "/v1/addresses?still=here", "body", nil})
			got.want(t, status, method+" while Leaseway "+what)

			switch {
			case status == http.StatusOK && (got.body != "body" || got.header.Get("Asked") != method+" /v1/addresses?still=here"):
				t.Errorf("while Leaseway %s the API got %q and %q", what, got.header.Get("Asked"), got.body)
			case status != http.StatusOK && (got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, "Limits cannot be checked")):
				t.Errorf("while Leaseway %s clients are told %v and %q", what, got.header, got.body)
			}
		}
	}

	r.leaseway.stop(t)
	check("hangs")
	r.leaseway.Kill()
	check("is gone")
}
