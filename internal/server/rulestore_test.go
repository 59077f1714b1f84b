package server

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/rulefeed"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/postgres"
	"github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest"
	"github.com/leaseway/leaseway/internal/rulestore/sqlite"
	"github.com/leaseway/leaseway/rule"
)

// save writes the rules of a document into a store.
func save(t *testing.T, store rulestore.Store, text string) {
	t.Helper()

	set, err := rule.Parse("test", []byte(text))
	must(t, err)

	change := &rulestore.Change{Author: "ada", Action: "rules.put"}
	for _, r := range set.Rules {
		change.Rules = append(change.Rules, rulestore.RuleChange{ID: r.ID, Rule: r})
	}

	change.Settings, err = rulefeed.SettingsOf(set)
	must(t, err)

	_, err = store.Write(t.Context(), change)
	must(t, err)
}

// Two coordinators of one store and a holder: a change is everywhere, and nothing is refused as too old.
func TestRulesOfAStoreReachEverybody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	seed := file(t, thingsRules)

	first := start(t, "--rule-store", "sqlite:"+path, "--rules-seed", seed)
	second := start(t, "--rule-store", "sqlite:"+path)
	holder := start(t, "--coordinator", first.GRPC, "--coordinator-key", first.Key)

	store, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	must(t, err)

	defer store.Close()

	for _, limit := range []string{"200", "300"} {
		save(t, store, strings.Replace(thingsRules, "100", limit, 1))

		for _, r := range []*running{first, second, holder} {
			eventually(t, "the new limit decides", func() bool { return r.limit(t) == limit })
		}
	}

	eventually(t, "two coordinators of one store number alike", func() bool { // the last version may change no rule
		return first.metric(t, "leaseway_rules_version") == second.metric(t, "leaseway_rules_version")
	})
}

func TestARuleStoreThatDiesStopsNoDecision(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a database")
	}

	database := postgrestest.New(t)
	url, dir := database.Database(t), dataDir(t)
	r := start(t, "--rule-store", url, "--rules-seed", file(t, thingsRules), "--data-dir", dir)

	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	must(t, err)

	defer store.Close()

	// A row that is no rule, put in by hand, is named; the others go on and change.
	database.Exec(t, url, `INSERT INTO rules VALUES ('broken', 1, '{"id":"broken","limit":-5}')`)
	save(t, store, strings.Replace(thingsRules, "100", "200", 1))
	eventually(t, "the new limit decides", func() bool { return r.limit(t) == "200" })
	eventually(t, "the bad row is named with its reason", func() bool {
		return strings.Contains(r.logged("a row of the rule store is refused: what it was before goes on", "error"), "limit") &&
			r.metric(t, "leaseway_rule_store_bad_rows") == "1"
	})

	database.Kill()
	eventually(t, "the metric says that the store is gone", func() bool { return r.metric(t, "leaseway_rule_store_up") == "0" })

	if got := r.call(t, http.MethodGet, "/readyz", ""); got.status != http.StatusOK || !strings.Contains(got.body, "rule store does not answer") {
		t.Errorf("a server without its rule store says %d %s", got.status, got.body)
	}

	if got := r.admitted(t, 5, things("ada", 1)); got != 5 {
		t.Errorf("%d of 5 were admitted without the rule store", got)
	}

	// It starts without the store, too.
	must(t, r.end(t))

	r = start(t, "--rule-store", url, "--data-dir", dir)
	if r.limit(t) != "200" {
		t.Errorf("a start without the store has limit %s, want the last 200", r.limit(t))
	}

	must(t, database.Start())
	eventually(t, "the store is followed again", func() bool { return r.metric(t, "leaseway_rule_store_up") == "1" })
	save(t, store, strings.Replace(thingsRules, "100", "300", 1))
	eventually(t, "a change decides", func() bool { return r.limit(t) == "300" })
}
