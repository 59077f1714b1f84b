package rule

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

// keyOf gives the key of a request, or why there is none.
func keyOf(r *Rule, req Request) string {
	key, status := r.AppendKey([]byte("> "), &req)
	rest, ok := strings.CutPrefix(string(key), "> ")
	switch {
	case !ok:
		return "overwritten"
	case status == KeySkip && rest == "":
		return "(skip)"
	case status == KeyDeny && rest == "":
		return "(deny)"
	}
	return rest
}

func TestKeysOfOnePart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 64<<10)
	for _, c := range []struct {
		lines string
		req   Request
		want  string
	}{
		{"keyBy: global", Request{User: "u"}, ""},
		{"keyBy: user", Request{User: "u1"}, "u1"},
		{"keyBy: apikey", Request{APIKey: "k|1\\"}, `k|1\`},
		{"keyBy: header:x-key", Request{Headers: map[string][]string{"X-Key": {"a b"}}}, "a b"},
		{"keyBy: header:x-key", Request{Headers: map[string][]string{"X-Key": {"a,b", "c"}}}, "a,b"},
		{"keyBy: header:x-key", Request{Headers: map[string][]string{"X-Key": {""}}}, "(skip)"},
		{"keyBy: header:x-key", Request{Headers: map[string][]string{"X-Key": {}}}, "(skip)"},
		{"keyBy: header:x-key", Request{}, "(skip)"},
		{"keyBy: header:x-key", Request{Headers: map[string][]string{"X-Key": {long}}}, long},
		{"keyBy: descriptor:Tenant", Request{Descriptors: map[string]string{"Tenant": "}{%00\t"}}, "}{%00\t"},
		{"keyBy: user\nmissing: skip", Request{}, "(skip)"},
		{"keyBy: user\nmissing: deny", Request{}, "(deny)"},
		{"keyBy: user\nmissing: shared", Request{}, ""},
		{"keyBy: user\nnormalize: [trim]", Request{User: " \tAda "}, "Ada"},
		{"keyBy: user\nnormalize: [trim]", Request{User: "  "}, "(skip)"},
		{"keyBy: user\nnormalize: [casefold]", Request{User: "Ada"}, "ada"},
		{"keyBy: user\nnormalize: [casefold]", Request{User: "STRASSE КЛЮЧ"}, "strasse ключ"},
		{"keyBy: user\nnormalize: [casefold]", Request{User: "Straße"}, "strasse"},
		{"keyBy: user\nnormalize: [nfc]", Request{User: "e\u0301"}, "é"},
		{"keyBy: user\nnormalize: [nfc, casefold]", Request{User: "E\u0301"}, "é"},
		{"keyBy: user\nnormalize: [nfc, casefold]", Request{User: "A\xff"}, "a\xff"},
		{"keyBy: user\nnormalize: [nfc, casefold]", Request{User: "E\u0301\xff\xc3"}, "é\xff\xc3"},
		{"keyBy: endpoint\nscope: ['/v1/**', '/v1/{id}']", Request{Method: "get", Path: "/v1/7?x=1"}, "GET /v1/**"},
		{"keyBy: endpoint\nscope: ['/v1/{id}', '/v1/**']", Request{Method: "GET", Path: "/v1//7/"}, "GET /v1/{id}"},
		{"keyBy: endpoint\nscope: ['/v1/a/', '/v1/**']\ntrailingSlash: strict", Request{Method: "GET", Path: "/v1/a"}, "GET /v1/**"},
		{"keyBy: endpoint\nscope: /V1\npathCase: insensitive", Request{Method: "GET", Path: "/v1"}, "GET /V1"},
		{"keyBy: endpoint", Request{Method: "POST", Path: "/any"}, "POST /**"},
		{"keyBy: endpoint", Request{Method: "MADEUP", Path: "/any"}, "OTHER /**"},
		{"keyBy: endpoint", Request{Method: "MADEUP2", Path: "/any"}, "OTHER /**"},
		{"keyBy: endpoint\nscope: {methods: [purge]}", Request{Method: "Purge", Path: "/any"}, "PURGE /**"},
	} {
		if got := keyOf(one(t, "limit: 2\nwindow: 60s\n"+c.lines), c.req); got != c.want {
			t.Errorf("%s: %+v spends %.80q, want %.80q", c.lines, c.req, got, c.want)
		}
	}
}

func TestAddressKeys(t *testing.T) {
	t.Parallel()
	r := one(t, "limit: 3\nwindow: 60s\nkeyBy: ip")
	for address, want := range map[string]string{
		"2001:db8:0:1::1": "2001:db8:0:1::/64", "2001:db8:0:1::6": "2001:db8:0:1::/64", "2001:DB8:0:1:0:0:0:1": "2001:db8:0:1::/64",
		"2001:db8:0:2::1": "2001:db8:0:2::/64", "::ffff:192.0.2.1": "192.0.2.1", "192.0.2.1": "192.0.2.1", "::ffff:192.0.2.2": "192.0.2.2",
		"fe80::1%eth0": "fe80::/64", "fe80::2": "fe80::/64", "::ffff:192.0.2.1%eth0": "192.0.2.1",
	} {
		if got := keyOf(r, Request{IP: netip.MustParseAddr(address)}); got != want {
			t.Errorf("%s spends %q, want %q", address, got, want)
		}
	}
	if got := keyOf(r, Request{}); got != "(skip)" {
		t.Errorf("an unknown address spends %q", got)
	}
	for lines, want := range map[string]string{"ipv6Prefix: 48": "2001:db8::/48", "ipv6Prefix: 128": "2001:db8:0:1::1", "ipv6Prefix: 1": "::/1"} {
		if got := keyOf(one(t, "limit: 3\nwindow: 60s\nkeyBy: ip\n"+lines), Request{IP: netip.MustParseAddr("2001:db8:0:1::1")}); got != want {
			t.Errorf("%s: spends %q, want %q", lines, got, want)
		}
	}
}

// Two callers whose parts differ never share a budget, whatever bytes the parts hold.
func TestKeysOfSeveralParts(t *testing.T) {
	t.Parallel()
	r := one(t, "limit: 3\nwindow: 60s\nmissing: shared\nkeyBy: [user, apikey]")
	seen := map[string][2]string{}
	for _, parts := range [][2]string{
		{"10.0.0.1", "1/x"}, {"10.0.0.11", "/x"}, {"a:b", "c"}, {"a", "b:c"}, {"a", ""}, {"", "a"}, {"", ""}, {"a|b", "c"}, {"a", "b|c"},
		{`a\`, "|c"}, {`a\|`, "c"}, {"a|", "c"}, {`\`, `\`}, {`\\`, ""}, {"|", "|"}, {"||", ""}, {"", "||"}, {`a\|b`, "c"},
	} {
		key := keyOf(r, Request{User: parts[0], APIKey: parts[1]})
		if other, taken := seen[key]; taken {
			t.Errorf("%q and %q both spend %q", parts, other, key)
		}
		seen[key] = parts
		if back := splitKey(key); len(back) != 2 || back[0] != parts[0] || back[1] != parts[1] {
			t.Errorf("%q spends %q, which reads as %q", parts, key, back)
		}
	}
	for missing, want := range map[string]string{"skip": "(skip)", "deny": "(deny)", "shared": "u|"} {
		r := one(t, "limit: 3\nwindow: 60s\nkeyBy: [user, apikey]\nmissing: "+missing)
		if got := keyOf(r, Request{User: "u"}); got != want {
			t.Errorf("missing: %s gives %q, want %q", missing, got, want)
		}
	}
}

// A key that need not be made is the one that would have been.
func TestVerbatimKeysAreThoseThatAreMade(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines string
		req   Request
		ok    bool
	}{
		{"keyBy: user", Request{User: "u1", APIKey: "k1"}, true},
		{"keyBy: user", Request{User: " U|1"}, true},
		{"keyBy: apikey", Request{User: "u1", APIKey: "k|1"}, true},
		{"keyBy: user", Request{APIKey: "k1"}, false},
		{"keyBy: user\nmissing: shared", Request{}, false},
		{"keyBy: user\nnormalize: [trim]", Request{User: " u1"}, false},
		{"keyBy: apikey\nnormalize: [casefold]", Request{APIKey: "K1"}, false},
		{"keyBy: [user, apikey]", Request{User: "u1", APIKey: "k1"}, false},
		{"keyBy: global", Request{User: "u1"}, false},
		{"keyBy: endpoint", Request{User: "u1", Method: "GET", Path: "/"}, false},
	} {
		r := one(t, "limit: 2\nwindow: 60s\n"+c.lines)
		key, ok := r.Verbatim(&c.req)
		if ok != c.ok || ok && key != keyOf(r, c.req) {
			t.Errorf("%q of %+v: %q, %v; want %q, %v", c.lines, c.req, key, ok, keyOf(r, c.req), c.ok)
		}
	}
}

func FuzzAppendKey(f *testing.F) {
	r := one(f, "limit: 3\nwindow: 60s\nmissing: shared\nkeyBy: [user, apikey, 'descriptor:d']")
	f.Add("a", "b", "c", "a|b", "", "c")
	f.Add(`\`, "|", "", "", `\|`, "|")
	f.Add("a||", `b\\`, "\x00\xff", "a|", `|b\\`, "\x00\xff")
	f.Fuzz(func(t *testing.T, a1, a2, a3, b1, b2, b3 string) {
		key := func(u, k, d string) []byte {
			key, status := r.AppendKey(nil, &Request{User: u, APIKey: k, Descriptors: map[string]string{"d": d}})
			if status != KeyReady {
				t.Fatalf("status %d", status)
			}
			if back := splitKey(string(key)); len(back) != 3 || back[0] != u || back[1] != k || back[2] != d {
				t.Errorf("%q, %q, %q spend %q, which reads as %q", u, k, d, key, back)
			}
			return key
		}
		same := a1 == b1 && a2 == b2 && a3 == b3
		if a, b := key(a1, a2, a3), key(b1, b2, b3); bytes.Equal(a, b) != same {
			t.Errorf("(%q %q %q) spends %q, (%q %q %q) spends %q", a1, a2, a3, a, b1, b2, b3, b)
		}
	})
}

func TestAppendKeyDoesNotAllocate(t *testing.T) {
	r := one(t, "limit: 3\nwindow: 60s\nscope: ['/v1/**']\nnormalize: [trim, casefold, nfc]\nkeyBy: [user, ip, apikey, endpoint, 'header:X-A', 'descriptor:d']")
	req := &Request{
		User: "Ada|1", IP: netip.MustParseAddr("2001:db8::1"), APIKey: "k", Method: "GET", Path: "/v1/x",
		Headers: map[string][]string{"X-A": {"1"}}, Descriptors: map[string]string{"d": "2"},
	}
	buf := make([]byte, 0, 256)
	if n := testing.AllocsPerRun(100, func() { buf, _ = r.AppendKey(buf[:0], req) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if want := `ada\|1|2001:db8::/64|k|GET /v1/**|1|2`; string(buf) != want {
		t.Errorf("got %s, want %s", buf, want)
	}
}
