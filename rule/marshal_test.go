package rule

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestMarshalLeavesDefaultsOut(t *testing.T) {
	t.Parallel()
	set := parsed(t, `
rules:
  - {id: a, scope: /v1, keyBy: global, limit: 60, windowSec: 60, burst: 60, cost: 1, mode: enforce, lease: {ttl: 500ms}, normalize: [], ipv6Prefix: 64,
     algorithm: token_bucket, missing: skip, onUnavailable: local, slack: 0, rollout: 100, block: false, secret: false, pathCase: sensitive, trailingSlash: ignore}
  - {id: b, block: true, description: "<&>"}
identity: {apikey: [x-api-key, bearer]}
headers: both
`)
	want := `{"rules":[{"id":"a","scope":{"paths":["/v1"]},"limit":60,"window":"1m"},{"id":"b","description":"<&>","block":true}]}`
	if got := string(set.Marshal()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// roundTrip writes a set, reads it back and compares all of it, the compiled parts included.
func roundTrip(tb testing.TB, set *Set) {
	tb.Helper()
	text := set.Marshal()
	back, err := Parse("canonical.json", text)
	if err != nil {
		tb.Fatalf("%v\nin %s", err, text)
	}
	if !reflect.DeepEqual(back, set) {
		tb.Errorf("%s\nis read as %s", text, back.Marshal())
	}
	if !json.Valid(text) {
		tb.Errorf("no JSON: %s", text)
	}
}

func TestParseReadsWhatMarshalWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set, err := Parse("drawn.json", drawDocument(t))
		if err != nil {
			t.Skip("a drawn rule contradicts itself")
		}
		text := set.Marshal()
		back, err := Parse("canonical.json", text)
		if err != nil {
			t.Fatalf("%v\nin %s", err, text)
		}
		if !reflect.DeepEqual(back, set) {
			t.Fatalf("%s\nis read as\n%s", text, back.Marshal())
		}
	})
}

