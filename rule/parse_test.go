package rule

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// parsed parses a document that must be right.
func parsed(t testing.TB, src string) *Set {
	t.Helper()
	set, err := Parse("rules.yaml", []byte(src))
	if err != nil {
		t.Fatalf("Parse:\n%s\n%v", src, err)
	}
	return set
}

// one parses a document of one rule, given as the lines under "- id: r".
func one(t testing.TB, lines string) *Rule {
	t.Helper()
	return parsed(t, document(lines)).Rules[0]
}

func document(lines string) string {
	src := "rules:\n  - id: r\n"
	for line := range strings.Lines(lines) {
		src += "    " + line
	}
	return src + "\n"
}

// refused parses a document that must be wrong, and gives its errors.
func refused(t testing.TB, src string) Errors {
	t.Helper()
	set, err := Parse("rules.yaml", []byte(src))
	var errs Errors
	if !errors.As(err, &errs) || len(errs) == 0 || set != nil {
		t.Fatalf("Parse gave a set (%v) or no Errors (%v):\n%s", set != nil, err, src)
	}
	return errs
}

func TestParseDefaults(t *testing.T) {
	t.Parallel()
	r := one(t, "limit: 100\nwindow: 1m")
	want := Rule{
		ID: "r", KeyBy: []KeyPart{{Kind: KeyGlobal}}, Limit: 100, Window: time.Minute, Burst: 100,
		Cost: Cost{Tokens: 1}, LeaseTTL: 500 * time.Millisecond, IPv6Prefix: 64,
	}
	got := *r
	got.Scope, got.own = Scope{}, Quota{}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseEverything(t *testing.T) {
	t.Parallel()
	set := parsed(t, `
version: 7
rules:
  - id: search-per-key
    version: 5
    description: what a customer may search
    scope: {paths: [/v1/search, "/v1/{tenant}/search"], methods: [get, POST], hosts: [API.example.com., "*.example.net"],
            headers: {x-plan: [free, trial]}, descriptors: {region: eu}}
    keyBy: [apikey, "header:x-tenant"]
    algorithm: token_bucket
    limit: 1_000
    windowSec: 60
    burst: 1500
    cost: header:x-cost
    mode: shadow
    rollout: 100
    onUnavailable: local
    fallback: {limit: 10, window: 1s, burst: 20}
    slack: 3
    lease: {ttl: 2s}
    missing: deny
    normalize: [trim, casefold, nfc]
    ipv6Prefix: 56
    pathCase: insensitive
    trailingSlash: strict
    secret: true
    overrides: [{key: [acme, one], limit: 5000, burst: 8000, lease: {ttl: 100ms}}]
identity: {apikey: [X-API-Key, Bearer], user: {header: x-user, trusted: true}}
`)
	r := set.Rule("search-per-key")
	if r == nil || r != set.Rules[0] || set.Rule("other") != nil {
		t.Fatalf("Rule finds %v", r)
	}
	got := fmt.Sprintln(set.Version, r.Version, r.Description, r.Scope.Paths, r.Scope.Methods, r.Scope.Hosts, r.Scope.Headers, r.Scope.Descriptors,
		r.KeyBy, r.Algorithm, r.Limit, r.Window, r.Burst, r.Cost, r.Mode, r.OnUnavailable, *r.Fallback, r.Slack, r.LeaseTTL, r.Missing,
		r.Normalize, r.IPv6Prefix, r.Scope.PathCase, r.Scope.TrailingSlash, r.Secret, r.Overrides, set.Identity)
	want := "7 5 what a customer may search [/v1/search /v1/{tenant}/search] [GET POST] [api.example.com *.example.net] " +
		"[{X-Plan [free trial]}] [{region [eu]}] [apikey header:X-Tenant] token_bucket 1000 1m0s 1500 {1 X-Cost} shadow local " +
		"{10 1s 20 0s 0 false} 3 2s deny {true true true} 56 insensitive strict true map[acme|one:{5000 0s 8000 100ms}] " +
		"{[{X-Api-Key false} { true}] {X-User true}}"
	if got != want+"\n" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestParseReadsJSON(t *testing.T) {
	t.Parallel()
	set := parsed(t, "{\n\t\"rules\": [{\"id\": \"r\", \"scope\": \"\\/v1\", \"limit\": 3, \"window\": \"1s\", \"description\": \"\\ud83d\\ude00 \\\\ud83d\"}]\n}")
	if r := set.Rules[0]; r.Scope.Paths[0] != "/v1" || r.Description != "😀 \\ud83d" {
		t.Errorf("got scope %q, description %q", r.Scope.Paths, r.Description)
	}
}

func TestParseMergesAnchors(t *testing.T) {
	t.Parallel()
	set := parsed(t, `
rules:
  - &base {id: a, limit: 5, window: 1s, keyBy: user}
  - &next {<<: *base, id: b, limit: 6}
  - {id: c, <<: [*next, *base], window: 2s}
`)
	got := ""
	for _, r := range set.Rules {
		got += fmt.Sprint(r.ID, r.Limit, r.Window, r.KeyBy[0], " ")
	}
	if want := "a5 1s user b6 1s user c6 2s user "; strings.ReplaceAll(got, "  ", " ") != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1ms": time.Millisecond, "500ms": 500 * time.Millisecond, "1s": time.Second, "1.5s": 1500 * time.Millisecond, "60s": time.Minute,
		"1m": time.Minute, "1h30m": 90 * time.Minute, "1d": 24 * time.Hour, "31d": 31 * 24 * time.Hour, "1w": 7 * 24 * time.Hour,
		"366d": 366 * 24 * time.Hour, "1500us": 1500 * time.Microsecond, "0.5h": 30 * time.Minute, "1.000001s": 1000001 * time.Microsecond,
	} {
		if r := one(t, "limit: 1\nwindow: "+text); r.Window != want {
			t.Errorf("window %s is %v, want %v", text, r.Window, want)
		}
	}
	for text, fix := range map[string]string{
		"1000": "write 1000s", `"1000"`: "write 1000s", "0": "write 0s", "1.5": "write 1.5s", "-1s": "a number and a unit", "1e9h": "the units are", "0s": "from 1ms to 366d",
		"999us": "from 1ms to 366d", "367d": "from 1ms to 366d", "292w": "from 1ms to 366d", "15240w": "from 1ms to 366d", "16000w": "at most 366d",
		"9223372036854775807h": "at most 366d", "99999999999999999999h": "digits before", "1 fortnight": "the units are", "1mo": "write days",
		"1.0000001s": "smaller unit", "1..5s": "smaller unit", ".s": "digits", "s": "a number and a unit", "1m 5s": "the units", "": "write one",
		"1.00000000000000000000001h": "smaller unit", "{a: 1}": "", "[1s]": "",
	} {
		errs := refused(t, document("limit: 1\nwindow: "+text))
		if len(errs) != 1 || errs[0].Field != "rules[0].window" || errs[0].Line != 4 || !strings.Contains(errs[0].Fix, fix) {
			t.Errorf("window %s: %v\nwant one error at rules[0].window, with the fix %q", text, errs, fix)
		}
	}
	for span := time.Microsecond; span < 1<<60; span = span*3 + time.Microsecond {
		if got, err := parseDuration(formatDuration(span)); err != nil || got != span {
			t.Errorf("%v is written %s and read %v, %v", span, formatDuration(span), got, err)
		}
	}
}

func TestOddValuesNameTheFieldAndTheFix(t *testing.T) {
	t.Parallel()
	const quota = "limit: 60\nwindow: 60s\n"
	for _, c := range []struct{ lines, field, message string }{
		{quota + "burst: 0", "burst", "0 leaves no room"},
		{quota + "burst: -1", "burst", "-1 leaves no room"},
		{quota + "burst: 0.4", "burst", `"0.4" is no whole`},
		{quota + `burst: "10"`, "burst", "write 10 without quotes"},
		{quota + "burst: 99999999999999999999", "burst", "no whole decimal number"},
		{quota + "burst: 9223372036854775807", "burst", "too large to be counted exactly"},
		{"limit: 0\nwindow: 60s", "limit", "block: true"},
		{"limit: 0\nwindow: 60s\nburst: 1", "limit", "block: true"},
		{"limit: -1\nwindow: 60s", "limit", "out of range"},
		{"limit: 1.0\nwindow: 60s", "limit", "no whole decimal number"},
		{"limit: 010\nwindow: 60s", "limit", "no whole decimal number"},
		{"limit: 0x10\nwindow: 60s", "limit", "no whole decimal number"},
		{"limit: ten\nwindow: 60s", "limit", "no whole decimal number"},
		{"limit: [1]\nwindow: 60s", "limit", "is a list"},
		{"limit:\nwindow: 60s", "limit", "has no value"},
		{"limit: 999983\nwindow: 366d", "window", "too large to be counted exactly"},
		{"limit: 2000000000000\nwindow: 1s", "limit", "out of range"},
		{"window: 60s", "", "has no limit"},
		{"limit: 60", "", "has no window"},
		{"limit: 60\nwindow: 60s\nwindowSec: 60", "windowSec", "says again"},
		{"limit: 60\nwindowSec: 0", "windowSec", "out of range"},
		{"limit: 60\nwindowSec: 60s", "windowSec", "no whole"},
		{"block: true\nlimit: 5", "limit", "would mean nothing"},
		{"block: true\nburst: 5", "burst", "would mean nothing"},
		{"block: yes\n" + quota, "block", "true or false"},
		{quota + "cost: 0", "cost", "out of range"},
		{quota + "cost: -1", "cost", "out of range"},
		{quota + "cost: 'header:'", "cost", "no name of a header"},
		{quota + "mode: shadowed", "mode", "did you mean shadow?"},
		{quota + "mode: [off]", "mode", "is not one of"},
		{quota + "onUnavailable: fail", "onUnavailable", "is not one of local, allow, deny"},
		{quota + "onUnavailable: deny\nfallback: {limit: 1, window: 1s}", "fallback", "never used"},
		{quota + "fallback: {limit: 1}", "fallback", "has no window"},
		{quota + "fallback: {limit: 0, window: 1s}", "fallback.limit", "0 would refuse"},
		{quota + "missing: drop", "missing", "is not one of"},
		{quota + "algorithm: sliding_log", "algorithm", "not available in this version"},
		{quota + "algorithm: token-bucket", "algorithm", "did you mean token_bucket?"},
		{quota + "rollout: 5", "rollout", "not available"},
		{quota + "rollout: 101", "rollout", "out of range"},
		{quota + "timeZone: Mars/Base", "timeZone", "fixed windows only"},
		{quota + "slack: -1", "slack", "out of range"},
		{quota + "lease: {ttl: 1}", "lease.ttl", "has no unit"},
		{quota + "lease: {ttl: 1ms}", "lease.ttl", "out of range"},
		{quota + "ipv6Prefix: 0", "ipv6Prefix", "out of range"},
		{quota + "ipv6Prefix: 129", "ipv6Prefix", "out of range"},
		{quota + "normalize: [lower]", "normalize[0]", "known: trim, casefold, nfc"},
		{quota + "keyBy: usr", "keyBy", "did you mean user?"},
		{quota + "keyBy: header", "keyBy", "header:NAME"},
		{quota + "keyBy: user:x", "keyBy", "write user"},
		{quota + "keyBy: 'header:a b'", "keyBy", "no name of a header"},
		{quota + "keyBy: [user, user]", "keyBy[1]", "twice"},
		{quota + "keyBy: [user, global]", "keyBy[1]", "write it alone"},
		{quota + "keyBy: []", "keyBy", "empty list"},
		{quota + "key_by: user", "key_by", "did you mean keyBy?"},
		{quota + "limits: 5", "limits", "did you mean limit?"},
		{quota + "frobnicate: 5", "frobnicate", "known: id, scope"},
		{quota + "burst: 5\nburst: 6", "burst", "set twice, first at line 5"},
		{quota + "scope: v1", "scope", `starts with "/"`},
		{quota + "scope: /v1/*", "scope", "{name}"},
		{quota + "scope: /v1/**/x", "scope", "/**"},
		{quota + "scope: '/v1/{}'", "scope", "{name}"},
		{quota + "scope: '/v1/{a}b'", "scope", "{name}"},
		{quota + "scope: '/v1/{a...}'", "scope", "{name}"},
		{quota + "scope: /v1?x=1", "scope", "no query"},
		{quota + "scope: [/v1, /v1]", "scope[1]", "twice"},
		{quota + "scope: {paths: []}", "scope.paths", "empty list"},
		{quota + "scope: {path: /v1}", "scope.path", "did you mean paths?"},
		{quota + "scope: {methods: 'GET POST'}", "scope.methods", "write a method"},
		{quota + "scope: {hosts: 'example.com:80'}", "scope.hosts", "without a port"},
		{quota + "scope: {headers: [X-A]}", "scope.headers", "NAME: value"},
		{quota + "scope: {headers: {X-A: ''}}", "scope.headers.X-A", "is empty"},
		{quota + "scope: {headers: {X-A: 1, x-a: 2}}", "scope.headers", "set twice"},
		{quota + "overrides: {acme: 5}", "overrides", "write [{key: acme"},
		{quota + "overrides: [{key: a, limit: 5}]", "overrides[0].key", "by global"},
		{quota + "keyBy: user\noverrides: [{limit: 5}]", "overrides[0]", "has no key"},
		{quota + "keyBy: user\noverrides: [{key: a}]", "overrides[0]", "changes nothing"},
		{quota + "keyBy: user\noverrides: [{key: a, limit: 0}]", "overrides[0].limit", "0 would refuse"},
		{quota + "keyBy: user\noverrides: [{key: a, burst: 0}]", "overrides[0].burst", "leaves no room"},
		{quota + "keyBy: user\noverrides: [{key: a, limit: 5}, {key: a, limit: 6}]", "overrides[1].key", "already"},
		{quota + "keyBy: user\nnormalize: casefold\noverrides: [{key: A, limit: 5}, {key: a, limit: 6}]", "overrides[1].key", "already"},
		{quota + "keyBy: ip\noverrides: [{key: acme, limit: 5}]", "overrides[0].key", "write an address"},
		{quota + "keyBy: ip\noverrides: [{key: 10.0.0.0/8, limit: 5}]", "overrides[0].key", "write an IPv4 address"},
		{quota + "keyBy: ip\noverrides: [{key: '2001:db8::/48', limit: 5}]", "overrides[0].key", "ipv6Prefix"},
		{quota + "keyBy: [user, ip]\noverrides: [{key: acme, limit: 5}]", "overrides[0].key", "as a list"},
		{"block: true\nkeyBy: user\noverrides: [{key: a, burst: 5}]", "overrides[0]", "no limit and window"},
	} {
		errs := refused(t, document(c.lines))
		field := strings.TrimSuffix("rules[0]."+c.field, ".")
		if len(errs) != 1 || errs[0].Field != field || !strings.Contains(errs[0].Error(), c.message) || errs[0].Fix == "" && !strings.HasPrefix(errs[0].Message, "is ") {
			t.Errorf("%s\ngave %v\nwant one error at %s that says %q", c.lines, errs, field, c.message)
		}
	}
}

func TestBadIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`""`, `"a b"`, "a/b", "ключ", `"a\nb"`, strings.Repeat("x", 65), "null", "[a]", "{a: b}"} {
		errs := refused(t, "rules: [{id: "+id+", limit: 1, window: 1s}]")
		if len(errs) != 1 || errs[0].Field != "rules[0].id" {
			t.Errorf("id %s: %v", id, errs)
		}
	}
	for _, id := range []string{"a", "12", "A.b_c-9", strings.Repeat("x", 64)} {
		if set := parsed(t, "rules: [{id: "+id+", limit: 1, window: 1s}]"); set.Rules[0].ID != id {
			t.Errorf("id %s became %q", id, set.Rules[0].ID)
		}
	}
}

