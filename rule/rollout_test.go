package rule

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

func rolledOut(tb testing.TB, id, percent string) *Rule {
	tb.Helper()
	return parsed(tb, "rules: [{id: "+id+", keyBy: user, limit: 80, window: 1m, rollout: "+percent+", before: {limit: 100}}]").Rules[0]
}

// If a place ever changed with a release, a fleet of two releases would not agree, and limits would move for no reason.
func TestPlacesAreTheSameInEveryRelease(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		id, key string
		want    int
	}{
		{"search", "acme", 8614},
		{"search", "", 5891},
		{"login", "acme", 5152},
		{"search", "\x00\xff|", 2177},
		{"a", strings.Repeat("k", MaxKey), 2741},
	} {
		if got := rolloutPlace(row.id, row.key); got != row.want {
			t.Errorf("%q of %s has place %d, want %d", row.key, row.id, got, row.want)
		}
	}
}

// The share of keys is what is written, for keys that are much alike too: within four standard deviations, which a fixed set
// of keys either is or is not.
func TestTheShareOfKeysIsWhatIsWritten(t *testing.T) {
	t.Parallel()
	const n = 200_000
	for _, percent := range []string{"0", "0.01", "1", "12.5", "50", "99", "100"} {
		for _, form := range []string{"user-%d", "%d", "10.0.%d.1", "%08x"} {
			r := rolledOut(t, "search", percent)
			count := 0
			for i := range n {
				if r.For(fmt.Sprintf(form, i)) == r {
					count++
				}
			}
			var p float64
			if _, err := fmt.Sscan(percent, &p); err != nil {
				t.Fatal(err)
			}
			p /= 100
			if off := math.Abs(float64(count) - n*p); off > 4*math.Sqrt(n*p*(1-p)) {
				t.Errorf("%s %% of keys like %q: %d of %d", percent, form, count, n)
			}
		}
	}
}

func TestRaisingARolloutOnlyAddsKeys(t *testing.T) {
	t.Parallel()
	var rules []*Rule
	for _, percent := range []string{"0", "0.5", "1", "10", "10.01", "50", "99.99", "100"} {
		rules = append(rules, rolledOut(t, "search", percent))
	}
	for i := range 50_000 {
		key, had := fmt.Sprintf("user-%d", i), false
		for _, r := range rules {
			has := r.For(key) == r
			if had && !has {
				t.Fatalf("%s loses the new version when the rollout is raised to %s", key, r.Rollout())
			}
			had = has
		}
		if !had || rules[0].For(key) == rules[0] {
			t.Fatalf("%s does not have the new version at 100, or has it at 0", key)
		}
	}
}

// Else the same callers would be the first with every rule.
func TestRulesPickOtherKeys(t *testing.T) {
	t.Parallel()
	a, b := rolledOut(t, "search", "10"), rolledOut(t, "login", "10")
	both := 0
	for i := range 100_000 {
		key := fmt.Sprintf("user-%d", i)
		if a.For(key) == a && b.For(key) == b {
			both++
		}
	}
	if both < 850 || both > 1150 {
		t.Errorf("%d of 100,000 keys are among the first tenth of both rules, want about 1,000", both)
	}
}

