package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest"
)

// instances is what a server says of the fleet.
type instances struct {
	Version      uint64 `json:"version"`
	Behind       int    `json:"behind"`
	Coordinators int    `json:"coordinators"`
	Partial      bool   `json:"partial"`
	Instances    []struct {
		Name    string `json:"name"`
		Version uint64 `json:"version"`
		Behind  bool   `json:"behind"`
	} `json:"instances"`
}

func (r *running) instances(t *testing.T) (all instances) {
	t.Helper()
	must(t, json.Unmarshal([]byte(r.call(t, http.MethodGet, "/admin/instances", "").body), &all))

	return all
}

func (i *instances) names() (names []string) {
	for _, one := range i.Instances {
		names = append(names, one.Name)
	}

	return names
}

// Whichever of three coordinators is asked lists all of them and all holders, with what each runs.
func TestEveryCoordinatorListsTheWholeFleet(t *testing.T) {
	stores := map[string]func(*testing.T) string{
		"sqlite": func(t *testing.T) string { t.Helper(); return "sqlite:" + filepath.Join(t.TempDir(), "rules.db") },
	}
	if !testing.Short() {
		stores["postgres"] = func(t *testing.T) string { t.Helper(); return postgrestest.New(t).Database(t) }
	}

	for name, place := range stores {
		t.Run(name, func(t *testing.T) {
			store := place(t)

			var coordinators []*running

			for i := range 3 {
				args := []string{"--rule-store", store, "--rules-seed", file(t, thingsRules), "--name", fmt.Sprint("coordinator-", i)}
				coordinators = append(coordinators, start(t, args...))
				start(t, "--coordinator", coordinators[i].GRPC, "--coordinator-key", coordinators[i].Key, "--name", fmt.Sprint("holder-", i))
			}

			everybody := []string{"coordinator-0", "coordinator-1", "coordinator-2", "holder-0", "holder-1", "holder-2"}

			for i, c := range coordinators {
				c.want(t, "PUT /admin/rules/things", counted(200+i), expected{http.StatusOK, `"version":`})

				// Others may not have heard of it yet; but it is the newest, whoever is asked.
				newest := c.instances(t).Version
				for _, other := range coordinators {
					if got := other.instances(t).Version; got != newest {
						t.Errorf("the newest is %d, a coordinator says %d", newest, got)
					}
				}

				for _, other := range coordinators {
					eventually(t, "everybody is listed, with the newest version", func() bool {
						all := other.instances(t)

						return all.Version == newest && all.Behind == 0 && all.Coordinators == 3 && !all.Partial && slices.Equal(all.names(), everybody)
					})
				}
			}

			// One that stops takes its note down: nobody waits for what it heard last.
			must(t, coordinators[2].end(t))
			eventually(t, "two coordinators are left", func() bool { return coordinators[0].instances(t).Coordinators == 2 })
		})
	}
}

// Where the others cannot be heard, the answer says that it is a part.
func TestAListOfAPartSaysSo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a database")
	}

	database := postgrestest.New(t)
	r := start(t, "--rule-store", database.Database(t), "--rules-seed", file(t, thingsRules))

	if all := r.instances(t); all.Partial || len(all.Instances) != 1 {
		t.Errorf("with the store: %+v", all)
	}

	database.Kill()

	if all := r.instances(t); !all.Partial || len(all.Instances) != 1 || all.Version == 0 || all.Behind != 0 {
		t.Errorf("without the store: %+v", all)
	}
}

// A holder that several coordinators heard is one, by the latest word of it.
func TestAHolderIsListedOnce(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	tallies := func(n int64) []ledger.Tally {
		return []ledger.Tally{{Rule: "r", Version: 7, Allowed: n, Refused: n / 2}}
	}
	g := &gathered{instances: []coordinator.Instance{
		{Name: "b", Incarnation: 2, Version: 5, Seen: now.Add(-3 * time.Second), Tallies: tallies(20)},
		{Name: "c", Incarnation: 3, Version: 5, Seen: now.Add(-seenFor - 1), Tallies: tallies(1000)},
		{Name: "b", Incarnation: 2, Version: 6, Seen: now.Add(-time.Second), Tallies: tallies(10)},
		{Name: "a", Incarnation: 9, Version: 6, Seen: now, Tallies: tallies(100)},
	}}
	g.settle(now)

	if len(g.instances) != 2 || g.instances[0].Name != "a" || g.instances[1].Version != 6 {
		t.Errorf("%+v", g.instances)
	}

	if requests, refused := g.refused("r", 7); requests != 120+60 || refused != 60 {
		t.Errorf("%d of %d requests were refused, want 60 of 180", refused, requests)
	}

	if requests, _ := g.refused("r", 6); requests != 0 {
		t.Errorf("%d requests under another version", requests)
	}
}

// A fleet too large for one note is cut to what fits, the holders with the oldest rules first.
func TestANoteIsBounded(t *testing.T) {
	f, _ := tended(t, "rules: [{id: r, limit: 10, window: 1m}]")
	name := strings.Repeat("\x01", 256) // which JSON writes with six times as many bytes

	for i := range uint64(2000) {
		_, err := f.coordinator.Acquire(t.Context(), &ledger.Batch{Holder: i + 1, Seq: 1, Version: 1000 - i%1000, Name: name})
		must(t, err)
	}

	text, _, err := f.notes.write()
	must(t, err)

	var got note

	must(t, json.Unmarshal(text, &got))

	if n := len(got.Instances); n < 100 || n+got.More < 2000 || got.Instances[0].Version != 1 || got.Instances[n-1].Version > 500 {
		t.Errorf("%d listed and %d more, versions %d to %d, in %d bytes",
			n, got.More, got.Instances[0].Version, got.Instances[n-1].Version, len(text))
	}
}

// A limit below what is used is warned of wherever it is used: a key that shares out its requests over two coordinators uses the sum.
func TestUseIsAddedUp(t *testing.T) {
	at := []string{"--rule-store", "sqlite:" + filepath.Join(t.TempDir(), "rules.db"), "--rules-seed", file(t, thingsRules)}
	one, two, three := start(t, at...), start(t, at...), start(t, at...)

	for _, r := range []*running{one, two} {
		if got := r.admitted(t, 40, things("ada", 1)); got != 40 {
			t.Fatalf("%d of 40 were admitted", got)
		}
	}

	eventually(t, "a third coordinator warns of what two saw", func() bool {
		body := three.call(t, http.MethodPut, "/admin/rules/things?dryRun=true", counted(70)).body

		return strings.Contains(body, "a key used 80 tokens")
	})
}
