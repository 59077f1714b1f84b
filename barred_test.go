package leaseway_test

import (
	"testing"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// What is refused outright, since it is blocked or has no key, is counted like any other refusal; a rule in shadow mode counts
// what it would have refused so, and refuses nothing.
func TestOutrightRefusalsAreCounted(t *testing.T) {
	l := newStepped(t, `rules:
  - {id: block, scope: /block, block: true}
  - {id: block-shadow, scope: /shadow, keyBy: user, block: true, mode: shadow}
  - {id: missing, scope: /missing, keyBy: user, limit: 5, window: 1h, missing: deny}
  - {id: missing-shadow, scope: /shadow, keyBy: apikey, limit: 5, window: 1h, missing: deny, mode: shadow}
`)
	for _, req := range []leaseway.Request{
		{Path: "/block"}, {Path: "/block"}, {Path: "/block", Peek: true}, {Path: "/block", Class: rule.ClassTest},
		{Path: "/missing"}, {Path: "/missing", Peek: true},
	} {
		if d := l.Decide(t.Context(), req); d.Allowed {
			t.Errorf("%+v got %+v", req, d)
		}
	}

	for range 3 {
		if d := l.Decide(t.Context(), leaseway.Request{Path: "/shadow", User: "ann"}); !d.Allowed || d.ShadowDenied != "block-shadow" {
			t.Errorf("in shadow: %+v", d)
		}
	}

	if d := l.Decide(t.Context(), leaseway.Request{Path: "/shadow", User: "ann", Peek: true}); d.ShadowDenied != "block-shadow" {
		t.Errorf("a look: %+v", d)
	}

	type mode struct {
		id   string
		mode rule.Mode
		test bool
	}

	got := map[mode]int64{}
	for _, r := range l.Stats().Rules {
		got[mode{r.ID, r.Mode, r.Test}] += r.Denied[leaseway.OriginLease]
	}

	for want, n := range map[mode]int64{
		{"block", rule.Enforce, false}: 2, {"block", rule.Enforce, true}: 1, {"missing", rule.Enforce, false}: 1,
		{"block-shadow", rule.Shadow, false}: 3, {"missing-shadow", rule.Shadow, false}: 3,
	} {
		if got[want] != n {
			t.Errorf("%+v counts %d, want %d; all: %v", want, got[want], n, got)
		}
	}

	keys := l.ShadowKeys(5)
	if len(keys) != 2 || keys[0].Rule != "block-shadow" || keys[0].Key != "ann" || keys[0].Refused != 3 || keys[1].Key != "" {
		t.Errorf("it would have been %+v", keys)
	}
}