func TestBeforeIsTheRuleWithWhatItSays(t *testing.T) {
	t.Parallel()
	set := parsed(t, `
rules:
  - {id: a, keyBy: user, limit: 80, window: 1m, burst: 120, slack: 3, rollout: 10, before: {limit: 100},
     overrides: [{key: big, limit: 5000}, {key: bursty, burst: 9}]}
  - {id: b, limit: 80, window: 1m, burst: 120, rollout: 0, before: {mode: shadow}}
  - {id: c, block: true, rollout: 0.5, before: {limit: 5, window: 1m}}
  - {id: d, limit: 5, window: 1m, rollout: 50, before: {block: true}}
  - {id: e, limit: 5, window: 1m, rollout: 50}
  - {id: f, algorithm: fixed_window, limit: 5, window: 1d, timeZone: Asia/Tokyo, rollout: 50, before: {window: 1h}}
  - {id: g, limit: 5, window: 1m, fallback: {limit: 1, window: 1s}, rollout: 50, before: {onUnavailable: deny, lease: {ttl: 2s}, slack: 0}}
`).Next(nil, 7)
	a := set.Rule("a").Before
	if a.Limit != 100 || a.Burst != 100 || a.Window != set.Rule("a").Window || a.Slack != 3 || a.Version != 7 || a.Withheld != 0 {
		t.Errorf("got %+v", a)
	}
	if q := a.Quota([]byte("big")); q.Limit != 5000 || q.Burst != 5000 {
		t.Errorf("an override before is %+v", q)
	}
	if q := a.Quota([]byte("bursty")); q.Limit != 100 || q.Burst != 9 {
		t.Errorf("an override stands on %+v, want the limit before", q)
	}
	if b := set.Rule("b").Before; b.Mode != Shadow || b.Limit != 80 || b.Burst != 120 {
		t.Errorf("got %+v", b)
	}
	if c := set.Rule("c").Before; c.Block || c.Limit != 5 || c.Burst != 5 {
		t.Errorf("got %+v", c)
	}
	if d := set.Rule("d").Before; !d.Block || d.Limit != 0 || d.Burst != 0 {
		t.Errorf("got %+v", d)
	}
	if set.Rule("e").Before != nil {
		t.Error("a rule has a version before that nobody wrote")
	}
	if f := set.Rule("f").Before; f.Calendar != CalendarNone || f.TimeZone != nil || f.Window.Hours() != 1 {
		t.Errorf("got %+v", f)
	}
	if g := set.Rule("g").Before; g.Fallback != nil || g.OnUnavailable != Deny || g.LeaseTTL.Seconds() != 2 {
		t.Errorf("got %+v", g)
	}
	roundTrip(t, set)
	if text := string(set.Marshal()); !strings.Contains(text, `"rollout":0.5,"before":{"limit":5,"window":"1m"}`) ||
		!strings.Contains(text, `"rollout":0,"before":{"mode":"shadow"}`) {
		t.Errorf("got %s", text)
	}
}

// A rule that is off for those who have it may still be there for the rest.
func TestARuleThatGoesIsStillMatched(t *testing.T) {
	t.Parallel()
	set := parsed(t, `
rules:
  - {id: going, limit: 5, window: 1m, mode: off, rollout: 50, before: {mode: enforce}}
  - {id: gone, limit: 5, window: 1m, mode: off, rollout: 100, before: {mode: enforce}}
  - {id: coming, limit: 5, window: 1m, rollout: 0, before: {mode: off}}
`)
	found := set.Match(&Request{}, nil)
	if len(found) != 1 || found[0].Rule.ID != "going" {
		t.Errorf("matched %v", found)
	}
}

func TestExplainSaysOnWhichSideAKeyIs(t *testing.T) {
	t.Parallel()
	set := parsed(t, `
rules:
  - {id: search, keyBy: user, limit: 80, window: 1m, rollout: 50, before: {limit: 100}}
  - {id: alone, keyBy: user, limit: 80, window: 1m, rollout: 50}
`)
	seen := map[string]bool{}
	for i := range 100 {
		req := &Request{User: fmt.Sprintf("user-%d", i)}
		list := set.Explain(req)
		search, alone := list[0], list[1]
		switch search.Version {
		case search.Rule:
			seen["new"] = true
			if !search.Applies || search.Quota.Limit != 80 {
				t.Fatalf("got %+v", search)
			}
		case search.Rule.Before:
			seen["before"] = true
			if !search.Applies || search.Quota.Limit != 100 {
				t.Fatalf("got %+v", search)
			}
		default:
			t.Fatalf("got %+v", search)
		}
		if alone.Applies != (alone.Version != nil) || !alone.Applies && alone.Part != "rollout" {
			t.Fatalf("got %+v", alone)
		}
		seen[strconv.FormatBool(alone.Applies)] = true
	}
	if len(seen) != 4 {
		t.Errorf("of 100 keys only %v were seen", seen)
	}
}

func TestReviewFindsRolloutsThatDoNothing(t *testing.T) {
	t.Parallel()
	_, warnings, err := Review("rules.yaml", []byte(`
rules:
  - {id: a, keyBy: user, limit: 5, window: 1m, before: {limit: 9}}
  - {id: b, keyBy: global, limit: 5, window: 1m, rollout: 20}
  - {id: c, keyBy: global, limit: 5, window: 1m, rollout: 0, before: {limit: 9}}
`))
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0].Message, "never used") || !strings.Contains(warnings[1].Message, "all or nothing") {
		t.Errorf("got %v, %v", warnings, err)
	}
}

func BenchmarkFor(b *testing.B) {
	for _, percent := range []string{"50", "100"} {
		b.Run(percent, func(b *testing.B) {
			r := rolledOut(b, "search-per-key", percent)
			b.ReportAllocs()
			for b.Loop() {
				r.For("key-of-a-customer")
			}
		})
	}
}
