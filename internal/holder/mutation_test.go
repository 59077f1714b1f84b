package holder_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A property that holds for broken code too proves nothing. Each mutation breaks
// one step of the arithmetic in a copy of the source, and the model must notice.
func TestTheModelNoticesEachMutation(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("-short: builds the tests once for each mutation")
	}

	type edit struct{ file, old, new string }

	const (
		ledgerGo, settleGo, budgetGo = "../ledger/ledger.go", "../ledger/settle.go", "../ledger/budget.go"
		askGo, leaseGo, markGo       = "ask.go", "lease.go", "mark.go"
		aheadGo, spendGo             = "ahead.go", "spend.go"
	)

	for name, edits := range map[string][]edit{
		"no lift": {{
			budgetGo, "s.TAT = s.TAT.Max(s.after(rate.At(at), n))", "_, _ = at, n",
		}},
		"a take inside G": {{settleGo, "l.Granted += leased\n", "l.Granted += leased + avail - left\n"}},
		"an identity that survives a restart": {
			{ledgerGo, "if i >= 0 && s.Leases[i].ID != ask.Lease {", "if i >= 0 && false {"},
			{"model_test.go", "p.incarnation = m.seq\n", "p.incarnation = max(p.incarnation, 7)\n"},
		},
		"the TTL counted from the answer":       {{askGo, "l.over = sent.at + a.TTL", "l.over = now + a.TTL"}},
		"the TTL not looked at after an answer": {{askGo, "\tl.tick.Store(0) // the next spend looks", "\t// the next spend looks"}},
		"an unknown lease's S believed":         {{ledgerGo, "\t\task.Spent = 0\n", ""}, {ledgerGo, "ask.RaiseTo -= ask.Spent //", "//"}},
		"a negative grant": {
			{settleGo, "leased := max(0, min(", "leased := (min("},
			{settleGo, "avail := s.Avail()\n", "avail := s.Avail() - 3\n"},
		},
		"an older ask is applied":                  {{ledgerGo, "if ask.Seq < s.Leases[i].Seq {", "if false {"}, {ledgerGo, "ask.Seq <= s.Leases[i].Seq", "ask.Seq == s.Leases[i].Seq"}},
		"a doubled ask is applied":                 {{ledgerGo, "ask.Seq <= s.Leases[i].Seq", "ask.Seq < s.Leases[i].Seq"}},
		"an expired lease is dropped as unspent":   {{ledgerGo, "\ts.lift(at, s.Outstanding())\n", ""}, {ledgerGo, "\t\ts.lift(l.Exp, out)\n", ""}},
		"a lease outlives its TTL":                 {{leaseGo, "case l.over != 0 && now >= l.over:", "case false:"}, {leaseGo, "case l.until < l.over && now >= l.over-exactMargin:", "case false && now > 0:"}},
		"a late answer opens the lease anew":       {{askGo, "if sent.late && a.Lease != 0 && a.Lease == sent.lease {", "if false {"}},
		"the next window's lease is given back":    {{askGo, "ask.RaiseTo = max(ask.RaiseTo, l.next.granted)", "_ = l.next.granted"}},
		"spending began to refill before it did":   {{markGo, "m.over(ticks), m.sentBase-m.first", "m.over(ticks), m.sentBase-m.first-1"}},
		"only the spends since the ask are marked": {{markGo, "m.before.raise(b, m.now.at, m.now.n+m.base-m.sentBase)", "_ = b"}},
		"a return that is spent as well":           {{askGo, "if l.balance.CompareAndSwap(b, b-n) {\n\t\t\tl.struck", "if l.balance.CompareAndSwap(b, b) {\n\t\t\tl.struck"}},
		"a refund is credited again":               {{leaseGo, "l.debt, l.credit = l.acked, false", "l.credit = false"}},
		"a refund without a lease is believed":     {{settleGo, "if more < 0 && l.ID != ask.Lease {", "if false {"}},
		"a refund is credited to the next window":  {{aheadGo, "l.debt = max(l.debt, l.acked)", "_ = l.acked"}},
		"a refund outlives its window":             {{spendGo, " - h.late", ""}},
		"debt vanishes in the lift":                {{settleGo, "\ts.lift(s.Now, s.others+l.left()) // before the debt", "\t// before the debt"}},
		"fallback debt is never charged":           {{settleGo, "\t\ts.charge(more)\n", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := t.TempDir()
			overlay := map[string]map[string]string{"Replace": {}}

			for i, e := range edits {
				path, err := filepath.Abs(e.file)
				if err != nil {
					t.Fatal(err)
				}

				from := path
				if done, ok := overlay["Replace"][path]; ok {
					from = done
				}

				src, err := os.ReadFile(from)
				if err != nil {
					t.Fatal(err)
				}

				if n := strings.Count(string(src), e.old); n != 1 {
					t.Fatalf("%s: %q stands there %d times, not once: mend the mutation", e.file, e.old, n)
				}

				to := filepath.Join(dir, string(rune('a'+i))+filepath.Base(path))
				if err := os.WriteFile(to, []byte(strings.Replace(string(src), e.old, e.new, 1)), 0o600); err != nil {
					t.Fatal(err)
				}

				overlay["Replace"][path] = to
			}

			j, _ := json.Marshal(overlay)

			list := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(list, j, 0o600); err != nil {
				t.Fatal(err)
			}

			cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", list, "-run", "TestNothingAboveTheBoundInBulk|TestDebtCovers",
				".", "-rapid.checks=5000", "-rapid.nofailfile")
			cmd.Env = append(os.Environ(), "LEASEWAY_MODEL_RUNS=400000")
			out, err := cmd.CombinedOutput()

			if err == nil {
				t.Fatalf("the model admits it")
			}

			if !strings.Contains(string(out), "the twin holds more than") {
				t.Fatalf("the mutation does not run: %s", out)
			}
		})
	}
}
