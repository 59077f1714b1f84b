package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

func TestRequestsPassAsTheyCame(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %s %q", r.Method, r.RequestURI, r.Host, r.Header.Get("X-Forwarded-For"), body)
	})
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}})

	r, _ := http.NewRequest(http.MethodPost, f.url+"/a%2Fb//c/../d?x=1;y=%zz", strings.NewReader("body"))
	r.Host = "api.example"

	resp, body := f.do(t, r)
	if want := `POST /a%2Fb//c/../d?x=1;y=%zz api.example 127.0.0.1 "body"`; body != want || resp.StatusCode != http.StatusTeapot ||
		resp.Header.Get("X-Answer") != "yes" {
		t.Errorf("got %d %v %s, want %s", resp.StatusCode, resp.Header, body, want)
	}

	eventually(t, "the request is logged", func() bool { return f.log.last().Status == http.StatusTeapot })

	if got := f.log.last(); got.Path != "/a%2Fb//c/../d" || got.Query != "x=1;y=%zz" || got.Upstream != up.URL ||
		got.Bytes != int64(len(body)) || got.Client != "127.0.0.1" || got.Host != "api.example" {
		t.Errorf("logged %+v", got)
	}
}

// Who is counted is who the upstream sees, whichever of several lines it reads.
func TestOfSeveralLinesTheCountedOneIsPassed(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header["X-Api-Key"], r.Header["Authorization"], r.Header["X-User"], r.Header["X-Tenant"], r.Header["X-Other"])
	})
	f := serve(t, `
identity: {apikey: [X-API-Key, bearer], user: {header: X-User, trusted: true}}
rules:
  - {id: keys, keyBy: apikey, limit: 1, window: 1h}
  - {id: tenants, keyBy: ["header:X-Tenant", user], limit: 100, window: 1h}
`, Config{Upstreams: []string{up.URL}})

	ask := func(key string) (int, string) {
		resp, body := f.get(t, "/", "X-API-Key", key, "X-API-Key", "real", "Authorization", "Bearer a", "Authorization", "Bearer b",
			"X-User", "u", "X-User", "v", "X-Tenant", "s", "X-Tenant", "t", "X-Other", "1", "X-Other", "2")

		return resp.StatusCode, body
	}

	if status, body := ask("one"); status != http.StatusOK || body != "[one] [Bearer a] [u] [s] [1 2]" {
		t.Errorf("got %d %s", status, body)
	}

	if status, _ := ask("one"); status != http.StatusTooManyRequests {
		t.Errorf("the second request of a key was answered by %d", status)
	}

	// An empty line is no key: the next place names the caller, and no upstream finds a key behind it.
	if status, body := ask(""); status != http.StatusOK || body != "[] [Bearer a] [u] [s] [1 2]" {
		t.Errorf("got %d %s", status, body)
	}
}

