package postgres_test

import (
	"context"
	"flag"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/postgres"
	"github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest"
	"github.com/leaseway/leaseway/internal/rulestore/rulestoretest"
	"github.com/leaseway/leaseway/rule"
)

var (
	count   = flag.Int("overrides", 20_000, "how many overrides TestMillion imports")
	servers postgrestest.Servers
)

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		servers.Stop()
		os.Exit(code)
	}), goleak.IgnoreAnyFunction("github.com/leaseway/leaseway/internal/rulestore/postgres/postgrestest.(*Server).run.func1"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"), goleak.IgnoreAnyFunction("os/exec.(*Cmd).writerDescriptor.func1"))
}

func open(tb testing.TB, config postgres.Config) *postgres.Store {
	tb.Helper()
	if config.Poll == 0 {
		config.Poll = 20 * time.Millisecond
	}
	s, err := postgres.Open(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func connect(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

func TestStore(t *testing.T) {
	server := servers.Shared(t)
	rulestoretest.Run(t, func(tb testing.TB) rulestoretest.Site {
		tb.Helper()

		url := server.Database(tb)
		return rulestoretest.Site{
			Open: func(tb testing.TB) rulestore.Store {
				tb.Helper()
				return open(tb, postgres.Config{URL: url})
			},
			OpenReadOnly: func(tb testing.TB) rulestore.Store {
				tb.Helper()
				return open(tb, postgres.Config{URL: url, ReadOnly: true})
			},
			Exec: func(tb testing.TB, statement string, args ...any) {
				tb.Helper()
				server.Exec(tb, url, statement, args...)
			},
			Hold: func(tb testing.TB) func() {
				tb.Helper()
				tx, err := connect(tb, url).Begin(tb.Context())
				if err == nil {
					_, err = tx.Exec(tb.Context(), "SELECT 1 FROM head FOR UPDATE")
				}
				if err != nil {
					tb.Fatal(err)
				}
				return func() { _ = tx.Rollback(tb.Context()) }
			},
		}
	})
}

func TestMillion(t *testing.T) {
	rulestoretest.Million(t, open(t, postgres.Config{URL: servers.Shared(t).Database(t)}), *count)
}

// two is a change of two rules together.
func two(tb testing.TB, limit int64) *rulestore.Change {
	tb.Helper()
	set, err := rule.Parse("test", []byte(`{"rules":[{"id":"a","limit":1,"window":"1s"},{"id":"b","limit":1,"window":"1s"}]}`))
	if err != nil {
		tb.Fatal(err)
	}
	c := &rulestore.Change{Author: "ada", Action: "rules.put"}
	for _, r := range set.Rules {
		r.Limit, r.Burst = limit, limit
		c.Rules = append(c.Rules, rulestore.RuleChange{ID: r.ID, Rule: r})
	}
	return c
}

type told struct {
	head rulestore.Head
	err  error
}

func watch(tb testing.TB, s rulestore.Store) <-chan told {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	heads, ended := make(chan told, 1000), make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func(head rulestore.Head, err error) { heads <- told{head, err} }) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err == nil {
			tb.Error("Watch ended without the error of its context")
		}
	})
	return heads
}

const patience = 30 * time.Second

func await(tb testing.TB, heads <-chan told, ok func(told) bool) {
	tb.Helper()
	deadline := time.After(patience)
	for {
		select {
		case one := <-heads:
			if ok(one) {
				return
			}
		case <-deadline:
			tb.Fatal("the watcher was not told")
		}
	}
}

// A notice is enough: the next poll is an hour away.
func TestNoticeIsHeardWithoutAPoll(t *testing.T) {
	url := servers.Shared(t).Database(t)
	s := open(t, postgres.Config{URL: url, Poll: time.Hour})
	other := open(t, postgres.Config{URL: url})
	heads := watch(t, s)
	await(t, heads, func(one told) bool { return one.err == nil })
	if _, err := other.Write(t.Context(), two(t, 1)); err != nil {
		t.Fatal(err)
	}
	await(t, heads, func(one told) bool { return one.head.Rules == 1 })
}

