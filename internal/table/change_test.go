package table_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// What was used stays used, whatever is saved or loaded again.
func TestRuleChangesKeepWhatWasUsed(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 5, window: 60s}]")
	if n := r.times(0, "a", "k", 6); n != 5 {
		t.Fatalf("%d passed, want 5", n)
	}

	for _, doc := range []string{
		"rules: [{id: a, keyBy: user, limit: 5, window: 60s}, {id: b, limit: 1, window: 1s}]",
		"rules: [{id: a, keyBy: user, limit: 5, window: 60s, description: other words}]",
		"rules: [{id: a, keyBy: user, limit: 5, window: 60s}]",
	} {
		r.apply(doc)

		if n := r.times(0, "a", "k", 1); n != 0 {
			t.Errorf("one more passed after %s", doc)
		}
	}

	r.apply("rules: [{id: a, keyBy: user, limit: 10, window: 120s}]")

	// A refusal under the older rules says nothing any more.
	if n := r.times(0, "a", "k", 20); n != 5 {
		t.Errorf("%d passed after raising 5 to 10, want 5", n)
	}

	r.wait(12 * sec)

	if n := r.times(0, "a", "k", 20); n != 1 {
		t.Errorf("%d passed after the time of one token more, want 1", n)
	}
}

// A limit lowered below what is used says a wait that is long enough.
func TestLimitLoweredBelowUse(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 100, window: 100s}]")
	if n := r.times(0, "a", "k", 80); n != 80 {
		t.Fatalf("%d passed", n)
	}

	r.wait(3 * sec) // leases are settled
	r.apply("rules: [{id: a, keyBy: user, limit: 50, window: 50s}]")

	got := r.take(0, "a", "k", 1)
	if got.Kind != table.OverLimit || got.Remaining != 0 || got.RetryAfter != 28*sec {
		t.Fatalf("77 used of 50: %+v, want a wait of 28 s", got)
	}

	r.wait(got.RetryAfter)

	if n := r.times(0, "a", "k", 2); n != 1 {
		t.Errorf("%d passed after the wait, want 1", n)
	}
}

func TestOlderRulesAreRefused(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, limit: 5, window: 60s}]")
	old := r.book.Current()
	r.apply("rules: [{id: a, limit: 6, window: 60s}]")

	if err := r.holders[0].SetRules(old); err == nil || !strings.Contains(err.Error(), "older") {
		t.Errorf("rules of an older version: %v", err)
	}

	if got := r.holders[0].Set().Rule("a").Limit; got != 6 {
		t.Errorf("the limit in force is %d, want 6", got)
	}
}

// Keys leave when they are idle; those that deny stay, since leaving would forget it.
func TestIdleKeysLeave(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 1, window: 1s}, {id: slow, keyBy: user, limit: 1, window: 1h}]")

	for i := range 10_000 {
		r.take(0, "a", strconv.Itoa(i), 1)
	}

	r.times(0, "slow", "abuser", 2)

	if n := r.holders[0].Stats().Keys; n != 10_001 {
		t.Fatalf("%d keys", n)
	}

	r.wait(5 * sec)

	if n := r.holders[0].Stats().Keys; n != 1 {
		t.Errorf("%d keys stayed, want the one that denies", n)
	}

	calls := r.holders[0].gate.calls.Load()
	r.times(0, "slow", "abuser", 1000)

	if r.holders[0].gate.calls.Load() != calls {
		t.Errorf("denying cost %d calls", r.holders[0].gate.calls.Load()-calls)
	}
}

// A full table still decides every key exactly, without remembering it.
func TestAFullTableStillDecides(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 2, window: 1h}]")
	h := r.holders[0]
	h.Table = table.New(h.gate, table.Config{Clock: h.clock, Inline: true, MaxKeys: 10})

	if err := h.SetRules(r.book.Current()); err != nil {
		t.Fatal(err)
	}

	for i := range 100 {
		if n := r.times(0, "a", strconv.Itoa(i), 3); n != 2 {
			t.Fatalf("key %d: %d passed, want 2", i, n)
		}
	}

	if s := h.Stats(); s.Keys != 10 || s.Overflow == 0 {
		t.Errorf("%d keys remembered, %d not", s.Keys, s.Overflow)
	}
}

