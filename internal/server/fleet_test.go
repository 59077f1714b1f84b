package server

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// things is a question about a request of one user.
func things(user string, cost int) string {
	return fmt.Sprintf(`{"attributes": {"user": %q, "path": "/v1/things"}, "cost": %d}`, user, cost)
}

// The window is so long that nothing comes back while a test runs.
const thingsRules = "rules:\n  - {id: things, scope: /v1/things, keyBy: user, limit: 100, window: 12h}\n"

// admitted asks n times and counts what was allowed.
func (r *running) admitted(t *testing.T, n int, body string) int {
	t.Helper()

	count := 0

	for range n {
		got := r.call(t, http.MethodPost, "/v1/check", body)
		if got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}

		if strings.Contains(got.body, `"allowed":true`) {
			count++
		}
	}

	return count
}

func TestCountsOutliveAGracefulStop(t *testing.T) {
	dir, path := dataDir(t), file(t, thingsRules)
	args := []string{"--data-dir", dir, "--rules", path}

	first := start(t, args...)
	if got := first.admitted(t, 60, things("ada", 1)); got != 60 {
		t.Fatalf("the first server admitted %d of 60", got)
	}

	must(t, first.end(t))

	second := start(t, args...)
	if got := second.admitted(t, 60, things("ada", 1)); got != 40 {
		t.Errorf("after the restart %d were admitted, want the 40 that were left", got)
	}

	if got := second.admitted(t, 10, things("bob", 1)); got != 10 {
		t.Errorf("another user got %d of 10", got)
	}
}

func TestChangedRulesDecideAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, thingsRules)
	r := start(t, "--rules", path)

	if got := r.admitted(t, 1, things("ada", 101)); got != 0 {
		t.Fatal("more than the limit was admitted")
	}

	replace(t, path, strings.Replace(thingsRules, "100", "200", 1))
	eventually(t, "the raised limit decides", func() bool { return r.admitted(t, 1, things("ada", 0)) == 1 && r.limit(t) == "200" })

	replace(t, path, "rules: [{id: things, limit: -1}]")
	eventually(t, "the metric says that the change is refused", func() bool { return r.metric(t, "leaseway_rules_reload_failed") == "1" })

	if r.limit(t) != "200" {
		t.Error("a bad file changed the rules in force")
	}
}

// limit is what an answer says the limit is.
func (r *running) limit(t *testing.T) string {
	t.Helper()

	body := r.call(t, http.MethodPost, "/v1/check", things("ada", 0)).body
	_, rest, _ := strings.Cut(body, `"limit":`)
	limit, _, _ := strings.Cut(rest, ",")

	return limit
}

func TestHoldersShareTheLimitOfTheirCoordinator(t *testing.T) {
	authority, dir := newAuthority(t), t.TempDir()
	certFile, keyFile, _ := authority.issue(t, dir, "server")
	tokens := file(t, "# for the fleet\n"+secret+"\n")

	began := time.Now()
	document := "rules:\n  - {id: things, scope: /v1/things, keyBy: user, limit: 500, window: 50s}\n"
	coordinator := start(t, "--rules", file(t, document), "--tls-cert", certFile, "--tls-key", keyFile, "--token-file", tokens)
	coordinator.token = secret
	coordinator.overTLS(authority.config())

	args := []string{
		"--coordinator", "grpcs://" + coordinator.GRPC, "--coordinator-key", coordinator.Key,
		"--coordinator-token-file", tokens, "--coordinator-ca", authority.file(t), "--deadline", patience.String(),
	}
	one, two := start(t, args...), start(t, args...)

	for _, holder := range []*running{one, two} {
		if got := holder.call(t, http.MethodGet, "/readyz", ""); got.status != http.StatusOK {
			t.Errorf("a holder with rules is not ready: %d %s", got.status, got.body)
		}
	}

	sum := 0

	eventually(t, "all of the limit was admitted", func() bool {
		sum += one.admitted(t, 6, things("ada", 1)) + two.admitted(t, 6, things("ada", 1)) + coordinator.admitted(t, 1, things("ada", 1))

		// The bound: the burst, and a token every 100 ms since.
		if most := 500 + int(time.Since(began)/(100*time.Millisecond)); sum > most {
			t.Fatalf("three servers admitted %d together, and at most %d were to be had", sum, most)
		}

		return sum >= 500
	})

	if got := coordinator.metric(t, "leaseway_coordinator_watchers"); got != "3" {
		t.Errorf("%s holders watch the rules, want 3", got)
	}
}

