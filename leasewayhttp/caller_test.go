package leasewayhttp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// from is a request of a peer, with lines of X-Forwarded-For.
func from(peer string, lines ...string) *http.Request {
	r := get("/v1/x")
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(peer), 4000).String()
	if lines != nil {
		r.Header["X-Forwarded-For"] = lines
	}
	return r
}

func TestForgedAddressesBuyNothing(t *testing.T) {
	const document = "rules: [{id: r, keyBy: ip, limit: 2, window: 1m}]"
	opts := []Option{WithTrustedProxies(netip.MustParsePrefix("10.0.0.0/8"))}
	withEachAlgorithm(t, document, opts, func(a *api) {
		for i, want := range []string{"A", "A", "D", "D", "D"} {
			a.expect("an untrusted peer", want, from("203.0.113.5", fmt.Sprintf("1.1.1.%d", i)))
		}
	})
	withEachAlgorithm(t, document, opts, func(a *api) {
		for i, want := range []string{"A", "A", "D", "D", "D"} {
			a.expect("behind a proxy", want, from("10.0.0.2", fmt.Sprintf("1.1.1.%d, 203.0.113.5", i)))
		}
		a.expect("the same caller over another proxy", "D", from("10.0.0.9", "203.0.113.5", "10.0.0.3"))
		a.expect("another caller", "AAD", from("10.0.0.2", "198.51.100.9, 10.0.0.3"))
		a.expect("nobody's victim: an unreadable hop is the proxy's", "AAD", from("10.0.0.2", "198.51.100.7, garbage, , 10.0.0.3"))
		a.expect("the victim itself", "AAD", from("10.0.0.2", "198.51.100.7"))
	})
}

func TestOneIPv6HostIsOneCaller(t *testing.T) {
	withEachAlgorithm(t, "rules: [{id: r, keyBy: ip, limit: 3, window: 1m}]", nil, func(a *api) {
		for i, want := range []string{"A", "A", "A", "D", "D", "D"} {
			a.expect("an address of the network", want, from(fmt.Sprintf("2001:db8:0:1::%d", i+1)))
		}
		a.expect("another spelling of one", "D", from("2001:DB8:0:1:0:0:0:1"))
		a.expect("another network", "A", from("2001:db8:0:2::1"))
		a.expect("mapped IPv4", "AA", from("::ffff:192.0.2.1"))
		a.expect("the same in plain", "AD", from("192.0.2.1"))
		a.expect("another mapped host", "AAAD", from("::ffff:192.0.2.2"))
		a.expect("link-local", "AA", from("fe80::1%eth0"))
		a.expect("the same through another interface", "AD", from("fe80::1%eth1"))
	})
}

