//go:build linux

package deploy

import (
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/store/redis/redistest"
)

// needs returns a program, or skips the test where it is not installed.
func needs(t *testing.T, program string) string {
	t.Helper()

	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed", program)
	}

	return path
}

func TestAlertRules(t *testing.T) {
	t.Parallel()

	promtool := needs(t, "promtool")

	for _, args := range [][]string{
		{"check", "config", "prometheus/prometheus.yaml"},
		{"test", "rules", "prometheus/alerts_test.yaml"},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// An alert about a metric that does not exist never fires.
func TestAlertsAreAboutMetricsThatExist(t *testing.T) {
	t.Parallel()
	redistest.Needs(t)

	store := redistest.NewServer(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), "rules: [{id: r, limit: 5, window: 1h}]\nshedders: {worker: {}}")

	serve := func(name string, args ...string) (p *process, http, grpc string) {
		http, grpc = freeAddress(t), freeAddress(t)
		p = startProcess(t, os.Args[0], append([]string{
			"serve", "--listen", http, "--grpc-listen", grpc, "--name", name, "--data-dir", filepath.Join(dir, name),
		}, args...)...)
		p.Answers(t, http)

		return p, http, grpc
	}

	_, keeper, _ := serve("keeper") // with a rule store
	coordinator, main, grpc := serve("coordinator", "--rules", filepath.Join(dir, "rules.yaml"), "--store", "redis://"+store.Address)
	holder, agent, _ := serve("agent", "--coordinator", grpc)

	there := map[string]bool{}
	scrape := func(address string) {
		for name := range metrics(t, address) {
			there[name] = true
		}
	}

	// A series of what has never happened may not be there. So it happens: the coordinator is gone, and decisions are asked for.
	decide := func() bool {
		resp, err := http.Post("http://"+agent+"/v1/check", "application/json", strings.NewReader(`{"attributes": {}}`))
		if err == nil {
			_ = resp.Body.Close()
		}

		return err == nil
	}

	holder.Eventually(t, "decides", decide)
	scrape(main)
	scrape(keeper)
	coordinator.Kill()
	holder.Eventually(t, "decides alone", func() bool {
		scrape(agent)

		return decide() && there["leaseway_degraded_decisions_total"]
	})

	named := regexp.MustCompile(`\bleaseway_[a-z_]+`).FindAllString(read(t, "prometheus/alerts.yaml")+read(t, "../docs/operations.md"), -1)
	if len(named) == 0 {
		t.Fatal("the alerts name no metric")
	}

	for _, name := range named {
		// What the rules record themselves has a colon before it.
		if !there[name] && !strings.HasPrefix(name, "leaseway_denied") {
			t.Errorf("there is no metric %s; there are %v", name, slices.Sorted(maps.Keys(there)))
		}
	}
}

// metrics are the names of the series at address.
func metrics(t *testing.T, address string) map[string]bool {
	t.Helper()

	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}

	defer func() { _ = resp.Body.Close() }()

	var text strings.Builder
	if err := resp.Write(&text); err != nil {
		t.Fatal(err)
	}

	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`(?m)^leaseway_[a-z_]+`).FindAllString(text.String(), -1) {
		names[name] = true
	}

	return names
}

func TestUnit(t *testing.T) {
	t.Parallel()

	analyze := needs(t, "systemd-analyze")

	text := read(t, "systemd/leaseway.service")

	const program = "/usr/local/bin/leaseway"
	if !strings.Contains(text, "ExecStart="+program) {
		t.Fatalf("the unit does not start %s", program)
	}

	unit := filepath.Join(t.TempDir(), "leaseway.service")
	write(t, unit, strings.ReplaceAll(text, program, os.Args[0]))

	// Exposure goes from 0, none, to 100.
	for _, args := range [][]string{{"verify", "--man=no", unit}, {"security", "--offline=yes", "--threshold=15", unit}} {
		if out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil || strings.Contains(string(out), unit+":") {
			t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
		}
	}
}
