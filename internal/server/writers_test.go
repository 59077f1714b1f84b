package server

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // for what is changed by hand

	"github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest"
)

// putIf is a PUT that is made only if the ETag is still that; the answer's status.
func (r *running) putIf(t *testing.T, path, body, etag string) (int, error) {
	t.Helper()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.scheme+"://"+r.HTTP+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}

	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("If-Match", etag)

	resp, err := r.client.Do(req)
	if err != nil {
		return 0, err
	}

	return resp.StatusCode, resp.Body.Close()
}

// limited is what a history shows of a rule.
type limited struct {
	Limit int `json:"limit"`
}

// counted is a rule whose limit counts how often it was written.
func counted(limit int) string {
	return fmt.Sprintf(`{"limit": %d, "windowSec": 43200, "keyBy": "user", "scope": "/v1/things"}`, limit)
}

// Several who write one rule at two coordinators at once, each what it read and one more, lose nothing: whoever was slower is
// refused, reads again, and every write is a version of its own.
func TestWritersAtTwoCoordinatorsLoseNothing(t *testing.T) {
	const writers, each = 4, 5

	at := []string{"--rule-store", "sqlite:" + filepath.Join(t.TempDir(), "rules.db")}
	doors := []*running{start(t, at...), start(t, at...)}
	doors[0].want(t, "PUT /admin/rules/things", counted(1), expected{http.StatusOK, `"version":`})

	for _, door := range doors {
		eventually(t, "both have it", func() bool { return door.limit(t) == "1" })
	}

	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		refused int
	)

	for i := range writers {
		door := doors[i%len(doors)]

		all.Go(func() {
			for done := 0; done < each && !t.Failed(); {
				read := door.call(t, http.MethodGet, "/admin/rules/things", "")
				_, rest, _ := strings.Cut(read.body, `"limit":`)
				digits, _, _ := strings.Cut(rest, ",")

				limit, err := strconv.Atoi(strings.TrimRight(digits, "}"))
				if err != nil {
					t.Errorf("read %s: %v", read.body, err)

					return
				}

				switch status, err := door.putIf(t, "/admin/rules/things", counted(limit+1), read.header.Get("ETag")); {
				case err != nil:
					t.Error(err)

					return
				case status == http.StatusOK:
					done++
				case status == http.StatusPreconditionFailed:
					mu.Lock()
					refused++
					mu.Unlock()
				default:
					t.Errorf("a write that was read just before got %d", status)

					return
				}
			}
		})
	}

	all.Wait()
	t.Logf("%d writes, and %d that were refused because somebody else had written", writers*each, refused)

	want := strconv.Itoa(1 + writers*each)

	for _, door := range doors {
		eventually(t, "the last one decides", func() bool { return door.limit(t) == want })
	}

	// Each is a version, in order, and each changed what the one before had written.
	var history struct {
		Records []struct {
			Version uint64 `json:"version"`
			Places  []struct {
				Before limited `json:"before"`
				After  limited `json:"after"`
			} `json:"places"`
		} `json:"records"`
	}

	must(t, json.Unmarshal([]byte(doors[1].call(t, http.MethodGet, "/admin/rules/things/versions?limit=100", "").body), &history))

	if got := len(history.Records); got != 1+writers*each {
		t.Fatalf("the history has %d versions, want %d", got, 1+writers*each)
	}

	for i, record := range history.Records {
		limit := 1 + writers*each - i
		if change := record.Places[0]; change.After.Limit != limit || change.Before.Limit != limit-1 {
			t.Errorf("version %d changed %d to %d, want %d to %d", record.Version, change.Before.Limit, change.After.Limit, limit-1, limit)
		}

		if i > 0 && record.Version >= history.Records[i-1].Version {
			t.Errorf("version %d comes before %d", record.Version, history.Records[i-1].Version)
		}
	}
}

// A change of which Postgres tells nobody is found by asking.
func TestAChangeWithoutANoticeIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a database")
	}

	database := postgrestest.New(t)
	url := database.Database(t)
	r := start(t, "--rule-store", url, "--rules-seed", file(t, thingsRules), "--data-dir", dataDir(t))

	if got := r.limit(t); got != "100" {
		t.Fatalf("the seed's limit is %s", got)
	}

	// What is written by hand announces nothing.
	database.Exec(t, url, `UPDATE rules SET document = replace(document, '100', '250'), version = (SELECT last + 1 FROM head)`)
	database.Exec(t, url, `UPDATE head SET last = last + 1, rules = last + 1`)
	eventually(t, "the change decides", func() bool { return r.limit(t) == "250" })
}

// A backup that is restored while everything runs is in force once it has stood for a few seconds, for holders as one more
// version; until then what was in force goes on, and it is said why.
func TestARestoredBackupComesIntoForce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	at := []string{"--rule-store", "sqlite:" + path}
	doors := []*running{start(t, at...), start(t, at...)}
	holder := start(t, "--coordinator", doors[0].GRPC, "--coordinator-key", doors[0].Key)

	for _, limit := range []int{10, 20, 30} {
		doors[0].want(t, "PUT /admin/rules/things", counted(limit), expected{http.StatusOK, `"version":`})
	}

	for _, r := range append(doors, holder) {
		eventually(t, "the last one decides", func() bool { return r.limit(t) == "30" })
	}

	restore(t, path)
	eventually(t, "the metric says it", func() bool { return doors[0].metric(t, "leaseway_rule_store_up") == "0" })

	const said = "the rule store has an older state than before: the last good rules go on until it has stood for a while"
	if why := doors[0].logged(said, "error"); !strings.Contains(why, "an older state was restored") {
		t.Errorf("the log says %q", why)
	}

	doors[0].want(t, "GET /readyz", "", expected{http.StatusOK, `"degraded":["an older state of the rule store was found`})

	if got := doors[0].limit(t); got != "30" {
		t.Errorf("limit %s decides at once, want the 30 that was in force", got)
	}

	for _, r := range append(doors, holder) {
		eventually(t, "what was restored decides", func() bool { return r.limit(t) == "10" })
	}

	if !strings.Contains(doors[0].Log.String()+doors[1].Log.String(), "an older state of the rule store was restored") {
		t.Error("the log does not say that it is in force")
	}

	// All goes on as before: whoever writes sees it at once, everybody runs it, and the audit says what happened.
	doors[1].want(t, "PUT /admin/rules/things", counted(40), expected{http.StatusOK, `"version":`})
	doors[1].want(t, "GET /admin/rules/things", "", expected{http.StatusOK, `"limit":40`})

	for _, r := range append(doors, holder) {
		eventually(t, "the next change decides", func() bool { return r.limit(t) == "40" })
	}

	eventually(t, "the store is up", func() bool { return doors[0].metric(t, "leaseway_rule_store_up") == "1" })
	doors[0].want(t, "GET /admin/audit", "", expected{http.StatusOK, "holders must see versions move forward"})
}

// restore makes a store what it was at the first version of its one rule.
func restore(t *testing.T, path string) {
	t.Helper()

	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	must(t, err)

	defer db.Close()

	for _, statement := range []string{
		`UPDATE rules SET document = replace(document, '30', '10'), version = version - 2`,
		`DELETE FROM versions WHERE version > (SELECT last - 2 FROM head)`,
		`DELETE FROM audit WHERE version > (SELECT last - 2 FROM head)`,
		`UPDATE head SET last = last - 2, records = records - 2, rules = rules - 2`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		must(t, err)
	}
}
