package holder_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// edit breaks one place of the source.
type edit struct{ file, old, new string }

// mutation breaks one step of the arithmetic.
type mutation struct {
	name  string
	world string // in which every order of events comes to it soonest
	from  int    // the first random run that comes to it, or debtTest
	edits []edit
}

// debtTest stands for TestDebtCoversLocalAdmissions, where the model at random has no outage.
const debtTest = -1

// ordersOnly is of a mutation that the model at random does not come to: a lease must be small beside its burst to live
// long, and all of a burst is then seldom used up before it ends.
const ordersOnly = -2

// modelRuns is within how many runs the model at random must come to each mutation. It begins
// with the one that is known to, and goes on to all others if the model has changed since.
const modelRuns = 1_000_000

func mutations() []mutation {
	const (
		ledgerGo, settleGo, budgetGo, messageGo  = "../ledger/ledger.go", "../ledger/settle.go", "../ledger/budget.go", "../ledger/message.go"
		askGo, aheadGo, leaseGo, markGo, spendGo = "ask.go", "ahead.go", "lease.go", "mark.go", "spend.go"
		quickGo, finalGo                         = "quick.go", "../ledger/final.go"
	)

	return []mutation{
		{"no lift", "fast bucket", 665, []edit{{
			budgetGo, "s.TAT = s.TAT.Max(s.after(rate.At(at), n))", "_, _ = at, n",
		}}},
		{"a take inside G", "slow bucket", 5, []edit{{settleGo, "l.Granted += leased\n", "l.Granted += leased + avail - left\n"}}},
		{"an identity that survives a restart", "slow bucket", 20, []edit{
			{ledgerGo, "if i >= 0 && s.Leases[i].ID != ask.Lease {", "if i >= 0 && false {"},
			{"model_test.go", "p.incarnation = m.seq\n", "p.incarnation = max(p.incarnation, 7)\n"},
			{"world_test.go", "incarnation: x.incarnations + uint64(i)}", "incarnation: uint64(i) + 2}"},
		}},
		{"the TTL counted from the answer", "slow bucket", 3, []edit{{askGo, "l.over, l.edge = sent.at+min(", "l.over, l.edge = now+min("}}},
		{"the TTL not looked at after an answer", "fast bucket", 1282, []edit{{askGo, "\tl.tick.Store(0) // the next spend looks", "\t// the next spend looks"}}},
		{"an unknown lease's S believed", "slow bucket", 6742, []edit{{ledgerGo, "\t\task.Spent = 0\n", ""}, {ledgerGo, "ask.RaiseTo -= ask.Spent //", "//"}}},
		{"a negative grant, of which nothing is told", "slow bucket", 3373, []edit{
			{askGo, "l.granted = a.Granted + max(0, -more)", "l.granted = a.Granted"},
			{settleGo, "leased := max(0, min(", "leased := (min("},
			{settleGo, "avail := s.Avail()\n", "avail := s.Avail() - 3\n"},
		}},
		{"an older ask is applied", "slow bucket", 3864, []edit{{ledgerGo, "if ask.Seq < s.Leases[i].Seq {", "if false {"}, {ledgerGo, "ask.Seq <= s.Leases[i].Seq", "ask.Seq == s.Leases[i].Seq"}}},
		{"a doubled ask is applied", "fast bucket", 9575, []edit{{ledgerGo, "ask.Seq <= s.Leases[i].Seq", "ask.Seq < s.Leases[i].Seq"}}},
		{"an expired lease is dropped as unspent", "fast bucket", 665, []edit{{ledgerGo, "\ts.lift(at, s.Outstanding())\n", ""}, {ledgerGo, "\t\ts.lift(l.Exp, out)\n", ""}}},
		{"a lease outlives its TTL", "slow bucket", 3, []edit{{leaseGo, "case l.over != 0 && now >= l.over:", "case false:"}, {leaseGo, "case l.edge > 0 && now >= l.over-exactMargin:", "case false && now > 0:"}}},
		{"a late answer opens the lease anew", "slack", 15492, []edit{{askGo, "if sent.late && a.Lease != 0 && a.Lease == sent.lease {", "if false {"}}},
		{"the next window's lease is given back", "lone window", 758105, []edit{{askGo, "ask.RaiseTo = max(ask.RaiseTo, d.next.granted)", "_ = d.next.granted"}}},
		{"what is given back of the next window is spent as well", "returning window", 157039, []edit{{askGo, "d.next = nil // all of it", "// all of it"}}},
		{"spending began to refill before it did", "fast bucket", 170, []edit{{markGo, "l.tickOver(ticks), l.told-first", "l.tickOver(ticks), l.told-first-1"}}},
		{"only the spends since the ask are marked", "fast bucket", 170, []edit{{markGo, "s.before.raise(b, p.at, p.n+s.base-l.told)", "_, _ = b, s"}}},
		{"a quick turn forgets what was spent", "quick turns", 31345, []edit{{quickGo, "m.note(after, m.first)\n", "_ = after\n"}}},
		{"what quick turns noted is lost", "quick turns", 31345, []edit{{quickGo, "l.open = l.tick.Load()\n", "l.open, l.mark.over = l.tick.Load(), 0\n"}}},
		{"a quick turn outlives the lease", "fast bucket", 8251, []edit{{quickGo, "if until == 0 || int32(until-uint32(tick>>untilShift)) <= 0 {", "if until == 0 {"}}},
		{"a return that is spent as well", "slow bucket", 11, []edit{{askGo, "if l.balance.CompareAndSwap(b, b-n) {\n\t\t\tl.giveBack", "if l.balance.CompareAndSwap(b, b) {\n\t\t\tl.giveBack"}}},
		{"a refund is credited again", "refunds", 16221, []edit{{leaseGo, "d.debt, d.credit = d.acked, false", "d.credit = false"}}},
		{"a refund without a lease is believed", "refunds", 241, []edit{{settleGo, "if more < 0 && l.ID != ask.Lease {", "if false {"}}},
		{"a refund is credited to the next window", "refunds in windows", 38336, []edit{{aheadGo, "d.debt = max(d.debt, d.acked)", "_ = d.acked"}}},
		{"a refund outlives its window", "refunds in windows", 219332, []edit{{spendGo, " - h.counted().late", ""}}},
		{"debt vanishes in the lift", "slack", debtTest, []edit{{settleGo, "\ts.lift(s.Now, s.others+l.left()) // before the debt", "\t// before the debt"}}},
		{"fallback debt is never charged", "slack", debtTest, []edit{{settleGo, "\t\ts.charge(more)\n", ""}}},
		{"a forfeit without lift", "slow bucket", 665, []edit{{ledgerGo, "\t\ts.lift(l.Exp, out)\n", ""}}},
		{"a drop without lift", "fast bucket", 84793, []edit{{ledgerGo, "\ts.lift(at, s.Outstanding())\n", ""}}},
		{"a lease outlives its window", "fixed window", 3, []edit{{messageGo, "\t\ta.TTL = min(a.TTL, a.Window.Left)\n", ""}}},
		{"the next window is counted from the ask", "fixed window", 3803, []edit{{aheadGo, "from := now + a.Window.Left", "from := sent.at + a.Window.Left"}}},
		{"a final S is believed again", "sliding window", 240807, []edit{{finalGo, "s.Old = slices.Delete(s.Old, i, i+1)", "_, _ = i, slices.Clone(s.Old)"}}},
		{"a long lease is forgotten early", "long leases", 0, []edit{{ledgerGo, "s.Now + ttl + Guard", "s.Now + s.Terms.TTL + Guard"}}},
		{"a long lease is not shortened", "long leases", ordersOnly, []edit{{"refill.go", "l.over = min(l.over, now+l.heard.terms().TTL)", "_ = now"}}},
		{"a final S is not believed", "sliding window", 2398, []edit{{finalGo, "s.Old[i].Granted - max(s.Old[i].Spent, ask.EndedSpent)", "s.Old[i].Granted - s.Old[i].Spent"}}},
	}
}