// A refusal, a shed request and an upstream that is down are three things, and a client must be able to tell.
func TestRefusalsAreToldFromAnUpstreamThatIsDown(t *testing.T) {
	var asked atomic.Int64

	up := upstreamOf(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	rules := `
rules:
  - {id: two, scope: /two, keyBy: ip, limit: 2, window: 1h}
  - {id: closed, scope: /blocked, limit: 0, window: 1h, block: true}
`
	f := serve(t, rules, Config{Upstreams: []string{up.URL}})

	for i, want := range []int{200, 200, 429} {
		resp, body := f.get(t, "/two")
		if resp.StatusCode != want || resp.Header.Get("X-Ratelimit-Limit") != "2" || resp.Header.Get("Ratelimit") == "" {
			t.Errorf("request %d got %d %v", i, resp.StatusCode, resp.Header)
		}

		if refused := resp.Header.Get("Leaseway-Reason") != ""; refused != (want == 429) || refused != (resp.Header.Get("Retry-After") != "") ||
			refused != strings.Contains(body, `"rule":"two"`) {
			t.Errorf("request %d got %v %s", i, resp.Header, body)
		}
	}

	if asked.Load() != 2 {
		t.Errorf("the upstream was asked %d times, want 2", asked.Load())
	}

	eventually(t, "the refusal is logged", func() bool { return f.log.last().Reason == "over_limit" })

	if got := f.log.last(); got.Upstream != "" || got.Status != 429 {
		t.Errorf("logged %+v", got)
	}

	up.Close()

	resp, body := f.get(t, "/other")

	var problem struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal([]byte(body), &problem); err != nil || problem.Status != 502 || problem.Title != "Bad Gateway" {
		t.Errorf("got %q (%v)", body, err)
	}

	if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Content-Type") != "application/problem+json" ||
		resp.Header.Get("Leaseway-Reason") != "" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
}

func TestForwardedFieldsAreBelievedOfTrustedProxiesOnly(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		fmt.Fprintf(w, "%q %q %q %q", h.Values("X-Forwarded-For"), h.Values("X-Forwarded-Host"), h.Values("X-Forwarded-Proto"), h.Values("Forwarded"))
	})
	said := []string{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https", "Forwarded", "for=1"}

	for _, row := range []struct {
		name    string
		trusted []netip.Prefix
		fields  []string
		want    string
	}{
		{"nobody is trusted", nil, said, `["127.0.0.1"] ["HOST"] ["http"] []`},
		{"somebody else is", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, said, `["127.0.0.1"] ["HOST"] ["http"] []`},
		{
			"the peer is", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, said,
			`["192.0.2.1, 127.0.0.1"] ["evil.example"] ["https"] []`,
		},
		{"and says nothing", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil, `["127.0.0.1"] ["HOST"] ["http"] []`},
		{
			"a field of the hop does not remove it", nil,
			append([]string{"Connection", "X-Forwarded-For, X-Forwarded-Proto"}, said...), `["127.0.0.1"] ["HOST"] ["http"] []`,
		},
	} {
		f := serve(t, noRules, Config{Upstreams: []string{up.URL}, Trusted: row.trusted})
		if _, got := f.get(t, "/", row.fields...); got != strings.ReplaceAll(row.want, "HOST", f.address) {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
}

func TestFieldsOfTheHopStayOnIt(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Authorization", "Te", "Proxy-Connection"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s came through", name)
			}
		}

		w.Header().Set("Connection", "X-Mine")
		w.Header().Set("X-Mine", "1")
		w.Header().Set("Keep-Alive", "timeout=5")
	})
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}})

	resp, _ := f.get(t, "/", "Connection", "X-Hop", "X-Hop", "1", "Keep-Alive", "1", "Proxy-Authorization", "Basic x", "TE", "gzip",
		"Proxy-Connection", "1")
	if resp.Header.Get("X-Mine") != "" || resp.Header.Get("Keep-Alive") != "" {
		t.Errorf("got %v", resp.Header)
	}
}

// An API may have limits of its own. A client must not be told of two, and not of Leaseway's when the other refused.
func TestAnAnswerSpeaksOfOneLimiter(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hints" {
			w.Header().Set("Link", "</x>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
		}

		w.Header().Set("X-Ratelimit-Limit", "77")

		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	f := serve(t, "rules: [{id: r, limit: 5, window: 1h}]", Config{Upstreams: []string{up.URL}})

	for path, want := range map[string]string{"/": "5", "/hints": "5", "/refused": "77"} {
		resp, _ := f.get(t, path)
		if got := resp.Header.Values("X-Ratelimit-Limit"); len(got) != 1 || got[0] != want || resp.Header.Get("Ratelimit") == "" {
			t.Errorf("%s: got %v, want one limit, %s", path, resp.Header, want)
		}
	}
}