// The server is killed while two write, and started again: what was acknowledged is there, nothing is half, nobody needs a restart.
func TestServerIsKilledDuringWrites(t *testing.T) {
	server := postgrestest.New(t)
	url := server.Database(t)
	s := open(t, postgres.Config{URL: url})
	heads := watch(t, s)
	await(t, heads, func(one told) bool { return one.err == nil })

	for round := range int64(3) {
		var (
			writers  sync.WaitGroup
			running  = make(chan struct{}, 1000)
			mu       sync.Mutex
			greatest uint64
		)
		for i := range int64(2) {
			writers.Go(func() {
				for n := int64(1); ; n++ {
					record, err := s.Write(t.Context(), two(t, 1_000_000*round+10*n+i+1))
					if err != nil {
						if code := rulestore.CodeOf(err); code != rulestore.Unavailable {
							t.Errorf("code %d: %v", code, err)
						}
						return
					}
					mu.Lock()
					greatest = max(greatest, record.Version)
					mu.Unlock()
					select {
					case running <- struct{}{}:
					default:
					}
				}
			})
		}
		for range 20 {
			<-running
		}
		server.Kill()
		writers.Wait()
		await(t, heads, func(one told) bool { return rulestore.CodeOf(one.err) == rulestore.Unavailable })
		if _, err := s.Load(t.Context()); rulestore.CodeOf(err) != rulestore.Unavailable {
			t.Errorf("while it is down: %v", err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, heads, func(one told) bool { return one.err == nil && one.head.Rules >= greatest })
		state, err := s.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a, b := state.Set.Rule("a"), state.Set.Rule("b"); a.Limit != b.Limit || state.Rules < greatest || state.Rules > greatest+2 {
			t.Errorf("%d was acknowledged, and there is %d, with %d and %d", greatest, state.Rules, a.Limit, b.Limit)
		}
		if records, err := s.History(t.Context(), rulestore.Page{}); err != nil || uint64(len(records)) != min(state.Rules, rulestore.MaxPage) {
			t.Errorf("there are %d records of %d versions: %v", len(records), state.Rules, err)
		}
	}
}

func TestServerThatTurnsReadOnly(t *testing.T) {
	server := servers.Shared(t)
	url := server.Database(t)
	s := open(t, postgres.Config{URL: url})
	if _, err := s.Write(t.Context(), two(t, 1)); err != nil {
		t.Fatal(err)
	}
	name := connect(t, url).Config().Database
	turn := func(to string) {
		server.Exec(t, server.URL("postgres"), "ALTER DATABASE "+name+" SET default_transaction_read_only = "+to)
		server.Exec(t, server.URL("postgres"), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
	}
	turn("on")
	again := open(t, postgres.Config{URL: url}) // a start needs no writing
	if _, err := again.Write(t.Context(), two(t, 2)); rulestore.CodeOf(err) != rulestore.ReadOnly {
		t.Errorf("a change is told %v", err)
	}
	if state, err := again.Load(t.Context()); err != nil || state.Set.Rule("a").Limit != 1 {
		t.Errorf("%+v, %v", state, err)
	}
	turn("off")
	later := open(t, postgres.Config{URL: url})
	if record, err := later.Write(t.Context(), two(t, 2)); err != nil || record.Version != 2 {
		t.Errorf("%+v, %v", record, err)
	}
}

// The first schema, as it was given out: later ones begin with it.
func TestMigratesFromTheFirstSchema(t *testing.T) {
	server := servers.Shared(t)
	url := server.Database(t)
	first, err := os.ReadFile("testdata/first.sql")
	if err != nil {
		t.Fatal(err)
	}
	server.Exec(t, url, string(first))
	s := open(t, postgres.Config{URL: url})
	state, err := s.Load(t.Context())
	if err != nil || state.Set.Rule("a") == nil || state.Set.Rule("a").Limit != 100 || state.Rules != 1 || len(state.Bad) != 0 {
		t.Errorf("%+v, %v", state, err)
	}
	if records, err := s.History(t.Context(), rulestore.Page{Version: 1}); err != nil || len(records) != 1 || len(records[0].Differences) != 1 {
		t.Errorf("%+v, %v", records, err)
	}
	server.Exec(t, url, "INSERT INTO leaseway_schema (version_id, is_applied) VALUES (999, true)")
	if _, err := postgres.Open(t.Context(), postgres.Config{URL: url}); rulestore.CodeOf(err) != rulestore.Invalid || !strings.Contains(err.Error(), "newer") {
		t.Errorf("tables of a newer version: %v", err)
	}
}

func TestProcessesThatStartTogether(t *testing.T) {
	url := servers.Shared(t).Database(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
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

func TestWhatCannotBeOpened(t *testing.T) {
	for name, url := range map[string]string{
		"no server": "postgres:///x?host=" + t.TempDir() + "&user=u&password=hunter2",
		"no url":    "postgres://u:hunter2@[::1:x/",
	} {
		_, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if rulestore.CodeOf(err) != rulestore.Unavailable || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
