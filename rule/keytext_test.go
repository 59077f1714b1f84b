package rule

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

// oneRule is the only rule of a document.
func oneRule(t *testing.T, text string) *Rule {
	t.Helper()
	set, err := Parse("test", []byte("rules: ["+text+"]"))
	if err != nil {
		t.Fatal(err)
	}
	return set.Rules[0]
}

// What somebody writes as a key must name the budget that requests spend.
func TestKeyOfIsTheKeyOfRequests(t *testing.T) {
	for _, row := range []struct {
		rule, text string
		request    Request
	}{
		{"{id: r, limit: 1, window: 1m, keyBy: user, normalize: [trim, casefold]}", " ACME ", Request{User: "acme"}},
		{"{id: r, limit: 1, window: 1m, keyBy: ip}", "2001:db8::7", Request{IP: netip.MustParseAddr("2001:db8::8")}},
		{"{id: r, limit: 1, window: 1m, keyBy: ip}", "192.0.2.1", Request{IP: netip.MustParseAddr("192.0.2.1")}},
		{"{id: r, limit: 1, window: 1m, keyBy: [user, ip]}", `a\|b|192.0.2.1`, Request{User: "a|b", IP: netip.MustParseAddr("192.0.2.1")}},
		{"{id: r, limit: 1, window: 1m}", "whatever", Request{}},
		{"{id: r, limit: 1, window: 1m, keyBy: user}", "a|b", Request{User: "a|b"}},
	} {
		r := oneRule(t, row.rule)
		want, _ := r.AppendKey(nil, &row.request)
		if got, err := r.KeyOf(row.text); err != nil || got != string(want) {
			t.Errorf("%s: %q: got %q, %v, want %q", row.rule, row.text, got, err, want)
		}
	}
	for _, row := range []struct{ rule, text string }{
		{"{id: r, limit: 1, window: 1m, keyBy: ip}", "no address"},
		{"{id: r, limit: 1, window: 1m, keyBy: user}", ""},
		{"{id: r, limit: 1, window: 1m, keyBy: [user, ip]}", "a"},
	} {
		if got, err := oneRule(t, row.rule).KeyOf(row.text); !isText(err, "key") {
			t.Errorf("%s: %q: got %q, %v", row.rule, row.text, got, err)
		}
	}
}

func isText(err error, field string) bool {
	e, ok := errors.AsType[*TextError](err)
	return ok && e.Field == field && e.Fix != ""
}

// An override means the same whether it stands in the document or in a store.
func TestResolveIsAsInTheDocument(t *testing.T) {
	const text = "{id: r, limit: 100, window: 1m, keyBy: user, overrides: [{key: a, limit: 500}, {key: b, burst: 7, lease: {ttl: 1s}}]}"
	r := oneRule(t, text)
	for key, o := range r.Overrides {
		if q, err := r.Resolve(o); err != nil || q != r.Quota([]byte(key)) {
			t.Errorf("%s: got %+v, %v, want %+v", key, q, err, r.Quota([]byte(key)))
		}
	}
	for _, row := range []struct {
		rule, field string
		o           Override
	}{
		{"{id: r, limit: 1, window: 1m}", "key", Override{Limit: 5}},
		{"{id: r, limit: 1, window: 1m, keyBy: user}", "limit", Override{}},
		{"{id: r, limit: 1, window: 1m, keyBy: user, algorithm: fixed_window}", "burst", Override{Burst: 5}},
		{"{id: r, limit: 1, window: 1m, keyBy: user}", "lease", Override{LeaseTTL: time.Millisecond}},
		{"{id: r, limit: 1, keyBy: user, algorithm: concurrency}", "lease", Override{LeaseTTL: 10 * time.Millisecond}},
		{"{id: r, limit: 1, window: 1d, timeZone: UTC, keyBy: user, algorithm: fixed_window}", "window", Override{Limit: 1, Window: time.Hour}},
		{"{id: r, block: true, keyBy: user}", "limit", Override{Burst: 5}},
		{"{id: r, limit: 1, window: 1m, keyBy: user, algorithm: sliding_log}", "limit", Override{Limit: 1 << 40}},
		{"{id: r, limit: 7, window: 366d, keyBy: user}", "burst", Override{Limit: 999_983, Burst: 1 << 50}},
	} {
		if q, err := oneRule(t, row.rule).Resolve(row.o); !isText(err, row.field) {
			t.Errorf("%s: %+v: got %+v, %v", row.rule, row.o, q, err)
		}
	}
}

func TestOvershadows(t *testing.T) {
	const wide = "{id: wide, scope: /v1/**, limit: 10, window: 1m, keyBy: user}"
	for _, row := range []struct {
		other string
		want  bool
	}{
		{"{id: r, scope: /v1/search, limit: 20, window: 1m, keyBy: user}", true},
		{"{id: r, scope: /v1/search, limit: 600, window: 1h, burst: 10, keyBy: user}", true},
		{"{id: r, scope: /v1/search, limit: 599, window: 1h, burst: 10, keyBy: user}", false},
		{"{id: r, scope: /v1/search, limit: 20, window: 1m, burst: 9, keyBy: user}", false},
		{"{id: r, scope: /v2/search, limit: 20, window: 1m, keyBy: user}", false},
		{"{id: r, scope: /v1/search, limit: 20, window: 1m, keyBy: ip}", false},
		{"{id: r, scope: /v1/search, limit: 20, window: 1m, keyBy: user, cost: 5}", false},
		{"{id: r, scope: /v1/search, limit: 20, window: 1m, keyBy: user, algorithm: sliding_window}", false},
		{"{id: r, scope: /v1/search, limit: 20, window: 1m, keyBy: user, mode: off}", false},
	} {
		if got := oneRule(t, wide).Overshadows(oneRule(t, row.other)); got != row.want {
			t.Errorf("%s: got %v", row.other, got)
		}
	}
	if !oneRule(t, "{id: b, scope: /v1/**, block: true}").Overshadows(oneRule(t, wide)) {
		t.Error("a block leaves nothing to other rules")
	}
	for _, changed := range []string{
		"{id: wide, scope: /v1/**, limit: 10, window: 1m, keyBy: user, mode: shadow}",
		"{id: wide, scope: /v1/**, limit: 10, window: 1m, keyBy: user, rollout: 50}",
		"{id: wide, scope: /v1/**, limit: 10, window: 1m, keyBy: user, overrides: [{key: a, limit: 50}]}",
	} {
		if oneRule(t, changed).Overshadows(oneRule(t, "{id: r, scope: /v1/search, limit: 20, window: 1m, keyBy: user}")) {
			t.Errorf("%s: leaves room", changed)
		}
	}
}