// Keys of any bytes have budgets of their own, and long ones are kept short.
func TestStrangeKeys(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 2, window: 1h}, {id: b, keyBy: user, limit: 2, window: 1h}]")
	long := strings.Repeat("k", 64<<10)

	for _, key := range []string{"", "a b", "a,b", "a\tb", "ключ", "{x}", "}{", "%00", "\x00", long + "1", long + "2", rule.Compact(long + "1")} {
		for _, id := range []string{"a", "b"} {
			if n := r.times(0, id, key, 3); n != 2 {
				t.Errorf("rule %s, key %.20q: %d passed, want 2", id, key, n)
			}
		}
	}
}

// Closing gives everything back: another holder can have it at once.
func TestCloseGivesBack(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: a, keyBy: user, limit: 1000, window: 1h}]")

	for range 40 {
		r.times(0, "a", "k", 5)
		r.wait(20 * ms)
	}

	if s := r.holders[0].Stats(); s.Leases != 1 {
		t.Fatalf("nothing was leased: %+v", s)
	}

	if err := r.holders[0].Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	if n := r.times(1, "a", "k", 2000); n != 800 {
		t.Errorf("%d were left for another holder, want 800", n)
	}
}

// A decision is counted in the mode that its rule had for the key, whatever the rule's mode is now.
func TestDecisionsAreCountedInTheirMode(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 1, window: 1h}]")
	r.times(0, "a", "k", 5)
	r.apply("rules: [{id: a, keyBy: user, limit: 1, window: 1h, mode: shadow}]")
	r.times(0, "a", "k", 3)

	counts := map[rule.Mode][2]int64{}
	for _, s := range r.holders[0].Stats().Rules {
		for i := range s.Allowed {
			counts[s.Mode] = [2]int64{counts[s.Mode][0] + s.Allowed[i], counts[s.Mode][1] + s.Denied[i]}
		}
	}

	if want := [2]int64{1, 4}; counts[rule.Enforce] != want {
		t.Errorf("enforced: %d allowed and denied, want %d", counts[rule.Enforce], want)
	}

	if got := counts[rule.Shadow]; got[0]+got[1] != 3 {
		t.Errorf("in shadow mode: %d allowed and denied, want 3 together", got)
	}
}

// Where a rule counts what is in flight by now, what was charged by the tokens of another version is not told over and over again.
func TestTokensAreForgottenWhereSlotsAreCounted(t *testing.T) {
	t.Parallel()

	for name, owe := range map[string]func(r *rig, paid table.Charge){
		"a refund": func(r *rig, paid table.Charge) { r.holders[0].Refund(paid) },
		"a debt": func(r *rig, _ table.Charge) {
			r.cut()
			r.times(0, "r", "k", 200)
			r.heal()
		},
	} {
		r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 100, window: 10s}]")
		paid := r.take(0, "r", "k", 100).Charge

		set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, keyBy: user, limit: 5, algorithm: concurrency}]"))
		if err != nil {
			t.Fatal(err)
		}

		if _, err := r.book.Apply(set); err != nil { // of which the holder has not heard yet
			t.Fatal(err)
		}

		owe(r, paid)
		r.wait(5 * sec)

		if n := r.holders[0].gate.calls.Load(); n > 20 {
			t.Errorf("%s: %d calls", name, n)
		}

		if s := r.holders[0].Stats(); s.Keys != 0 {
			t.Errorf("%s: %d keys are left", name, s.Keys)
		}
	}
}

// What a key owes when its rule blocks, which nobody is told of then, keeps it neither here for ever nor from paying later what it owes then.
func TestABlockedKeyWithDebtLeaves(t *testing.T) {
	t.Parallel()

	const open, blocks = "rules: [{id: r, keyBy: user, limit: 10, window: 1h}]", "rules: [{id: r, keyBy: user, block: true}]"

	for name, rest := range map[string]int64{"at once": 0, "later": 10 * sec} {
		r := newRig(t, 1, open)
		r.cut()
		r.times(0, "r", "k", 10)
		r.apply(blocks)
		r.heal()
		r.wait(rest)

		if keys := r.holders[0].Stats().Keys; rest > 0 && keys != 0 {
			t.Errorf("%s: %d keys are left", name, keys)
		}

		r.apply(open)
		r.wait(10 * sec)

		if keys := r.holders[0].Stats().Keys; keys != 0 {
			t.Errorf("%s: %d keys are left in the end", name, keys)
		}
	}
}