// A property that holds for broken code too proves nothing. Each mutation is made
// in a copy of the source; the model at random and every order of events must both notice.
func TestTheModelNoticesEachMutation(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("-short: builds the tests once for each mutation")
	}

	build := []string{"test", "-vet=off", "-ldflags=-s -w", "-gcflags=github.com/leaseway/leaseway/...=-dwarf=false"} // quickly: nobody debugs it

	for _, m := range mutations() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()

			dir := t.TempDir()
			overlay := map[string]map[string]string{"Replace": {}}

			for i, e := range m.edits {
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

			model := "TestNothingAboveTheBoundInBulk"

			switch m.from {
			case debtTest:
				model = "TestDebtCoversLocalAdmissions"
			case ordersOnly:
				model = "no model"
			}

			cmd := exec.CommandContext(t.Context(), "go", append(build, "-overlay", list, "-run",
				model+"|TestEveryOrderOfEvents/"+strings.ReplaceAll(m.world, " ", "_"), ".", "-rapid.checks=5000", "-rapid.nofailfile")...)
			cmd.Env = append(os.Environ(), fmt.Sprintf("LEASEWAY_MODEL_RUNS=%d", modelRuns), fmt.Sprintf("LEASEWAY_MODEL_FROM=%d", m.from))
			out, err := cmd.CombinedOutput()

			switch out := string(out); {
			case err == nil || !strings.Contains(out, "--- FAIL: "+model) && m.from != ordersOnly:
				t.Errorf("the model admits it")
			case !strings.Contains(out, "the twin holds more than"):
				t.Fatalf("the mutation does not run: %s", out)
			case !strings.Contains(out, "--- FAIL: TestEveryOrder"):
				t.Errorf("no order of events in the world %q finds it", m.world)
			}
		})
	}
}