// One bad rule or a broken document refuses the whole, with the place.
func TestBrokenDocuments(t *testing.T) {
	t.Parallel()
	rules := func(n int, bad int) string {
		var b strings.Builder
		b.WriteString("rules:\n")
		for i := range n {
			window := "1m"
			if i == bad {
				window = "1 fortnight"
			}
			fmt.Fprintf(&b, "  - {id: r%d, limit: 5, window: %s}\n", i, window)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, src, field, message string
		line                      int
	}{
		{"duplicate id", "rules:\n  - {id: a, limit: 1, window: 1s}\n  - {id: a, limit: 2, window: 1s}\n", "rules[1]", "taken by the rule at line 2", 3},
		{"one bad of many", rules(5000, 4321), "rules[4321].window", "fortnight", 4323},
		{"too many rules", rules(MaxRules+1, -1), "rules", "has 10001 items", MaxRules + 2},
		{"cut in half", "rules:\n  - {id: a, limit: 1, wind", "", "", 2},
		{"not a map", "- 1\n", "", "is a list where a map", 1},
		{"empty", "", "", "the document is empty", 0},
		{"only comments", "# nothing\n", "", "the document is empty", 0},
		{"null", "---\n", "", "where a map is expected", 2},
		{"no rules", "identity: {}\n", "", "has no rules", 1},
		{"rules are null", "rules:\n", "rules", "is empty where a list", 1},
		{"rules are a map", "rules: {a: 1}\n", "rules", "is a map where a list", 1},
		{"rule is text", "rules: [a]\n", "rules[0]", "where a map is expected", 1},
		{"second document", "rules: []\n---\nrules: []\n", "", "a second document", 2},
		{"unknown key", "rule: []\nrules: []\n", "rule", "did you mean rules?", 1},
		{"later key", "rules: []\nshedders: {}\n", "shedders", "not available", 2},
		{"duplicate key", "rules: []\nrules: []\n", "rules", "set twice, first at line 1", 2},
		{"unknown anchor", "rules: [*a]\n", "", "unknown anchor", 1},
		{"anchor that holds itself", "rules: &a [*a]\n", "rules[0]", "is a list where a map", 1},
		{"not UTF-8", "rules: [\xff]\n", "", "is not UTF-8", 0},
		{"control character", "rules: [\x01]\n", "", "control characters", 1},
		{"map as a key", "rules: []\n? {a: b}\n: 1\n", "", "as a key", 2},
		{"identity", "rules: []\nidentity: {apikey: ['a b'], user: {trusted: 1}}\n", "identity.apikey[0]", "no name of a header", 2},
		{"version", "rules: []\nversion: -1\n", "version", "out of range", 2},
	} {
		errs := refused(t, c.src)
		if errs[0].Field != c.field || errs[0].Line != c.line || !strings.Contains(errs[0].Message+errs[0].Fix, c.message) {
			t.Errorf("%s: %v\nwant line %d, %q, %q", c.name, errs[0], c.line, c.field, c.message)
		}
	}
}

func TestErrorsComeAllAtOnceInOrder(t *testing.T) {
	t.Parallel()
	_, err := Parse("etc/rules.yaml", []byte(`rules:
  - id: a
    limt: 5
    window: 60
  - {id: ключ, "limit": "5", window: 1s}
`))
	want := `etc/rules.yaml:2:5: rules[0]: has no limit (write limit: and the tokens of one window)
    - id: a
      ^
etc/rules.yaml:3:5: rules[0].limt: is not known here (did you mean limit?)
      limt: 5
      ^
etc/rules.yaml:4:13: rules[0].window: "60" has no unit (write 60s for seconds, or another unit: ms, m, h, d, w)
      window: 60
              ^
etc/rules.yaml:5:10: rules[1].id: "ключ" is no id (an id is 1 to 64 letters, digits, dots, underscores or hyphens)
    - {id: ключ, "limit": "5", window: 1s}
           ^
etc/rules.yaml:5:25: rules[1].limit: "5" is text (write 5 without quotes)
    - {id: ключ, "limit": "5", window: 1s}
                          ^`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	var single *Error
	if !errors.As(err, &single) || single.Field != "rules[0]" {
		t.Errorf("errors.As finds %v", single)
	}
}

func TestErrorShowsOnlyPartOfALongLine(t *testing.T) {
	t.Parallel()
	src := `{"rules":[` + strings.Repeat(" ", 500) + `{"id":"a","limit":0,"window":"1s"}` + strings.Repeat(" ", 500) + "]}"
	e := refused(t, src)[0]
	place := []rune(e.Error()[strings.LastIndexByte(e.Error(), '\n')+1:])
	if len(e.Source) > 140 || []rune("  " + e.Source)[len(place)-1] != '0' || place[len(place)-1] != '^' {
		t.Errorf("the caret misses the value:\n%v", e)
	}
}