// What two parsers could read as two different requests is none.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	var asked atomic.Int64

	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			asked.Add(1)
		}

		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s has %q;", r.URL.Path, body)
	})
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}})

	const head = "POST /bad HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"

	for name, text := range map[string]string{
		"two lengths":             head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
		"a length that is none":   head + "Content-Length: +1\r\n\r\nx",
		"two codings":             head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"an unknown coding":       head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"chunked, and not last":   head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"a space before a colon":  head + "Content-Length : 1\r\n\r\nx",
		"a folded first line":     "POST /bad HTTP/1.1\r\n Host: a\r\n\r\n",
		"two hosts":               "GET /bad HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"no host":                 "GET /bad HTTP/1.1\r\n\r\n",
		"a zero byte in a field":  head + "X-A: b\x00c\r\n\r\n",
		"a bare CR in a field":    head + "X-A: b\rContent-Length: 3\r\n\r\n",
		"a chunk with a bad size": strings.Replace(head, "/bad", "/late", 1) + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
	} {
		before := asked.Load()

		got := f.raw(t, text)
		if !strings.HasPrefix(got, "HTTP/1.1 4") && !strings.HasPrefix(got, "HTTP/1.1 501") {
			t.Errorf("%s: got %q, want a refusal", name, got)
		}

		if asked.Load() != before {
			t.Errorf("%s: the upstream was asked", name)
		}
	}

	// With both, the length is dropped (RFC 9112, 6.3): the chunks are the body, here and there, and what follows is a request.
	got := f.raw(t, "POST /good HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"+
		"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if !strings.Contains(got, `/good has "ab";`) || !strings.Contains(got, `/next has "";`) {
		t.Errorf("got %q", got)
	}

	if strings.Contains(f.raw(t, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nConnection: close\r\n\r\n"), "HTTP/1.1 200") {
		t.Error("the proxy opened a tunnel")
	}
}

func TestBodiesAreBounded(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})
	f := serve(t, noRules, Config{Upstreams: []string{up.URL}, MaxBody: 10})

	for _, row := range []struct {
		size    int
		chunked bool
		want    int
	}{{10, false, 200}, {11, false, 413}, {10, true, 200}, {11, true, 413}, {1 << 20, true, 413}} {
		var body io.Reader = strings.NewReader(strings.Repeat("x", row.size))
		if row.chunked {
			body = io.MultiReader(body) // whose length is not known
		}

		r, _ := http.NewRequest(http.MethodPost, f.url+"/", body)
		if resp, text := f.do(t, r); resp.StatusCode != row.want {
			t.Errorf("%+v: got %d %s", row, resp.StatusCode, text)
		}
	}

	if s := f.Stats().Upstreams[0]; s.Failures != 0 || !s.InService {
		t.Errorf("clients' large bodies count as the upstream's failures: %+v", s)
	}
}

func TestASlowUpstreamIsATimeoutAndNotAnOutage(t *testing.T) {
	done := make(chan struct{})
	up := upstreamOf(t, func(http.ResponseWriter, *http.Request) { <-done })
	t.Cleanup(func() { close(done) }) // before the server is closed, which waits for the handler

	f := serve(t, noRules, Config{Upstreams: []string{up.URL}, HeaderTimeout: 20 * time.Millisecond})

	resp, body := f.get(t, "/")
	if resp.StatusCode != http.StatusGatewayTimeout || !strings.Contains(body, "in time") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}

// WebSockets within HTTP/2 (RFC 8441) are not announced, since they would be refused: browsers then use HTTP/1.1 for them.
func TestWebSocketsWithinHTTP2AreNotAnnounced(t *testing.T) {
	f := serve(t, noRules, Config{Upstreams: []string{silent(t)}})

	conn, err := net.Dial("tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	_ = conn.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(conn, http2.ClientPreface)
	framer := http2.NewFramer(conn, conn)
	_ = framer.WriteSettings()

	frame, err := framer.ReadFrame()
	settings, ok := frame.(*http2.SettingsFrame)

	if !ok || settings.NumSettings() == 0 {
		t.Fatalf("got %v, %v, want settings", frame, err)
	}

	if _, announced := settings.Value(http2.SettingEnableConnectProtocol); announced {
		t.Error("extended CONNECT is announced")
	}
}