func TestHolderWithAnotherKeyBelievesNothing(t *testing.T) {
	coordinator := start(t, "--rules", file(t, thingsRules))
	args := []string{"--data-dir", dataDir(t), "--coordinator", coordinator.GRPC, "--coordinator-key", coordinator.Key}
	must(t, start(t, args...).end(t))
	must(t, coordinator.end(t))

	// It starts with the rules of its last run, and decides by its own share of them. Then there is somebody else.
	holder := start(t, args...)
	start(t, "--grpc-listen", coordinator.GRPC, "--rules", file(t, thingsRules))
	eventually(t, "answers are refused, and counted", func() bool {
		holder.admitted(t, 1, things("ada", 1))
		got := holder.metric(t, `leaseway_coordinator_answers_refused_total{cause="key"}`)

		return got != "" && got != "0"
	})

	eventually(t, "the holder says that it is degraded, and stays in service", func() bool {
		holder.admitted(t, 1, things("ada", 1))
		got := holder.call(t, http.MethodGet, "/readyz", "")

		return got.status == http.StatusOK && strings.Contains(got.body, "no coordinator answers")
	})

	if got := holder.metric(t, `leaseway_degraded_decisions_total{rule="things",source="local"}`); got == "" || got == "0" {
		t.Errorf("decisions without a coordinator were not counted as such: %q", got)
	}
}

func TestHolderOfAnotherMachineNeedsItsKey(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--coordinator", "grpcs://192.0.2.1:8081"}, "add --coordinator-key"},
		{[]string{"--coordinator", "grpcs://192.0.2.1:8081"}, "TLS vouches for the connection"},
		{[]string{"--coordinator", "http://192.0.2.1:8081"}, `has the scheme "http"`},
		{[]string{"--coordinator", "127.0.0.1:1", "--coordinator-key", "nonsense"}, "--coordinator-key"},
		{[]string{"--coordinator", "127.0.0.1:1", "--coordinator-token-file", file(t, "short")}, "--coordinator-token-file"},
		{[]string{"--coordinator", "127.0.0.1:1", "--coordinator-ca", file(t, "none")}, "--coordinator-ca"},
	} {
		args := append([]string{"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--data-dir", dataDir(t)}, row.args...)

		config, err := load(args, nil)
		must(t, err)

		if err := Run(t.Context(), config, &buffer{}); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: got %v, want %q", row.args, err, row.want)
		}
	}
}

// Whoever can make up keys must not be able to make up series.
func TestSeriesDoNotGrowWithKeys(t *testing.T) {
	r := start(t, "--rules", file(t, thingsRules))

	series := func() int {
		n := 0

		for line := range strings.Lines(r.call(t, http.MethodGet, "/metrics", "").body) {
			if strings.HasPrefix(line, "leaseway_") {
				n++
			}
		}

		return n
	}

	r.admitted(t, 2, things("first", 60)) // both outcomes, so that their series exist

	before := series()
	if before < 10 {
		t.Fatalf("only %d series: this would hold for nothing", before)
	}

	for i := range 10_000 {
		r.call(t, http.MethodPost, "/v1/check", things(fmt.Sprintf("user-%d", i), 1))
	}

	if after := series(); after > before+2 { // decisions from the store and from a lease are two
		t.Errorf("%d series became %d by 10,000 keys", before, after)
	}

	if body := r.call(t, http.MethodGet, "/metrics", "").body; strings.Contains(body, "user-1") {
		t.Error("a metric names a key")
	}

	sum := r.metric(t, `leaseway_decisions_total{mode="enforce",outcome="allowed",rule="things",source="store"}`)
	if sum == "" || sum == "0" {
		t.Errorf("the decisions were not counted: %q", sum)
	}
}

// A kill switch, a rollout and classes reach the holders with the rules, over the network.
func TestSwitchesReachTheHolders(t *testing.T) {
	const rules = "rules: [{id: things, scope: /v1/things, keyBy: user, limit: 1, window: 12h, rollout: 0, before: {limit: 2}}]\n"

	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, rules+"classes: [{class: test, apikeyPrefix: sk_test_}]\n")

	coordinator := start(t, "--rules", path)
	holder := start(t, "--coordinator", coordinator.GRPC, "--deadline", patience.String())

	if got := holder.admitted(t, 5, things("ada", 1)); got != 2 {
		t.Fatalf("%d of 5 were admitted, want the 2 of the version before", got)
	}

	body := holder.call(t, http.MethodPost, "/v1/check", `{"attributes": {"apikey": "sk_test_1", "user": "ada", "path": "/v1/things"}}`).body
	if !strings.Contains(body, `"class":"test"`) || !strings.Contains(body, `"allowed":true`) {
		t.Errorf("a test got %s", body)
	}

	replace(t, path, rules+"switches: {rules: {things: off}}\n")

	changed := time.Now()

	eventually(t, "the rule is off at the holder", func() bool { return holder.admitted(t, 1, things("ada", 1)) == 1 })

	t.Logf("it took %v", time.Since(changed))

	if got := holder.metric(t, `leaseway_switched_off{rule="things"}`); got != "1" {
		t.Errorf("the metric is %q", got)
	}
}
