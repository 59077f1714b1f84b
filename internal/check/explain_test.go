package check

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/leaseway/leaseway/rule"
)

func TestExplainedAnswersNameEveryRule(t *testing.T) {
	door := newDoor(t)

	w := post(door, "/v1/check", `{"attributes": {"user": "ada", "path": "/v1/things"}, "explain": true}`)

	var got Explained
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("got %d %s, %v", w.Code, w.Body, err)
	}

	want := []RuleAnswer{
		{ID: "per-user", Mode: "enforce", Applies: true, Key: "ada", Limit: 5, Window: "1h", Capacity: 5, Worst: 10, Cost: 1},
		{ID: "per-address", Mode: "enforce", Part: "paths", Want: "/v1/addresses", Got: "/v1/things"},
		{ID: "all", Mode: "enforce", Part: "paths", Want: "/v1/all", Got: "/v1/things"},
		{ID: "folded", Mode: "enforce", Part: "paths", Want: "/v1/folded", Got: "/v1/things"},
		{ID: "pair", Mode: "enforce", Part: "paths", Want: "/v1/pair", Got: "/v1/things"},
		{ID: "closed", Mode: "enforce", Part: "paths", Want: "/v1/closed", Got: "/v1/things"},
	}
	if len(got.Rules) != len(want) {
		t.Fatalf("got %s", w.Body)
	}

	for i := range want {
		if got.Rules[i] != want[i] {
			t.Errorf("got %+v, want %+v", got.Rules[i], want[i])
		}
	}

	if !got.Allowed || got.Remaining != 4 || got.Rule != "per-user" {
		t.Errorf("got %+v", got.Answer)
	}
}

func TestExplanationsAreLeftOutUnlessAskedFor(t *testing.T) {
	w := post(newDoor(t), "/v1/check", `{"attributes": {"user": "ada", "path": "/v1/things"}}`)

	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}

	if _, there := got["rules"]; there || got["allowed"] != true {
		t.Errorf("got %s", w.Body)
	}
}

func TestBlockedRulesAndLooksHaveNoCost(t *testing.T) {
	door := newDoor(t)

	w := post(door, "/v1/check", `{"attributes": {"user": "ada", "path": "/v1/closed"}, "explain": true, "cost": 0}`)

	var got Explained
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}

	if got.Rules[5] != (RuleAnswer{ID: "closed", Mode: "enforce", Applies: true}) {
		t.Errorf("got %+v", got.Rules[5])
	}
}

// The worst that a rule admits in a window is said beside its limit.
func TestTheWorstOfEachAlgorithm(t *testing.T) {
	for algorithm, want := range map[string]int64{
		"token_bucket, burst: 17": 32, "fixed_window": 30, "sliding_window": 29, "sliding_log": 15, "leaky_bucket, burst: 9": 16,
	} {
		set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, limit: 15, window: 60s, algorithm: "+algorithm+"}]"))
		if err != nil {
			t.Fatal(err)
		}

		req := rule.Request{}
		if got := ruleAnswers(set.Explain(&req), &req)[0].Worst; got != want {
			t.Errorf("%s: %d, want %d", algorithm, got, want)
		}
	}
}
