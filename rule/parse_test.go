package rule

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// parsed parses a document that must be right.
func parsed(tb testing.TB, src string) *Set {
	tb.Helper()
	set, err := Parse("rules.yaml", []byte(src))
	if err != nil {
		tb.Fatalf("Parse:\n%s\n%v", src, err)
	}
	return set
}

// one parses a document of one rule, given as the lines under "- id: r".
func one(tb testing.TB, lines string) *Rule {
	tb.Helper()
	return parsed(tb, document(lines)).Rules[0]
}

func document(lines string) string {
	return "rules:\n  - id: r\n    " + strings.ReplaceAll(lines, "\n", "\n    ") + "\n"
}

// refused parses a document that must be wrong, and gives its errors.
func refused(tb testing.TB, src string) Errors {
	tb.Helper()
	set, err := Parse("rules.yaml", []byte(src))
	var errs Errors
	if !errors.As(err, &errs) || len(errs) == 0 || set != nil {
		tb.Fatalf("Parse gave a set (%v) or no Errors (%v):\n%s", set != nil, err, src)
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
	for i, want := range []string{"a 5 1s user", "b 6 1s user", "c 6 2s user"} {
		r := set.Rules[i]
		if got := fmt.Sprintf("%s %d %v %v", r.ID, r.Limit, r.Window, r.KeyBy[0]); got != want {
			t.Errorf("got %s, want %s", got, want)
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
		{"no end", `{"rules": [{"id": "a"}`, "", "around this line", 1},
		{"no end of the third line", "{rules: [\n{id: a},\n{id: b}\n\n", "", "around this line", 3},
		{"unknown key", "rule: []\nrules: []\n", "rule", "did you mean rules?", 1},
		{"unknown shedder", "rules: []\nshedders: {workers: {}}\n", "shedders.workers", "did you mean worker?", 2},
		{"duplicate key", "rules: []\nrules: []\n", "rules", "set twice, first at line 1", 2},
		{"unknown anchor", "rules: [*a]\n", "", "unknown anchor", 1},
		{"anchor that holds itself", "rules: &a [*a]\n", "rules[0]", "is a list where a map", 1},
		{"not UTF-8", "rules: [\xff]\n", "", "is not UTF-8", 0},
		{"control character", "rules: [\x01]\n", "", "control characters", 1},
		{"map as a key", "rules: []\n? {a: b}\n: 1\n", "", "as a key", 2},
		{"identity", "rules: []\nidentity: {apikey: ['a b'], user: {trusted: 1}}\n", "identity.apikey[0]", "no name of a header", 2},
		{"load as a number", "rules: []\nshedders: {worker: {high: 50}}\n", "shedders.worker.high", "such as 50%", 2},
		{"fall below rise", "rules: []\nshedders: {worker: {rise: 2s, fall: 1s}}\n", "shedders.worker.fall", "no shorter than rise", 2},
		{"fall and hold", "rules: []\nshedders: {worker: {fall: 10s, hold: 2s}}\n", "shedders.worker.hold", "write one of them", 2},
		{"no between", "rules: []\nshedders: {worker: {high: 80%, low: 80%}}\n", "shedders.worker.low", "write a low below high", 2},
		{"reserve as a word", "rules: []\nshedders: {fleet: {reserve: half}}\n", "shedders.fleet.reserve", "such as 20%", 2},
		{"headers", "rules: []\nheaders: iets\n", "headers", "did you mean ietf?", 2},
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
	want := `etc/rules.yaml:3:5: rules[0].limt: is not known here (did you mean limit?)
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
	if !errors.As(err, &single) || single.Field != "rules[0].limt" {
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