// drawDocument draws a document in which most keys may be there or not.
func drawDocument(t *rapid.T) []byte {
	some := func(label string, odds int) bool { return rapid.IntRange(0, odds).Draw(t, label) == 0 }
	pick := func(label string, of ...any) any { return rapid.SampledFrom(of).Draw(t, label) }
	text := rapid.StringN(1, 20, 60)
	var rules []map[string]any
	for i := range rapid.IntRange(0, 4).Draw(t, "rules") {
		r := map[string]any{
			"id": fmt.Sprintf("r%d", i), "limit": rapid.IntRange(1, 1000).Draw(t, "limit"),
			"window": formatDuration(1000 * 1000 * rapid.SampledFrom([]time.Duration{1, 1500, 60_000, 86_400_000}).Draw(t, "window")),
		}
		optional := map[string]func() any{
			"version":     func() any { return rapid.IntRange(0, 1<<53).Draw(t, "version") },
			"description": func() any { return text.Draw(t, "description") },
			"burst":       func() any { return rapid.IntRange(1, 1000).Draw(t, "burst") },
			"cost":        func() any { return pick("cost", 1, 7, "header:x-cost") },
			"algorithm": func() any {
				return pick("algorithm", "token_bucket", "fixed_window", "sliding_window", "sliding_log", "leaky_bucket")
			},
			"mode":          func() any { return pick("mode", "enforce", "shadow", "off") },
			"onUnavailable": func() any { return pick("outage", "local", "local", "allow", "deny") },
			"fallback":      func() any { return map[string]any{"limit": 3, "window": "1s", "burst": pick("fallback", 3, 4)} },
			"missing":       func() any { return pick("missing", "skip", "shared", "deny") },
			"normalize":     func() any { return []any{pick("normalize", "trim", "casefold", "nfc")} },
			"lease":         func() any { return map[string]any{"ttl": pick("ttl", "500ms", "2s", "1.5s")} },
			"slack":         func() any { return pick("slack", 0, 5) },
			"rollout":       func() any { return pick("rollout", 0, 0.01, 12.5, 50, 99.99, 100) },
			"before": func() any {
				return pick("before", map[string]any{"limit": 7}, map[string]any{"block": true}, map[string]any{"mode": "off", "slack": 0},
					map[string]any{"burst": 9, "window": "2s", "lease": map[string]any{"ttl": "1s"}}, map[string]any{"onUnavailable": "deny"},
					map[string]any{"window": "1mo"}, map[string]any{"mode": "enforce"}, map[string]any{"window": "1d", "timeZone": "Asia/Tokyo"})
			},
			"secret":        func() any { return pick("secret", true, false) },
			"ipv6Prefix":    func() any { return pick("prefix", 48, 64, 128) },
			"pathCase":      func() any { return pick("case", "sensitive", "insensitive") },
			"trailingSlash": func() any { return pick("slash", "ignore", "strict") },
			"scope": func() any {
				return pick("scope", "/v1", []any{"/v1/**", "/v1/{id}"}, map[string]any{
					"methods": []any{"GET", "purge"}, "hosts": "*.example.com", "headers": map[string]any{"x-b": "1", "x-a": []any{text.Draw(t, "value"), "ordinary"}},
					"descriptors": map[string]any{"<<": "x", "d": 5, "c": []any{true}},
				})
			},
		}
		for key, draw := range optional {
			if some(key, 3) {
				r[key] = draw()
			}
		}
		if some("calendar", 6) {
			r["algorithm"], r["window"] = "fixed_window", pick("calendar window", "1d", "1mo")
			r["timeZone"] = pick("zone", "UTC", "Europe/Berlin", "Pacific/Apia")
			delete(r, "burst")
		}
		switch pick("keyBy", "none", "user", "ip", "several") {
		case "user":
			r["keyBy"] = pick("user", "user", "header:x-key", "descriptor:Δ")
			r["overrides"] = []any{map[string]any{"key": "!" + text.Draw(t, "key"), "limit": 5}, map[string]any{"key": "acme|\\", "burst": 8, "lease": map[string]any{"ttl": "1s"}}}
		case "ip":
			r["keyBy"] = []any{"ip"}
			r["overrides"] = []any{map[string]any{"key": pick("ip", "10.1.2.3", "2001:DB8::9"), "limit": 5, "window": "1m"}}
		case "several":
			r["keyBy"] = []any{"ip", "endpoint", "user"}
			r["overrides"] = []any{map[string]any{"key": []any{"::ffff:10.0.0.1", "GET /**", text.Draw(t, "part")}, "limit": 5}}
		}
		rules = append(rules, r)
	}
	doc := map[string]any{"rules": rules}
	if rules == nil {
		doc["rules"] = []any{}
	}
	if some("headers", 2) {
		doc["headers"] = pick("which headers", "both", "ietf", "legacy", "none")
	}
	if some("classes", 2) {
		doc["classes"] = []any{
			map[string]any{"class": pick("class", "test", "read", "write", "critical"), "apikeyPrefix": pick("prefix", "sk_", []any{"sk_", "rk_"}), "pathCase": "insensitive"},
			map[string]any{"class": "read", "scope": pick("class scope", "/v1", map[string]any{"methods": "GET", "descriptors": map[string]any{"d": 5}})},
		}
	}
	if some("shedders", 2) {
		doc["shedders"] = pick("which shedders", map[string]any{}, map[string]any{"worker": map[string]any{}}, map[string]any{"worker": map[string]any{"hold": "2s"}}, map[string]any{
			"worker": map[string]any{"mode": "shadow", "high": "80%", "low": "75%", "rise": "1s", "inFlight": 5, "queueWait": "10ms"},
			"fleet":  map[string]any{"mode": "off", "capacity": pick("capacity", "workers", 5), "reserve": "20%"},
		})
	}
	if some("switches", 2) {
		off := pick("switch", "off", "on", map[string]any{"off": true, "until": "2026-12-01T18:00:00+01:00", "reason": "r"}, map[string]any{"off": false, "reason": "r"})
		doc["switches"] = map[string]any{"all": off, "limiters": map[string]any{"rate": off, "worker": "off"}}
		if rules != nil {
			doc["switches"].(map[string]any)["rules"] = map[string]any{"r0": off}
		}
	}
	if some("identity", 2) {
		doc["identity"] = pick("identity", map[string]any{"apikey": []any{}}, map[string]any{"apikey": "x-key", "user": map[string]any{"header": "x-user", "trusted": true}})
	}
	src, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// A rule keeps its version as long as it does the same.
func TestNextKeepsVersionsOfWhatDidNotChange(t *testing.T) {
	t.Parallel()
	first := parsed(t, "rules: [{id: a, limit: 5, window: 60s}, {id: b, limit: 5, window: 60s, keyBy: user, overrides: [{key: x, limit: 6}]}]").Next(nil, 1)
	second := parsed(t, "rules: [{id: c, limit: 1, window: 1s}, {id: b, limit: 5, window: 1m, keyBy: user, overrides: [{key: x, limit: 7}]}, "+
		"{id: a, limit: 5, windowSec: 60, description: the same}]").Next(first, 2)
	third := second.Next(second, 3)
	back := first.Next(third, 4)
	for i, c := range []struct {
		set     *Set
		a, b    uint64
		version uint64
	}{{first, 1, 1, 1}, {second, 1, 2, 2}, {third, 1, 2, 3}, {back, 1, 4, 4}} {
		if a, b := c.set.Rule("a"), c.set.Rule("b"); c.set.Version != c.version || a.Version != c.a || b.Version != c.b {
			t.Errorf("step %d: set %d, a %d, b %d; want %d, %d, %d", i, c.set.Version, a.Version, b.Version, c.version, c.a, c.b)
		}
		roundTrip(t, c.set)
	}
	if v := second.Rule("c").Version; v != 2 {
		t.Errorf("a new rule has version %d, want 2", v)
	}
	if m := second.Match(&Request{User: "x"}, nil); len(m) != 3 || m[0].Rule != second.Rule("c") {
		t.Errorf("the numbered set matches %v", m)
	}
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	r := one(t, `limit: 100
window: 1m
burst: 150
keyBy: user
normalize: casefold
overrides:
  - {key: Acme, limit: 5000, burst: 8000}
  - {key: big, limit: 5000}
  - {key: burst, burst: 7}
  - {key: lease, lease: {ttl: 100ms}}
  - {key: slow, window: 1h}
  - {key: 0123, limit: 5000}`)
	for key, want := range map[string]string{
		"acme": "5000 1m0s 8000 500ms", "big": "5000 1m0s 5000 500ms", "burst": "100 1m0s 7 500ms", "lease": "100 1m0s 150 100ms",
		"slow": "100 1h0m0s 150 500ms", "0123": "5000 1m0s 5000 500ms", "other": "100 1m0s 150 500ms", "Acme": "100 1m0s 150 500ms",
	} {
		q := r.Quota([]byte(key))
		if got := fmt.Sprint(q.Limit, q.Window, q.Burst, q.LeaseTTL); strings.ReplaceAll(got, "  ", " ") != want {
			t.Errorf("%s may spend %s, want %s", key, got, want)
		}
		own := key == "other" || key == "Acme"
		if q.Overridden == own || (q.Revision == 0) != own {
			t.Errorf("%s: overridden %v, revision %d", key, q.Overridden, q.Revision)
		}
	}
	if r.Quota([]byte("big")).Revision != r.Quota([]byte("0123")).Revision || r.Quota([]byte("big")).Revision == r.Quota([]byte("acme")).Revision {
		t.Error("a revision is not a hash of the content alone")
	}
	// The value is stored beside ledgers: another release must compute the same.
	if got, want := r.Quota([]byte("acme")).Revision, uint64(6678693476395234798); got != want {
		t.Errorf("revision %d, want %d", got, want)
	}
}

// Overrides are found by the keys that requests build, however they are written.
func TestOverridesMeetTheirRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines string
		req   Request
	}{
		{"keyBy: ip\noverrides: [{key: '2001:DB8:0:0:1::9', limit: 7}]", Request{IP: netip.MustParseAddr("2001:db8::1")}},
		{"keyBy: ip\noverrides: [{key: '2001:db8::/64', limit: 7}]", Request{IP: netip.MustParseAddr("2001:db8::1")}},
		{"keyBy: ip\noverrides: [{key: '::ffff:192.0.2.1', limit: 7}]", Request{IP: netip.MustParseAddr("192.0.2.1")}},
		{"keyBy: ip\noverrides: [{key: 192.0.2.1/32, limit: 7}]", Request{IP: netip.MustParseAddr("::ffff:192.0.2.1")}},
		{"keyBy: [user, ip]\noverrides: [{key: ['a|b', 10.0.0.1], limit: 7}]", Request{User: "a|b", IP: netip.MustParseAddr("10.0.0.1")}},
		{"keyBy: [user, ip]\noverrides: [{key: 'a\\|b|10.0.0.1', limit: 7}]", Request{User: "a|b", IP: netip.MustParseAddr("10.0.0.1")}},
		{"keyBy: user\noverrides: [{key: 'a|b', limit: 7}]", Request{User: "a|b"}},
		{"keyBy: user\noverrides: [{key: [acme], limit: 7}]", Request{User: "acme"}},
		{"keyBy: user\noverrides: [{key: 5, limit: 7}]", Request{User: "5"}},
		{"keyBy: user\nnormalize: [trim, casefold]\noverrides: [{key: ' Acme', limit: 7}]", Request{User: "aCME"}},
		{"keyBy: endpoint\nscope: /a/{b}\noverrides: [{key: 'GET /a/{b}', limit: 7}]", Request{Method: "GET", Path: "/a/x"}},
	} {
		r := one(t, "limit: 2\nwindow: 60s\n"+c.lines)
		key, _ := r.AppendKey(nil, &c.req)
		if q := r.Quota(key); q.Limit != 7 {
			t.Errorf("%s: %+v spends %q with the limit %d", c.lines, c.req, key, q.Limit)
		}
	}
}

