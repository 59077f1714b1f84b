package rule

import (
	"strings"
	"testing"
	"time"
)

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
		"9223372036854775807h": "at most 366d", "99999999999999999999h": "digits before", "1 fortnight": "the units are", "1mo": "or days, such as 30d", "2mo": "write days",
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
		{quota + "burst: 99999999999999999999", "burst", "99999999999999999999 is out of range"},
		{quota + "burst: 9223372036854775807", "burst", "too large to be counted exactly"},
		{"limit: 0\nwindow: 60s", "limit", "block: true"},
		{"limit: 0\nwindow: 60s\nburst: 1", "limit", "block: true"},
		{"algorithm: fixed_window\nlimit: 0\nwindow: 60s", "limit", "block: true"},
		{"algorithm: sliding_window\nlimit: 0\nwindow: 60s", "limit", "block: true"},
		{"algorithm: sliding_log\nlimit: 0\nwindow: 60s", "limit", "block: true"},
		{"algorithm: leaky_bucket\nlimit: 0\nwindow: 60s", "limit", "block: true"},
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
		{quota + "mode: on", "mode", "did you mean enforce?"},
		{quota + "mode: of", "mode", "did you mean off?"},
		{quota + "mode: [off]", "mode", "is not one of"},
		{quota + "onUnavailable: fail", "onUnavailable", "is not one of local, allow, deny"},
		{quota + "onUnavailable: deny\nfallback: {limit: 1, window: 1s}", "fallback", "never used"},
		{quota + "fallback: {limit: 1}", "fallback", "has no window"},
		{quota + "fallback: {limit: 0, window: 1s}", "fallback.limit", "0 would refuse"},
		{quota + "missing: drop", "missing", "is not one of"},
		{quota + "algorithm: concurrency", "window", "is not for concurrency"},
		{"algorithm: concurrency", "", "has no limit"},
		{"algorithm: concurrency\nlimit: 0", "limit", "0 would refuse"},
		{"algorithm: concurrency\nlimit: 5\nburst: 6", "burst", "may be in flight"},
		{"algorithm: concurrency\nlimit: 5\nwindowSec: 6", "windowSec", "is not for concurrency"},
		{"algorithm: concurrency\nlimit: 5\nslack: 6", "slack", "never admitted on credit"},
		{"algorithm: concurrency\nlimit: 5\nlease: {ttl: 500ms}", "lease", "too short"},
		{"algorithm: concurrency\nlimit: 5\nqueue: {size: 5}", "queue", "has no wait"},
		{"algorithm: concurrency\nlimit: 5\nqueue: {wait: 5s}", "queue", "has no size"},
		{"algorithm: concurrency\nlimit: 5\nqueue: {size: 0, wait: 5s}", "queue.size", "out of range"},
		{"algorithm: concurrency\nlimit: 5\nqueue: {size: 5, wait: 11m}", "queue.wait", "out of range"},
		{"algorithm: concurrency\nblock: true\nqueue: {size: 5, wait: 1s}", "queue", "for concurrency only"},
		{quota + "queue: {size: 5, wait: 1s}", "queue", "for concurrency only"},
		{quota + "algorithm: fixed_window\nburst: 70", "burst", "a window admits its limit"},
		{quota + "algorithm: sliding_log\nburst: 60", "burst", "a window admits its limit"},
		{"algorithm: sliding_log\nlimit: 10001\nwindow: 1d", "limit", "stores every admission"},
		{quota + "algorithm: sliding_window\nkeyBy: user\noverrides: [{key: a, limit: 5, burst: 6}]", "overrides[0].burst", "a window admits"},
		{quota + "algorithm: sliding_log\nkeyBy: user\noverrides: [{key: a, limit: 10001}]", "overrides[0].limit", "at most 10000"},
		{"algorithm: sliding_window\nlimit: 5\nwindow: 1mo", "window", "only a fixed_window has"},
		{"algorithm: fixed_window\nlimit: 5\nwindow: 2mo", "window", "not the same span"},
		{"algorithm: fixed_window\nlimit: 5\nwindow: 1mo\nwindowSec: 60", "windowSec", "says again"},
		{"algorithm: fixed_window\nlimit: 5\nwindow: 1mo\nkeyBy: user\noverrides: [{key: a, window: 1d}]", "overrides[0].window", "the same for all keys"},
		{"algorithm: fixed_window\nlimit: 5\nwindow: 24h\ntimeZone: Asia/Tokyo", "timeZone", "write window: 1d"},
		{"algorithm: fixed_window\nlimit: 5\nwindowSec: 86400\ntimeZone: Asia/Tokyo", "timeZone", "write window: 1d"},
		{"algorithm: fixed_window\nlimit: 5\nwindow: 1d\ntimeZone: Mars/Base", "timeZone", "is no time zone"},
		{"algorithm: fixed_window\nlimit: 5\nwindow: 1d\ntimeZone: Local", "timeZone", "is no time zone"},
		{"algorithm: fixed_window\nlimit: 5\nwindow: 1d\ntimeZone: right/UTC", "timeZone", "is no time zone"},
		{"algorithm: fixed_window\nlimit: 5\nwindow: 1d\ntimeZone: Asia/../Asia/Tokyo", "timeZone", "is no time zone"},
		{"algorithm: fixed_window\nlimit: 5\nwindow: 1d\ntimeZone: 2", "timeZone", "is no time zone"},
		{quota + "algorithm: token-bucket", "algorithm", "did you mean token_bucket?"},
		{quota + "rollout: 1.234", "rollout", "two decimals"},
		{quota + "rollout: 1e1", "rollout", "no percentage"},
		{quota + "rollout: -1", "rollout", "no percentage"},
		{quota + "rollout: '5'", "rollout", "no percentage"},
		{quota + "rollout: .inf", "rollout", "no percentage"},
		{quota + "rollout: 0x10", "rollout", "no percentage"},
		{quota + "rollout: 10%", "rollout", "leave out the sign"},
		{quota + "rollout: 2.5%", "rollout", "leave out the sign"},
		{quota + "rollout: 010", "rollout", "no decimal"},
		{quota + "rollout: 100.01", "rollout", "out of range"},
		{quota + "rollout: 99999999999999999999", "rollout", "out of range"},
		{quota + "rollout: 5\nbefore: {}", "before", "changes nothing"},
		{quota + "rollout: 5\nbefore: 100", "before", "where a map is expected"},
		{quota + "rollout: 5\nbefore: {limit: 5, keyBy: user}", "before.keyBy", "rule of its own"},
		{quota + "rollout: 5\nbefore: {scope: /v1}", "before.scope", "rule of its own"},
		{quota + "rollout: 5\nbefore: {algorithm: fixed_window}", "before.algorithm", "rule of its own"},
		{quota + "rollout: 5\nbefore: {cost: 2}", "before.cost", "rule of its own"},
		{quota + "rollout: 5\nbefore: {limt: 2}", "before.limt", "did you mean limit?"},
		{quota + "rollout: 5\nbefore: {burst: 0}", "before.burst", "leaves no room"},
		{quota + "rollout: 5\nbefore: {mode: dark}", "before.mode", "is not one of"},
		{quota + "rollout: 5\nbefore: {block: true, limit: 5}", "before.limit", "would mean nothing"},
		{"block: true\nrollout: 5\nbefore: {block: false, window: 1m}", "before", "has no limit"},
		{"block: true\nrollout: 5\nbefore: {limit: 5}", "before", "has no window"},
		{quota + "rollout: 5\nbefore: {onUnavailable: deny, fallback: {limit: 1, window: 1s}}", "before.fallback", "never used"},
		{quota + "rollout: 5\nbefore: {window: 1d, timeZone: UTC}", "before.timeZone", "fixed windows only"},
		{quota + "algorithm: sliding_log\nrollout: 5\nbefore: {limit: 10001}", "before.limit", "stores every admission"},
		{quota + "keyBy: user\noverrides: [{key: a, burst: 2000000000}]\nrollout: 5\nbefore: {limit: 7}", "overrides[0].burst", "lower burst"},
		{quota + "rollout: 101", "rollout", "out of range"},
		{quota + "timeZone: Europe/Berlin", "timeZone", "fixed windows only"},
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
		{quota + "keyBy: ip\nipv6Prefix: 24\noverrides: [{key: 192.0.2.0/24, limit: 5}]", "overrides[0].key", "write an IPv4 address"},
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
