package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/rulestore/postgres"
	"github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest"
)

// No change of rules makes a used budget whole: what is used stays used, whatever else is written, and over a restart.
func TestChangesRefillNoBudget(t *testing.T) {
	dir := dataDir(t)
	r := start(t, "--data-dir", dir)
	put := func(id, body string) {
		t.Helper()

		got := r.want(t, "PUT /admin/rules/"+id, body, expected{http.StatusOK, "version"})
		_, rest, _ := strings.Cut(got, `"version":`)
		version, _, _ := strings.Cut(rest, ",")

		if version == "0" {
			return // nothing changed, so that there is no version to wait for
		}

		eventually(t, "it is in force", func() bool { return r.metric(t, "leaseway_rule_store_version") == version })
	}

	const five = `{"limit": 5, "windowSec": 86400, "keyBy": "user", "scope": "/v1/things"}`

	put("a", five)
	eventually(t, "the rule decides", func() bool { return r.limit(t) == "5" })

	if got := r.admitted(t, 6, things("ada", 1)); got != 5 {
		t.Fatalf("%d of 6 were admitted, want 5", got)
	}

	still := func(what string) {
		t.Helper()

		if got := r.admitted(t, 1, things("ada", 1)); got != 0 {
			t.Errorf("%s made the budget whole", what)
		}
	}

	put("b", `{"limit": 9, "window": "1m", "scope": "/v1/other"}`)
	still("an unrelated rule")

	for range 3 {
		put("a", five)
		still("the same rule again")
	}

	put("a", `{"limit": 5, "windowSec": 86400, "keyBy": "user", "scope": "/v1/things", "description": "said otherwise"}`)
	still("another description")

	version := r.metric(t, "leaseway_rules_version")

	must(t, r.end(t))

	r = start(t, "--data-dir", dir)
	still("a restart")

	if again := r.metric(t, "leaseway_rules_version"); again != version {
		t.Errorf("a restart made version %s of %s: every holder would be sent the rules anew", again, version)
	}

	put("a", `{"limit": 7, "windowSec": 86400, "keyBy": "user", "scope": "/v1/things"}`)
	eventually(t, "the raised limit decides", func() bool { return r.limit(t) == "7" })

	admitted := 0

	eventually(t, "it gives what it was raised by", func() bool {
		admitted += r.admitted(t, 1, things("ada", 1))

		return admitted == 2
	})
	still("a raised limit, beyond what it was raised by,")
}

// A database that turns read-only, as a primary that is demoted does, stops writes and nothing else.
func TestARuleStoreThatIsReadOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a database")
	}

	database := postgrestest.New(t)
	url := database.Database(t)
	r := start(t, "--rule-store", url, "--rules-seed", file(t, thingsRules))

	database.Exec(t, url, "ALTER ROLE leaseway SET default_transaction_read_only = on")
	database.Exec(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()")
	eventually(t, "a write is refused with what to do", func() bool {
		got := r.call(t, http.MethodPut, "/admin/rules/things", oneRule)

		return got.status == http.StatusConflict
	})
	r.want(t, "GET /admin/rules", "", expected{http.StatusOK, "things"})
	eventually(t, "/readyz says it", func() bool {
		return strings.Contains(r.call(t, http.MethodGet, "/readyz", "").body, "takes no changes")
	})

	if got := r.admitted(t, 3, things("ada", 1)); got != 3 {
		t.Errorf("%d of 3 were admitted", got)
	}

	// Somebody else's connection may write again, and is heard.
	database.Exec(t, url, "BEGIN READ WRITE; ALTER ROLE leaseway SET default_transaction_read_only = off; COMMIT")

	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	must(t, err)

	defer store.Close()

	save(t, store, "rules: [{id: things, scope: /v1/things, keyBy: user, limit: 77, window: 12h}]")
	eventually(t, "a change of another writer decides", func() bool { return r.limit(t) == "77" })
}
