package slots_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A property that holds for broken code too proves nothing. Each mutation breaks
// one step in a copy of the source, and the property must notice.
func TestThePropertyNoticesEachMutation(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("-short: builds the tests once for each mutation")
	}

	type edit struct{ file, old, new string }

	build := []string{"test", "-vet=off", "-ldflags=-s -w", "-gcflags=github.com/leaseway/leaseway/...=-dwarf=false"} // quickly: nobody debugs it

	const stateGo, poolGo, fleetGo = "slots.go", "pool.go", "fleet_test.go"

	// A pool leaves alone what is above N at its answer, which would hide the store's mistakes.
	trusting := edit{poolGo, "p.strike(a.Slots + a.Others - a.N)", "0"}

	for name, edits := range map[string][]edit{
		"an overtaken ask is applied":          {{stateGo, "ask.Seq < s.Holdings[i].Seq:", "false:"}, trusting},
		"the room of others is given":          {{stateGo, "used+n <= room {", "used+n <= terms.N {"}, trusting},
		"slots given ahead are not there":      {{stateGo, "s.ahead(i, room-kept), terms.N*4/5-others-kept", "terms.N-kept"}, trusting},
		"what may be in use is taken":          {{stateGo, "kept := max(ask.Busy, min(had, ask.Want))", "kept := ask.Busy"}, trusting},
		"the TTL is counted from later":        {{poolGo, "until := p.asked + ttl\n", "until := p.asked + ttl + 2_000_000\n"}},
		"a holding does not end":               {{poolGo, "if now >= p.until.Load() {", "if p.until.Load() == 0 {"}, {poolGo, "if now < p.until.Load() {", "if p.until.Load() != 0 {"}, trusting},
		"what is given back is used as well":   {{poolGo, "p.slots -= p.strike(p.slots - want)", "p.strike(0)"}, {poolGo, "max(want, p.slots)", "want"}},
		"an answer that was given up counts":   {{poolGo, "seq == 0 || seq != p.seq", "seq == 0"}},
		"an identity that survives a restart":  {{fleetGo, "id: f.born,", "id: name,"}},
		"a holding ends before its holder's":   {{stateGo, "max(h.Exp, now+terms.TTL+Guard)", "now+terms.TTL/2"}, trusting},
		"a request that is over frees another": {{poolGo, "func (p *Pool) Put(n int64) { p.idle.Add(n) }", "func (p *Pool) Put(n int64) { p.idle.Add(n + 1) }"}},
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

			cmd := exec.CommandContext(t.Context(), "go", append(build, "-overlay", list, "-run", "TestNeverMoreThanNInFlightInBulk", ".")...)
			cmd.Env = append(os.Environ(), "LEASEWAY_MODEL_RUNS=400000")

			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("the property holds for it")
			}

			if !strings.Contains(string(out), "in flight") {
				t.Fatalf("the mutation does not run: %s", out)
			}
		})
	}
}