func TestStrangeKeysAreKeys(t *testing.T) {
	const document = "rules: [{id: r, keyBy: 'header:X-Key', limit: 2, window: 1m}]"
	with := func(values ...string) *http.Request {
		r := get("/v1/x")
		if values != nil {
			r.Header["X-Key"] = values
		}
		return r
	}
	withEachAlgorithm(t, document, nil, func(a *api) {
		long := strings.Repeat("k", 64<<10)
		for _, key := range []string{"a b", "a,b", "a\tb", "ключ", "{x}", "}{", "%00", long + "1", long + "2"} {
			a.expect(fmt.Sprintf("%.20q", key), "AAD", with(key))
		}
		a.expect("sent twice: the first counts", "D", with("a b", "fresh"))
		a.expect("sent twice, the other way around", "AA", with("fresh", "a b"))
		a.expect("empty: the rule skips who has no key", "AAAA", with(""))
		a.expect("absent", "AAAA", with())
	})
	withEachAlgorithm(t, strings.Replace(document, "limit", "missing: shared, limit", 1), nil, func(a *api) {
		a.expect("absent, sharing", "AA", with())
		a.expect("empty, sharing", "D", with(""))
	})
	withEachAlgorithm(t, strings.Replace(document, "limit", "missing: deny, limit", 1), nil, func(a *api) {
		w := a.send(with())
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "" {
			t.Errorf("a caller without the key that a rule demands: status %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
	})
}

func TestSpellingsOfAPathShareItsLimit(t *testing.T) {
	const document = "rules: [{id: r, scope: /api/login, pathCase: insensitive, limit: 3, window: 1m}]"
	withEachAlgorithm(t, document, nil, func(a *api) {
		a.expect("as written", "AAA", get("/api/login"))
		for _, path := range []string{
			"/api//login", "/api/login/", "/api/./login", "/api/x/../login", "/api/%6Cogin", "/api/login?x=1", "/API/login",
		} {
			a.expect(path, "D", get(path))
		}
		a.expect("another path", "A", get("/api/logout"))
		a.expect("an escaped slash is no slash", "A", get("/api%2Flogin"))
	})
}

func TestWhoWaitsAsToldIsServed(t *testing.T) {
	for _, document := range []string{
		"rules: [{id: r, limit: 3, window: 1s, burst: 1}]",
		"rules: [{id: r, algorithm: leaky_bucket, limit: 3, window: 1s, burst: 1}]",
		"rules: [{id: r, limit: 7, window: 1100ms, burst: 2}]",
	} {
		withAPI(t, document, nil, waitAsTold)
	}
	for _, document := range []string{
		"rules: [{id: r, limit: 5, window: 1m}]",
		"rules: [{id: r, limit: 1, window: 1m}]",
		"rules: [{id: r, limit: 7, window: 1100ms}]",
	} {
		withEachAlgorithm(t, document, nil, waitAsTold)
	}
}

// waitAsTold sends 40 requests, and waits when it is told to.
func waitAsTold(a *api) {
	refused := 0
	for range 40 {
		w := a.send(get("/v1/x"))
		if w == nil || w.Code == http.StatusOK {
			continue
		}
		refused++
		after, err := strconv.Atoi(w.Header().Get("Retry-After"))
		if err != nil || after < 1 {
			a.t.Fatalf("Retry-After %q", w.Header().Get("Retry-After"))
		}
		time.Sleep(time.Duration(after) * time.Second)
		a.expect("after waiting", "A", get("/v1/x"))
	}
	if refused == 0 {
		a.t.Error("nobody was refused")
	}
}

func TestPreflightsLeaveTheLimitToRequests(t *testing.T) {
	const app = "https://app.example.com"
	withEachAlgorithm(t, "rules: [{id: r, limit: 40, window: 1m}]", []Option{WithCORS(app)}, func(a *api) {
		preflight := httptest.NewRequest(http.MethodOptions, "/v1/x", http.NoBody)
		preflight.Header.Set("Origin", app)
		preflight.Header.Set("Access-Control-Request-Method", "GET")
		request := get("/v1/x")
		request.Header.Set("Origin", app)
		for range 40 {
			a.expect("a preflight", "A", preflight)
			a.expect("its request", "A", request)
		}
		a.expect("a preflight over the limit", "A", preflight)
		w := a.send(request)
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Access-Control-Allow-Origin") != app ||
			!strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), "Retry-After") {
			a.t.Errorf("request 41: status %d, fields %v", w.Code, w.Header())
		}
		a.expect("a plain OPTIONS counts", "D", httptest.NewRequest(http.MethodOptions, "/v1/x", http.NoBody))
	})
}

func TestAPlainOptionsCountsWhereTheRuleIsAboutIt(t *testing.T) {
	options := httptest.NewRequest(http.MethodOptions, "/v1/x", http.NoBody)
	withEachAlgorithm(t, "rules: [{id: r, limit: 3, window: 1m}]", nil, func(a *api) {
		a.expect("of any method", "AA", options)
		a.expect("a request beside them", "AD", get("/v1/x"))
		a.expect("over the limit", "D", options)
	})
	withEachAlgorithm(t, "rules: [{id: r, scope: {methods: [GET]}, limit: 3, window: 1m}]", nil, func(a *api) {
		a.expect("of GET alone", "AAAAA", options)
		a.expect("the requests", "AAAD", get("/v1/x"))
		a.expect("over the limit", "A", options)
	})
}

// A day of probes, one every 10 s, takes nothing from the budget that their address has for a day.
func TestProbesAreNotLimited(t *testing.T) {
	withAPI(t, "rules: [{id: r, keyBy: ip, algorithm: fixed_window, limit: 1000, window: 86400s}]", nil, func(a *api) {
		probe := from("192.0.2.1")
		probe.URL.Path = "/healthz"
		for i := range 8640 {
			a.expect("a probe", "A", probe)
			if i%8 == 0 && i < 8000 {
				a.expect("a request", "A", from("192.0.2.1"))
			}
			if i == 8639 {
				a.expect("the request after a thousand", "D", from("192.0.2.1"))
			}
			time.Sleep(10 * time.Second)
		}
		a.expect("the next day's", strings.Repeat("A", 1000)+"D", from("192.0.2.1"))
		a.expect("a probe of a caller over the limit", "A", probe)
		probe.URL.Path = "/healthz-admin"
		a.expect("a path that only begins so", "D", probe)
	})
}
