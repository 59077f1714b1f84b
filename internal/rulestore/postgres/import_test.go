package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/postgres"
)

// many is how many overrides go through a table of their own.
const many = 2 * rulestore.MaxDifferences

// contracts is a change of many overrides.
func contracts(limit int64) *rulestore.Change {
	return &rulestore.Change{Author: "ada", Action: "overrides.import", Overrides: func(yield func(rulestore.OverrideChange, error) bool) {
		for i := range many {
			if !yield(contract(i, limit), nil) {
				return
			}
		}
	}}
}

// contract is the override of one of many keys.
func contract(i int, limit int64) rulestore.OverrideChange {
	return rulestore.OverrideChange{Override: rulestore.Override{Rule: "a", Key: fmt.Sprint("customer-", i), Limit: limit}}
}

// limits are the limits that overrides have, and the versions that wrote them, with how many have them.
func limits(tb testing.TB, s rulestore.Store) map[string]int {
	tb.Helper()
	found := map[string]int{}
	for one, err := range s.Overrides(tb.Context(), rulestore.Query{}) {
		if err != nil {
			tb.Fatal(err)
		}
		found[fmt.Sprintf("%d since version %d", one.Limit, one.Version)]++
	}
	return found
}

// importing is an import that has come to a row that somebody else has locked.
type importing struct {
	blocker pgx.Tx
	done    chan error
	record  *rulestore.Record
}

// hold begins an import of the limit 2, and returns when it waits in the middle of it, at a row of the version before.
func hold(tb testing.TB, url string, s rulestore.Store) *importing {
	tb.Helper()
	blocker, err := connect(tb, url).Begin(tb.Context())
	if err == nil {
		_, err = blocker.Exec(tb.Context(), "SELECT 1 FROM overrides WHERE stored_key = $1 FOR UPDATE", []byte("kcustomer-1500"))
	}
	if err != nil {
		tb.Fatal(err)
	}
	h := &importing{blocker: blocker, done: make(chan error, 1)}
	go func() {
		record, err := s.Write(tb.Context(), contracts(2))
		h.record = record
		h.done <- err
	}()
	look, deadline := connect(tb, url), time.Now().Add(patience)
	for waits := false; !waits; {
		if time.Now().After(deadline) {
			tb.Fatal("the import does not come to the row that is locked")
		}
		err := look.QueryRow(tb.Context(), "SELECT count(*) > 0 FROM pg_stat_activity "+
			"WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'INSERT INTO overrides%'").Scan(&waits)
		if err != nil {
			tb.Fatal(err)
		}
	}
	return h
}

// While many overrides are written, others change rules, and nobody sees a part of them. Other overrides wait, as one order of
// versions is for all of them.
func TestRulesAreChangedDuringAnImport(t *testing.T) {
	url := servers.Shared(t).Database(t)
	s, other := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})
	if _, err := s.Write(t.Context(), contracts(1)); err != nil {
		t.Fatal(err)
	}
	heads := watch(t, other)
	h := hold(t, url, s)
	for i, writer := range []rulestore.Store{s, other} {
		if record, err := writer.Write(t.Context(), two(t, int64(i+1))); err != nil || record.Version != uint64(i+3) {
			t.Errorf("a rule is changed meanwhile: %+v, %v", record, err)
		}
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		one := &rulestore.Change{Author: "ada", Action: "overrides.set", Overrides: func(yield func(rulestore.OverrideChange, error) bool) {
			yield(contract(0, 9), nil)
		}}
		if record, err := writer.Write(short, one); rulestore.CodeOf(err) != rulestore.Busy && short.Err() == nil {
			t.Errorf("an override is changed meanwhile: %+v, %v", record, err)
		}
		cancel()
	}
	if got := limits(t, other); len(got) != 1 || got["1 since version 1"] != many {
		t.Errorf("during the import there are %v", got)
	}
	await(t, heads, func(one told) bool { return one.head == rulestore.Head{Rules: 4, Overrides: 1} })

	_ = h.blocker.Rollback(t.Context())
	if err := <-h.done; err != nil {
		t.Fatal(err)
	}
	if h.record.Version != 2 || h.record.Seq != 4 || h.record.Overrides != many {
		t.Errorf("the record is %+v", h.record)
	}
	if got := limits(t, other); len(got) != 1 || got["2 since version 2"] != many {
		t.Errorf("after the import there are %v", got)
	}
	await(t, heads, func(one told) bool { return one.head == rulestore.Head{Rules: 4, Overrides: 2} })
	records, err := s.History(t.Context(), rulestore.Page{})
	if err != nil || len(records) != 4 || records[0].Version != 2 || records[1].Version != 4 {
		t.Errorf("the records are %+v, %v", records, err)
	}
	if record, err := other.Write(t.Context(), contracts(3)); err != nil || record.Version != 5 || record.Seq != 5 {
		t.Errorf("the next import: %+v, %v", record, err)
	}
}

// An import whose connection breaks off in the middle leaves nothing, and is in nobody's way.
func TestAnImportThatBreaksOffLeavesNothing(t *testing.T) {
	server := servers.Shared(t)
	url := server.Database(t)
	s := open(t, postgres.Config{URL: url})
	if _, err := s.Write(t.Context(), contracts(1)); err != nil {
		t.Fatal(err)
	}
	h := hold(t, url, s)
	server.Exec(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
		"WHERE datname = current_database() AND query LIKE 'INSERT INTO overrides%'")
	if err := <-h.done; rulestore.CodeOf(err) != rulestore.Unavailable {
		t.Errorf("the import is told %v", err)
	}
	_ = h.blocker.Rollback(t.Context())
	if got := limits(t, s); len(got) != 1 || got["1 since version 1"] != many {
		t.Errorf("after it there are %v", got)
	}
	record, err := s.Write(t.Context(), contracts(3))
	if err != nil || record.Version != 3 || record.Seq != 2 { // the number that it had reserved is nobody's
		t.Errorf("the next import: %+v, %v", record, err)
	}
	if got := limits(t, s); len(got) != 1 || got["3 since version 3"] != many || strings.Contains(fmt.Sprint(got), "2 since") {
		t.Errorf("after the next there are %v", got)
	}
}
