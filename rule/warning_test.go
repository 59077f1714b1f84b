package rule

import (
	"strings"
	"testing"
)

// reviewed gives the warnings of a document that must be right.
func reviewed(tb testing.TB, src string) []*Warning {
	tb.Helper()
	set, warnings, err := Review("rules.yaml", []byte(src))
	if err != nil || set == nil {
		tb.Fatalf("Review:\n%s\n%v", src, err)
	}
	return warnings
}

func TestWarningsNameTheFieldAndTheFix(t *testing.T) {
	t.Parallel()
	const quota = "scope: /v1\nlimit: 60\nwindow: 60s\n"
	for _, c := range []struct{ lines, field, message string }{
		{quota + "cost: 61", "cost", "raise the burst"},
		{quota + "burst: 5\ncost: 6", "cost", "every request is refused"},
		{quota + "algorithm: sliding_window\ncost: 61", "cost", "raise the limit"},
		{quota + "cost: 5\nfallback: {limit: 4, window: 1m}", "fallback", "an outage refuses"},
		{quota + "cost: 5\nkeyBy: user\noverrides: [{key: a, limit: 4}]", "overrides[0]", "this key is ever admitted"},
		{quota + "keyBy: user\noverrides: [{key: a, limit: 60}]", "overrides[0]", "leave the override out"},
		{quota + "keyBy: user\noverrides: [{key: a, limit: 70}, {key: b, lease: {ttl: 500ms}}]", "overrides[1]", "leave the override out"},
		{"limit: 60\nwindow: 1m", "", "one budget"},
		{"block: true", "block", "refuses every request of every caller"},
		{"block: true\nkeyBy: user\nmissing: shared", "block", "refuses every request of every caller"},
		{quota + "algorithm: sliding_log\nslack: 1", "slack", "has no leases"},
		{quota + "algorithm: leaky_bucket\nlease: {ttl: 1s}", "lease", "has no leases"},
		{"scope: /v1\nalgorithm: fixed_window\nlimit: 5\nwindow: 1s\nlease: {ttl: 2s}", "lease", "longer than the window"},
		{quota + "keyBy: user\nipv6Prefix: 48", "ipv6Prefix", "no address"},
		{quota + "keyBy: ip\nnormalize: trim", "normalize", "only users"},
		{quota + "keyBy: endpoint\nmissing: deny", "missing", "can be missing"},
		{"scope: [/v1, //v1/./x]\nlimit: 5\nwindow: 1s", "scope[1]", "write /v1/x"},
		{"scope: {paths: '/v1/{a}/../{b}/**'}\nlimit: 5\nwindow: 1s", "scope.paths", "write /v1/{b}/**"},
	} {
		warnings := reviewed(t, document(c.lines))
		field := strings.TrimSuffix("rules[0]."+c.field, ".")
		if len(warnings) != 1 || warnings[0].Field != field || warnings[0].Line < 2 || warnings[0].Fix == "" || !strings.Contains(warnings[0].String(), c.message) {
			t.Errorf("%s\ngave %v\nwant one warning at %s that says %q", c.lines, warnings, field, c.message)
		}
	}
}

func TestNoWarningForWhatIsMeant(t *testing.T) {
	t.Parallel()
	const quota = "scope: /v1\nlimit: 60\nwindow: 60s\n"
	for _, lines := range []string{
		quota, quota + "cost: 60", quota + "cost: header:X-Cost\nburst: 1", "keyBy: global\nlimit: 60\nwindow: 1m", "keyBy: user\nlimit: 60\nwindow: 1m",
		"mode: shadow\nlimit: 60\nwindow: 1m", "block: true\nscope: /old/**", "block: true\nkeyBy: user", "block: true\nmode: off",
		"block: true\nkeyBy: user\nmissing: deny\noverrides: [{key: a, limit: 5, window: 1s}]",
		quota + "keyBy: user\noverrides: [{key: a, burst: 70}]", quota + "keyBy: [ip, user]\nnormalize: trim\nmissing: deny\nipv6Prefix: 48",
		"scope: /v1\nalgorithm: fixed_window\nlimit: 5\nwindow: 100ms", "scope: [/, /v1/, '/v1/{a}/', '/**', /v2/**]\nlimit: 5\nwindow: 1s",
	} {
		if warnings := reviewed(t, document(lines)); len(warnings) > 0 {
			t.Errorf("%s\ngave %v", lines, warnings)
		}
	}
}

func TestRulesBehindABlockAreNeverAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		block, scope string
		covered      bool
	}{
		{"/v1/**", "/v1", true}, {"/v1/**", "/v1/a/{b}", true}, {"/v1/**", "/v1/a/**", true}, {"/v1/**", "/v2", false}, {"/v1/**", "/v10", false},
		{"/v1/**", "[/v1/a, /v2]", false}, {"[/v1/**, /v2]", "[/v1/a, /v2]", true}, {"'/v1/{x}'", "/v1/a", true}, {"/v1/a", "'/v1/{x}'", false},
		{"/v1", "/v1/**", false}, {"/v1/a", "/v1", false}, {"/v1/**", "{methods: GET}", false}, {"{methods: GET}", "/v1", false},
		{"{methods: [GET, HEAD]}", "{methods: get, paths: /v1}", true}, {"{methods: GET}", "{methods: [GET, POST]}", false},
		{"{hosts: '*.example.com'}", "{hosts: a.example.com}", true}, {"{hosts: '*.example.com'}", "{hosts: example.com}", false},
		{"{hosts: '*.example.com'}", "{hosts: '*.example.com'}", true}, {"{hosts: '*.example.com'}", "{hosts: '*.a.example.com'}", false}, {"{hosts: a.example.com}", "/v1", false},
		{"{headers: {x-a: [1, 2]}}", "{headers: {X-A: 1, X-B: 3}}", true}, {"{headers: {x-a: 1}}", "{headers: {X-A: [1, 2]}}", false},
		{"{descriptors: {a: 1}}", "{descriptors: {a: 1}}", true}, {"{descriptors: {a: 1}}", "{headers: {a: 1}}", false},
		{"/v1\n    trailingSlash: strict", "/v1", false}, {"/v1", "/v1\n    trailingSlash: strict", true}, {"/V1\n    pathCase: insensitive", "/v1", true},
		{"/v1", "/v1\n    pathCase: insensitive", false}, {"/v1\n    trailingSlash: strict", "/v1/\n    trailingSlash: strict", false},
		{"/v1/\n    trailingSlash: strict", "/v1/\n    trailingSlash: strict", true},
		{"/v1\n    mode: shadow", "/v1", false}, {"/v1\n    keyBy: user", "/v1", false},
	} {
		warnings := reviewed(t, "rules:\n  - id: limited\n    limit: 5\n    window: 1s\n    scope: "+c.scope+"\n  - id: closed\n    block: true\n    scope: "+c.block+"\n")
		if got := len(warnings) == 1 && warnings[0].Field == "rules[0]" && strings.Contains(warnings[0].Message, `the rule "closed" at line`); got != c.covered || len(warnings) > 1 {
			t.Errorf("block %s, rule %s: %v, want covered: %v", c.block, c.scope, warnings, c.covered)
		}
	}
}

func TestWarningsComeInOrderAndShowTheLine(t *testing.T) {
	t.Parallel()
	warnings := reviewed(t, "rules:\n  - {id: a, limit: 5, window: 1s, cost: 6}\n  - {id: b, block: true}\n")
	want := []string{
		"rules.yaml:2:5: warning: rules[0]: has neither", "rules.yaml:2:5: warning: rules[0]: is never asked", "rules.yaml:2:41: warning: rules[0].cost: one request costs",
		"rules.yaml:3:20: warning: rules[1].block: refuses every",
	}
	if len(warnings) != len(want) {
		t.Fatalf("got %v", warnings)
	}
	for i, w := range want {
		if got := warnings[i].String(); !strings.HasPrefix(got, w) || !strings.HasSuffix(got, "^") {
			t.Errorf("got\n%s\nwant %s … and a caret", got, w)
		}
	}
	if set, none, err := Review("r", []byte("rules: [{}]")); set != nil || none != nil || err == nil {
		t.Errorf("a wrong document gives %v, %v, %v", set, none, err)
	}
}
