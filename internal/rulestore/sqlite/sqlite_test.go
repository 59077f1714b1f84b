package sqlite_test

import (
	"context"
	"database/sql"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/rulestoretest"
	"github.com/leaseway/leaseway/internal/rulestore/sqlite"
	"github.com/leaseway/leaseway/rule"
)

var count = flag.Int("overrides", 20_000, "how many overrides TestMillion imports")

// writeForever is the path of a store that this process, started by TestKilled, writes to until it is killed.
const writeForever = "LEASEWAY_TEST_WRITE_FOREVER"

func TestMain(m *testing.M) {
	if path := os.Getenv(writeForever); path != "" {
		writer(path)
	}
	flag.Parse()
	goleak.VerifyTestMain(m)
}

func open(tb testing.TB, config sqlite.Config) *sqlite.Store {
	tb.Helper()
	config.Poll = 20 * time.Millisecond
	s, err := sqlite.Open(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func raw(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		tb.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func run(tb testing.TB, db *sql.DB, statement string, args ...any) {
	tb.Helper()
	if _, err := db.ExecContext(tb.Context(), statement, args...); err != nil {
		tb.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	rulestoretest.Run(t, func(tb testing.TB) rulestoretest.Site {
		tb.Helper()

		path := filepath.Join(tb.TempDir(), "a dir?with#odd%20name", "rules.db")
		link := filepath.Join(tb.TempDir(), "link") // the driver's plain form of a name knows no odd ones
		if err := os.Symlink(filepath.Dir(path), link); err != nil {
			tb.Fatal(err)
		}
		return rulestoretest.Site{
			Open: func(tb testing.TB) rulestore.Store {
				tb.Helper()
				return open(tb, sqlite.Config{Path: path})
			},
			OpenReadOnly: func(tb testing.TB) rulestore.Store {
				tb.Helper()
				return open(tb, sqlite.Config{Path: path, ReadOnly: true})
			},
			Exec: func(tb testing.TB, statement string, args ...any) {
				tb.Helper()
				run(tb, raw(tb, filepath.Join(link, "rules.db")), statement, args...)
			},
			Hold: func(tb testing.TB) func() {
				tb.Helper()
				db := raw(tb, filepath.Join(link, "rules.db"))
				run(tb, db, "BEGIN IMMEDIATE")
				return func() { run(tb, db, "ROLLBACK") }
			},
		}
	})
}

func TestMillion(t *testing.T) {
	rulestoretest.Million(t, open(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "rules.db")}), *count)
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	s := open(t, sqlite.Config{Path: filepath.Join(dir, "rules.db")})
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", entry.Name(), info.Mode(), err)
		}
	}
}

func TestWhatIsNoStoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("this is no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]sqlite.Config{
		"no database": {Path: path}, "a directory": {Path: dir}, "nothing to read": {Path: filepath.Join(dir, "none"), ReadOnly: true},
	} {
		_, err := sqlite.Open(t.Context(), config)
		if rulestore.CodeOf(err) != rulestore.Unavailable || !strings.Contains(err.Error(), config.Path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The first schema, as it was given out: later ones begin with it.
func TestMigratesFromTheFirstSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	first, err := os.ReadFile("testdata/first.sql")
	if err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	run(t, db, string(first))
	s := open(t, sqlite.Config{Path: path})
	state, err := s.Load(t.Context())
	if err != nil || state.Set.Rule("a") == nil || state.Set.Rule("a").Limit != 100 || state.Rules != 1 || len(state.Bad) != 0 {
		t.Errorf("%+v, %v", state, err)
	}
	if records, err := s.History(t.Context(), rulestore.Page{Version: 1}); err != nil || len(records) != 1 || len(records[0].Differences) != 1 {
		t.Errorf("%+v, %v", records, err)
	}

	run(t, db, "INSERT INTO leaseway_schema (version_id, is_applied) VALUES (999, 1)")
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); rulestore.CodeOf(err) != rulestore.Invalid || !strings.Contains(err.Error(), "newer") {
		t.Errorf("tables of a newer version: %v", err)
	}
}

func TestProcessesThatStartTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestKilled kills a process that writes, again and again: what it was told to be written is there, and nothing is half.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	last := uint64(0)
	for range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), writeForever+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		written := make([]byte, 40) // one byte for each version that it was told of
		n := 0
		for n < len(written) {
			m, err := out.Read(written[n:])
			if err != nil {
				t.Fatalf("the writer ended: %v", err)
			}
			n += m
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()

		s := open(t, sqlite.Config{Path: path})
		state, err := s.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a, b := state.Set.Rule("a"), state.Set.Rule("b")
		if state.Rules < last+uint64(n) || a == nil || b == nil || a.Limit != b.Limit || len(state.Bad) != 0 {
			t.Errorf("after version %d and %d more: version %d, %+v and %+v", last, n, state.Rules, a, b)
		}
		last = state.Rules
	}
}

// writer changes two rules together, and says so with a byte each time.
func writer(path string) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	for limit := int64(1); err == nil; limit++ {
		var set *rule.Set
		if set, err = rule.Parse("", []byte(`{"rules":[{"id":"a","limit":1,"window":"1s"},{"id":"b","limit":1,"window":"1s"}]}`)); err != nil {
			break
		}
		c := &rulestore.Change{Author: "ada", Action: "rules.put"}
		for _, r := range set.Rules {
			r.Limit, r.Burst = limit, limit
			c.Rules = append(c.Rules, rulestore.RuleChange{ID: r.ID, Rule: r})
		}
		if _, err = s.Write(ctx, c); err == nil {
			_, err = os.Stdout.Write([]byte{'.'})
		}
	}
	os.Exit(3) //nolint:revive // it stands in for main
}
