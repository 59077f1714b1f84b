package rule

import (
	"net/netip"
	"strings"
	"testing"
)

func TestExplainNamesTheFirstPartThatDiffers(t *testing.T) {
	t.Parallel()
	set := parsed(t, `
rules:
  - {id: off, mode: off, limit: 1, window: 1s}
  - {id: methods, scope: {methods: [POST, PUT], hosts: [b.example]}, limit: 1, window: 1s}
  - {id: hosts, scope: {hosts: [b.example, "*.c.example"], paths: [/x]}, limit: 1, window: 1s}
  - {id: paths, scope: {paths: [/v1/x, "/v2/**"], headers: {x-tier: gold}}, limit: 1, window: 1s}
  - {id: headers, scope: {headers: {X-Tier: [gold, silver]}, descriptors: {plan: pro}}, limit: 1, window: 1s}
  - {id: descriptors, scope: {descriptors: {plan: pro}}, keyBy: user, limit: 1, window: 1s}
  - {id: no-user, keyBy: [ip, user], limit: 1, window: 1s}
  - {id: refuses, keyBy: user, missing: deny, limit: 1, window: 1s}
  - {id: shares, keyBy: user, missing: shared, limit: 1, window: 1s}
  - {id: applies, scope: {paths: ["/v1/{name}"], methods: [GET]}, keyBy: ip, mode: shadow, limit: 1, window: 1s}
`)
	req := Request{
		Method: "GET", Host: "a.example:80", Path: "/v1//search/?q=1", IP: netip.MustParseAddr("192.0.2.1"),
		Headers: map[string][]string{"X-Tier": {"tin", "lead"}},
	}
	want := []Explanation{
		{Part: "mode", Want: "enforce or shadow", Got: "off"},
		{Part: "methods", Want: "POST or PUT", Got: "GET"},
		{Part: "hosts", Want: "b.example or *.c.example", Got: "a.example"},
		{Part: "paths", Want: "/v1/x or /v2/**", Got: "/v1//search/?q=1"},
		{Part: "headers.X-Tier", Want: "gold or silver", Got: "tin, lead"},
		{Part: "descriptors.plan", Want: "pro"},
		{Part: "keyBy user", Want: "a value"},
		{Part: "keyBy user", Want: "a value", Applies: true},
		{Applies: true},
		{Applies: true, Key: "192.0.2.1"},
	}
	for i, got := range set.Explain(&req) {
		w := want[i]
		if got.Part != w.Part || got.Want != w.Want || got.Got != w.Got || got.Applies != w.Applies || got.Key != w.Key {
			t.Errorf("%s: got %+v, want %+v", set.Rules[i].ID, got, w)
		}
	}
}

// What Explain says applies is what Match finds, but for rules whose key is missing, which are found and left out later.
func TestExplainAgreesWithMatch(t *testing.T) {
	t.Parallel()
	set := parsed(t, `
rules:
  - {id: a, scope: "/a/**", limit: 1, window: 1s}
  - {id: b, scope: /a/, trailingSlash: strict, limit: 1, window: 1s}
  - {id: c, scope: /A/b, pathCase: insensitive, limit: 1, window: 1s}
  - {id: d, scope: {methods: [PURGE]}, limit: 1, window: 1s}
  - {id: e, scope: {hosts: ["*.example"]}, limit: 1, window: 1s}
  - {id: f, scope: {headers: {X-A: "1"}}, limit: 1, window: 1s}
`)
	for _, path := range []string{"/", "/a", "/a/", "/a//", "/a/b", "/a/B/", "/b/../a/./b", "/%61/b", ""} {
		for _, method := range []string{"GET", "PURGE", "purge", ""} {
			for _, host := range []string{"", "example", "x.example:80"} {
				req := Request{Method: method, Host: host, Path: path, Headers: map[string][]string{"X-A": {path, "1"}}}
				var matched, explained []string
				for _, m := range set.Match(&req, nil) {
					matched = append(matched, m.Rule.ID)
				}
				for _, e := range set.Explain(&req) {
					if e.Applies {
						explained = append(explained, e.Rule.ID)
					}
				}
				if a, b := strings.Join(matched, " "), strings.Join(explained, " "); a != b {
					t.Errorf("%s %s%s: matched %q, explained %q", method, host, path, a, b)
				}
			}
		}
	}
}

func TestExplainNamesKeyAndQuota(t *testing.T) {
	t.Parallel()
	set := parsed(t, `
rules:
  - {id: open, keyBy: [user, apikey], limit: 5, window: 1s, overrides: [{key: [a, k1], limit: 50}]}
  - {id: secret, keyBy: apikey, secret: true, limit: 5, window: 1s, overrides: [{key: k1, limit: 7}]}
  - {id: global, secret: true, limit: 5, window: 1s}
`)
	got := set.Explain(&Request{User: "a", APIKey: "k1"})
	if got[0].Key != "a|k1" || !got[0].Quota.Overridden || got[0].Quota.Limit != 50 {
		t.Errorf("open: got %+v", got[0])
	}
	if !strings.HasPrefix(got[1].Key, "sha256:") || strings.Contains(got[1].Key, "k1") || got[1].Quota.Limit != 7 {
		t.Errorf("secret: got %+v", got[1])
	}
	if got[2].Key != "" || got[2].Quota.Overridden || got[2].Quota.Limit != 5 {
		t.Errorf("global: got %+v", got[2])
	}
	other := set.Explain(&Request{User: "b", APIKey: "k2"})
	if other[1].Key == got[1].Key {
		t.Errorf("two secret keys look the same: %q", other[1].Key)
	}
	if other[0].Quota.Overridden {
		t.Errorf("an override of another key: %+v", other[0])
	}
}
