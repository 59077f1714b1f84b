package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// three are good rules of which one decides about things.
func three(limit int) string {
	return fmt.Sprintf("rules:\n  - {id: things, scope: /v1/things, keyBy: user, limit: %d, window: 12h}\n"+
		"  - {id: b, scope: /v1/b, limit: 9, window: 1m}\n  - {id: c, limit: 9, window: 1m, scope: {descriptors: {tier: free}}}\n", limit)
}

// A document of which a part is bad is refused as a whole, with the place, by the API and as a file; what was in force decides on.
func TestABadPartRefusesTheWhole(t *testing.T) {
	var many strings.Builder

	many.WriteString("rules:\n")

	for i := range 5000 {
		window := "1m"
		if i == 4321 {
			window = "0s"
		}

		fmt.Fprintf(&many, "  - {id: r%d, scope: /v1/r%d, limit: 5, window: %s}\n", i, i, window)
	}

	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, three(5))

	byAPI, byFile := start(t), start(t, "--rules", path)
	byAPI.client.Timeout = time.Minute
	byAPI.want(t, "PUT /admin/document", three(5), expected{http.StatusOK, `"created"`})
	eventually(t, "it decides", func() bool { return byAPI.limit(t) == "5" })

	version := byAPI.instances(t).Version

	for name, row := range map[string]struct {
		text string
		line int
		want string
	}{
		"an id twice":              {three(6) + "  - {id: b, limit: 1, window: 1m}\n", 5, "taken by the rule at line 3"},
		"an unknown unit":          {three(6) + "  - {id: d, limit: 1, window: 1 fortnight}\n", 5, "fortnight"},
		"no window":                {three(6) + "  - {id: d, limit: 1}\n", 5, "window"},
		"cut in half":              {three(6) + "  - {id: d, limit: 1, wind", 5, ""},
		"a descriptor twice":       {three(6) + "  - {id: d, limit: 1, window: 1m, scope: {descriptors: {a: 1, a: 2}}}\n", 5, "twice"},
		"one bad of five thousand": {many.String(), 4323, "rules[4321].window"},
	} {
		t.Run(name, func(t *testing.T) {
			got := byAPI.call(t, http.MethodPut, "/admin/document", row.text)
			if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, fmt.Sprintf(`"line":%d`, row.line)) ||
				!strings.Contains(got.body, row.want) {
				t.Errorf("the API answered %d %.400s", got.status, got.body)
			}

			refused := func() string { return byFile.metric(t, `leaseway_rules_reloads_total{outcome="refused"}`) }
			before := refused()

			replace(t, path, row.text)
			eventually(t, "the file is refused", func() bool { return refused() != before })

			said := byFile.logged("the changed rules are refused: the last good ones stay in force", "error")
			if !strings.Contains(said, fmt.Sprintf("rules.yaml:%d", row.line)) || !strings.Contains(said, row.want) {
				t.Errorf("the log says %q", said)
			}

			for _, r := range []*running{byAPI, byFile} {
				if got := r.limit(t); got != "5" {
					t.Errorf("limit %s decides, want the 5 that was in force", got)
				}
			}

			if got := byAPI.instances(t).Version; got != version {
				t.Errorf("what was refused made version %d of %d", got, version)
			}
		})
	}

	replace(t, path, three(7))
	eventually(t, "a good file decides", func() bool { return byFile.limit(t) == "7" })
}

// However a rule file changes, all instances run it within seconds, and the list of instances shows it; while it is gone they keep what they have.
func TestEveryInstanceRunsAChangedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	swap := func(version string, limit int) { // as Kubernetes changes a ConfigMap that is mounted
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "rules.yaml"), three(limit))
		must(t, os.Symlink(version, filepath.Join(dir, "..tmp")))
		must(t, os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")))
	}

	swap("..1", 10)
	must(t, os.Symlink(filepath.Join("..data", "rules.yaml"), path))

	r := start(t, "--rules", path)
	all := []*running{r}

	for range 2 {
		all = append(all, start(t, "--coordinator", r.GRPC, "--coordinator-key", r.Key))
	}

	last := r.instances(t).Version

	for _, step := range []struct {
		how    string
		change func()
		limit  string
	}{
		{"the directory is swapped", func() { swap("..2", 20) }, "20"},
		{"the file is edited in place", func() { write(t, filepath.Join(dir, "..2", "rules.yaml"), three(30)) }, "30"},
		{"the file is replaced by a rename", func() { replace(t, path, three(40)) }, "40"},
		{"the file is gone", func() { must(t, os.Remove(path)) }, "40"},
		{"the file is made again", func() { write(t, path, three(50)) }, "50"},
	} {
		step.change()

		for _, one := range all {
			eventually(t, step.how+", and everybody has it", func() bool { return one.limit(t) == step.limit })
		}

		if step.limit == "40" {
			eventually(t, "it is said when the file is gone", func() bool {
				return step.how != "the file is gone" || r.metric(t, "leaseway_rules_reload_failed") == "1" &&
					strings.Contains(r.Log.String(), "it is gone; put it back")
			})
		}

		eventually(t, step.how+", and it is shown", func() bool {
			now := r.instances(t)

			return now.Behind == 0 && len(now.Instances) == len(all) && (now.Version > last || step.how == "the file is gone")
		})

		last = r.instances(t).Version
	}
}

// A rule's id is its identity: under another one it is another rule, with whole budgets, and both ways to change rules say so.
func TestARenamedRuleIsSaidToBeAnother(t *testing.T) {
	const old, renamed = "rules: [{id: things, scope: /v1/things, keyBy: user, limit: 5, window: 12h}]\n",
		"rules: [{id: stuff, scope: /v1/things, keyBy: user, limit: 5, window: 12h}]\n"

	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, old)

	r := start(t, "--rules", path)
	if got := r.admitted(t, 6, things("ada", 1)); got != 5 {
		t.Fatalf("%d of 6 were admitted", got)
	}

	replace(t, path, renamed)
	eventually(t, "the log says it", func() bool {
		return r.logged("a rule has another id: it is another rule, whose budgets are whole", "was") == "things"
	})
	eventually(t, "its budget is whole", func() bool { return r.admitted(t, 1, things("ada", 1)) == 1 })

	api := start(t, "--rules-seed", file(t, old))
	api.want(t, "PUT /admin/document?prune=true&dryRun=true", renamed, expected{http.StatusOK, "is the rule things under another id"})
}
