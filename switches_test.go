package leaseway_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

const oneRule = "rules: [{id: r, keyBy: user, limit: 2, window: 1h}]\n"

func TestASwitchEndsByTheHoldersOwnClock(t *testing.T) {
	l := newStepped(t, oneRule)
	req := leaseway.Request{User: "u"}

	r, err := l.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	if got := l.allowed(3, req); got != 2 {
		t.Fatalf("%d of 3 passed, want 2", got)
	}

	l.rules(oneRule + "switches: {rules: {r: {off: true, until: 2026-01-01T00:00:10Z, reason: why not}}}")

	if d := l.Decide(t.Context(), req); !d.Allowed || d.Matched() {
		t.Errorf("a rule that is off gave %+v", d)
	}

	if d := r.Take("u"); !d.Allowed || d.Matched() {
		t.Errorf("the handle of a rule that is off gave %+v", d)
	}

	if d := r.Peek("u"); !d.Allowed || d.Matched() {
		t.Errorf("a look at a rule that is off gave %+v", d)
	}

	if s := l.RuleSwitch("r"); !s.Off || s.Reason != "why not" {
		t.Errorf("the switch is %v", s)
	}

	if s := l.Stats().Rules[0]; !s.Off || s.Passed != 2 || sum(s.Allowed) != 2 {
		t.Errorf("counted %+v, want 2 that passed while it was off", s)
	}

	l.after(10*time.Second - time.Microsecond)

	if !l.Decide(t.Context(), req).Allowed {
		t.Error("the switch ended early")
	}

	l.after(time.Microsecond)

	if l.Decide(t.Context(), req).Allowed {
		t.Error("the switch did not end")
	}

	if s := l.RuleSwitch("r"); s.Off || l.Stats().Rules[0].Off {
		t.Errorf("the switch is %v after its end", s)
	}
}

func TestEverythingCanBeSwitchedOff(t *testing.T) {
	l := newStepped(t, "rules: [{id: r, block: true}]\nswitches: {all: {off: true, until: 2026-01-01T00:00:10Z}}")

	if got := l.allowed(3, leaseway.Request{Method: "GET"}); got != 3 {
		t.Errorf("%d of 3 passed, want all", got)
	}

	if d := l.Decide(t.Context(), leaseway.Request{Method: "GET"}); d.Class != rule.ClassRead {
		t.Errorf("got %+v", d)
	}

	if got := l.Stats().Passed; got != 4 {
		t.Errorf("counted %d that passed, want 4", got)
	}

	if s := l.LimiterSwitch(rule.LimiterWorker); !s.Off {
		t.Errorf("the worker shedder's switch is %v", s)
	}

	l.after(10 * time.Second)

	if got := l.allowed(3, leaseway.Request{Method: "GET"}); got != 0 {
		t.Errorf("%d of 3 passed after the end, want none", got)
	}
}

func TestAProcessHasSwitchesOfItsOwn(t *testing.T) {
	kill, err := rule.ParseSwitches("rule:r")
	if err != nil {
		t.Fatal(err)
	}

	l := newStepped(t, oneRule, leaseway.WithSwitches(kill))
	req := leaseway.Request{User: "u"}

	if got := l.allowed(5, req); got != 5 {
		t.Errorf("%d of 5 passed, want all", got)
	}

	// Rules that say nothing of it do not switch it on.
	l.rules("rules: [{id: r, keyBy: user, limit: 1, window: 1h}, {id: s, keyBy: user, limit: 3, window: 1h}]")

	if got := l.allowed(5, req); got != 3 {
		t.Errorf("%d of 5 passed, want 3: only r is off", got)
	}
}

func TestSwitchesHoldInTestModeToo(t *testing.T) {
	l := newStepped(t, oneRule)
	req := leaseway.Request{User: "u", Class: rule.ClassTest}

	if got := l.allowed(3, req); got != 2 {
		t.Fatalf("%d of 3 passed, want 2", got)
	}

	l.rules(oneRule + "switches: {limiters: {rate: off}}")

	r, err := l.Rule("r")
	if err != nil {
		t.Fatal(err)
	}

	if !l.Decide(t.Context(), req).Allowed || !r.Test().Take("u").Allowed {
		t.Error("test mode is not switched off")
	}
}

// Who mistypes the id of a rule must not believe that it is off.
func TestASwitchOfNoRuleIsSaid(t *testing.T) {
	kill, err := rule.ParseSwitches("rule:per-kye", "rule:per-key", "limiter:worker")
	if err != nil {
		t.Fatal(err)
	}

	rules, err := rule.Parse("test", []byte("rules: [{id: per-key, keyBy: user, limit: 1, window: 1h}]"))
	if err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer

	l, err := leaseway.Embedded(rules, leaseway.WithSwitches(kill), leaseway.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}

	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	if text := log.String(); strings.Count(text, "names no rule") != 1 || !strings.Contains(text, "rule=per-kye") {
		t.Errorf("the log is %q, want one line about per-kye", text)
	}
}
