package rule

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

const switchedOff = `
rules: [{id: login, limit: 5, window: 1m}, {id: search, limit: 5, window: 1m}]
switches:
  limiters: {worker: {off: true, reason: slow}, fleet: on, rate: {off: false, until: 2026-12-01T00:00:00Z}}
  rules: {login: off, search: {off: true, until: 2026-12-01T01:00:00+01:00, reason: "case 7: <&>"}}
`

func TestSwitchesAreRead(t *testing.T) {
	t.Parallel()
	set := parsed(t, switchedOff)
	end := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	login, search := set.Switches.OfRule(set.Rule("login")), set.Switches.OfRule(set.Rule("search"))
	if login != (Switch{Off: true}) || search != (Switch{Off: true, Until: end, Reason: "case 7: <&>"}) {
		t.Errorf("got %v and %v", login, search)
	}
	if !search.OffAt(end.Add(-1)) || search.OffAt(end) || !login.OffAt(end.AddDate(100, 0, 0)) || (Switch{}).OffAt(end) {
		t.Error("an end is not obeyed")
	}
	if got := search.String(); got != "off until 2026-12-01T00:00:00Z: case 7: <&>" {
		t.Errorf("got %q", got)
	}
	if got := set.Switches.OfLimiter(LimiterWorker); !got.Off || got.Reason != "slow" {
		t.Errorf("got %v", got)
	}
	for _, on := range []Limiter{LimiterRate, LimiterFleet, LimiterConcurrency} {
		if got := set.Switches.OfLimiter(on); got != (Switch{}) {
			t.Errorf("%v is %v", on, got)
		}
	}
	roundTrip(t, set)
	roundTrip(t, set.Next(nil, 3))
	roundTrip(t, parsed(t, "rules: []\nswitches: {all: {off: true, reason: r}}"))
	roundTrip(t, parsed(t, "rules: []\nswitches: {all: on, rules: {}, limiters: {}}"))
}

// A switch is about rules, and no change of one: their budgets and versions go on.
func TestSwitchingChangesNoRule(t *testing.T) {
	t.Parallel()
	before := parsed(t, "rules: [{id: login, limit: 5, window: 1m}, {id: search, limit: 5, window: 1m}]").Next(nil, 1)
	after := parsed(t, switchedOff).Next(before, 2)
	if v := after.Rule("login").Version; v != 1 || after.Version != 2 {
		t.Errorf("the rule has version %d in a set of version %d, want 1 in 2", v, after.Version)
	}
}

func TestTheLongerSwitchHolds(t *testing.T) {
	t.Parallel()
	at := func(hour int) Switch { return Switch{Off: true, Until: time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)} }
	on, forever := Switch{}, Switch{Off: true}
	order := []Switch{on, at(1), at(2), forever}
	for i, a := range order {
		for j, b := range order {
			if got := a.longer(b); got != order[max(i, j)] {
				t.Errorf("%v and %v are %v", a, b, got)
			}
		}
	}
	r := parsed(t, "rules: [{id: a, limit: 5, window: 1m}]").Rule("a")
	own := Switches{Rules: map[string]Switch{"a": at(2)}}
	others := Switches{All: at(1), Rules: map[string]Switch{"a": at(1), "b": forever}}
	both := own.With(&others)
	if both.OfRule(r) != at(2) || both.All != at(1) || both.Rules["b"] != forever || own.Rules["b"] != on {
		t.Errorf("got %+v", both)
	}
	if empty := (&Switches{}).With(&others); empty.OfRule(r) != at(1) {
		t.Errorf("got %+v", empty)
	}
}

func TestWordsForSwitches(t *testing.T) {
	t.Parallel()
	s, err := ParseSwitches("all", " rule:a.b", "limiter:fleet")
	if err != nil || !s.All.Off || !s.Rules["a.b"].Off || !s.Limiters[LimiterFleet].Off || s.Limiters[LimiterRate].Off {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, text := range []string{"", "ALL", "rule:", "rule:a b", "limiter:leaky", "rule", "rule:" + strings.Repeat("a", 65)} {
		_, err := ParseSwitches(text)
		if failure, ok := errors.AsType[*KillError](err); !ok || !strings.Contains(failure.Error(), "write all, rule:ID") {
			t.Errorf("%q: got %v", text, err)
		}
	}
	if _, err := ParseSwitches("search"); err == nil || !strings.Contains(err.Error(), "write all, rule:search, or limiter:") {
		t.Errorf("an id alone: got %v", err)
	}
	if none, err := ParseSwitches(); err != nil || none.All.Off {
		t.Errorf("got %+v, %v", none, err)
	}
}

// Ten thousand slips among ten thousand rules are an error, and no outage.
func TestManySwitchesTakeNoTime(t *testing.T) {
	t.Parallel()
	var rules, switches strings.Builder
	for i := range MaxRules {
		fmt.Fprintf(&rules, "{id: rule-%d, limit: 5, window: 1m},\n", i)
		fmt.Fprintf(&switches, "rul-%d: off,\n", i)
	}
	if errs := refused(t, "rules: ["+rules.String()+"]\nswitches: {rules: {"+switches.String()+"}}"); len(errs) < maxErrors {
		t.Errorf("only %d errors", len(errs))
	}
}