func TestBlockedRules(t *testing.T) {
	t.Parallel()
	r := one(t, "block: true\nlimit: 0\nkeyBy: user\noverrides: [{key: acme, limit: 5, window: 1s}]")
	if q := r.Quota([]byte("x")); !r.Block || q.Limit != 0 || q.Burst != 0 {
		t.Errorf("blocked: %+v", q)
	}
	if q := r.Quota([]byte("acme")); q.Limit != 5 || q.Burst != 5 {
		t.Errorf("the exception: %+v", q)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	header := func(values ...string) map[string][]string { return map[string][]string{"X-Cost": values} }
	for _, c := range []struct {
		cost string
		req  Request
		want int64
	}{
		{"1", Request{}, 1}, {"5", Request{}, 5}, {"5", Request{Cost: 2}, 2}, {"5", Request{Cost: -2}, -2}, {"5", Request{Cost: 1 << 60}, MaxCost},
		{"header:x-cost", Request{}, 1}, {"header:x-cost", Request{Headers: header("12")}, 12}, {"header:x-cost", Request{Headers: header("12"), Cost: 3}, 3},
		{"header:x-cost", Request{Headers: header("0")}, 1}, {"header:x-cost", Request{Headers: header("-5")}, 1}, {"header:x-cost", Request{Headers: header("1.5")}, 1},
		{"header:x-cost", Request{Headers: header("99999999999999999999")}, MaxCost}, {"header:x-cost", Request{Headers: header("1099511627777")}, MaxCost},
		{"header:x-cost", Request{Headers: header("00000000000000000012")}, 12}, {"header:x-cost", Request{Headers: header("+12")}, 12},
		{"header:x-cost", Request{Headers: header("12x")}, 1}, {"header:x-cost", Request{Headers: header("1 2")}, 1},
		{"header:x-cost", Request{Headers: header("")}, 1}, {"header:x-cost", Request{Headers: header()}, 1},
	} {
		if got := one(t, "limit: 2\nwindow: 60s\ncost: "+c.cost).CostOf(&c.req); got != c.want {
			t.Errorf("cost %s: %+v takes %d, want %d", c.cost, c.req, got, c.want)
		}
	}
}
