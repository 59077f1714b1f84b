package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/sqlite"
)

// many is how many overrides arrive in several parts.
const many = 3_600

// book is what should be in force: the limit of each customer, and the version that wrote it.
type book map[string][2]int64

// customers are those from one on and before another.
type customers struct{ from, to int }

// imports makes one change of the overrides of some; a limit of 0 deletes them.
func (b book) imports(tb testing.TB, s rulestore.Store, of customers, limit int64) *rulestore.Record {
	tb.Helper()
	var changes []rulestore.OverrideChange
	for i := of.from; i < of.to; i++ {
		one := rulestore.Override{Rule: "a", Key: fmt.Sprintf("customer-%05d", i), Limit: limit}
		changes = append(changes, rulestore.OverrideChange{Override: one, Delete: limit == 0})
	}
	record, err := s.Write(tb.Context(), importOf(changes))
	if err != nil {
		tb.Fatal(err)
	}
	count := int64(0)
	for i := range changes {
		key := changes[i].Key
		if _, there := b[key]; limit > 0 || there {
			count++
		}
		if b[key] = [2]int64{limit, int64(record.Version)}; limit == 0 {
			delete(b, key)
		}
	}
	if record.Overrides != count {
		tb.Errorf("the record says %d of %d", record.Overrides, count)
	}
	return record
}

func importOf(changes []rulestore.OverrideChange) *rulestore.Change {
	return &rulestore.Change{Author: "ada", Action: "overrides.import", Overrides: func(yield func(rulestore.OverrideChange, error) bool) {
		for _, one := range changes {
			if !yield(one, nil) {
				return
			}
		}
	}}
}

// holds checks a store against the book: all that is listed, in pages of several sizes, and some that are looked up.
func (b book) holds(tb testing.TB, s rulestore.Store, when string) {
	tb.Helper()
	for _, query := range []rulestore.Query{{}, {Rule: "a"}, {Limit: 777}, {Limit: 777, Rule: "a"}} {
		got, last := book{}, ""
		for more := true; more; {
			n := 0
			for one, err := range s.Overrides(tb.Context(), query) {
				if err != nil || one.Key <= last {
					tb.Fatalf("%s: %q after %q, %v", when, one.Key, last, err)
				}
				got[one.Key], last = [2]int64{one.Limit, int64(one.Version)}, one.Key
				query.After, n = one.Cursor(), n+1
			}
			more = query.Limit > 0 && n == query.Limit
		}
		if !maps.Equal(got, b) {
			tb.Errorf("%s, listed by %+v: %d, want %d", when, query, len(got), len(b))
		}
	}
	var keys []string
	want := book{}
	for i := 0; i < 2*many; i += many / 20 {
		key := fmt.Sprintf("customer-%05d", i)
		if keys = append(keys, key); b[key] != [2]int64{} {
			want[key] = b[key]
		}
	}
	got := book{}
	for one, err := range s.Overrides(tb.Context(), rulestore.Query{Rule: "a", Keys: keys}) {
		if err != nil {
			tb.Fatal(err)
		}
		got[one.Key] = [2]int64{one.Limit, int64(one.Version)}
	}
	if !maps.Equal(got, want) {
		tb.Errorf("%s, looked up are %v\nwant %v", when, got, want)
	}
}

// left is how many rows of imports are not moved or swept yet.
func left(tb testing.TB, db *sql.DB) (n int) {
	tb.Helper()
	err := db.QueryRowContext(tb.Context(), "SELECT (SELECT count(*) FROM arriving) + (SELECT count(*) FROM imports)").Scan(&n)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// settle watches until nothing is left of imports, as a coordinator does.
func settle(tb testing.TB, s rulestore.Store, db *sql.DB) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Watch(ctx, func(rulestore.Head, error) {}) }()
	for deadline := time.Now().Add(30 * time.Second); left(tb, db) > 0; {
		if time.Now().After(deadline) {
			tb.Fatalf("there are %d rows of imports left", left(tb, db))
		}
	}
	cancel()
	if err := <-ended; err == nil {
		tb.Error("Watch ended without the error of its context")
	}
}

// What has arrived is in force at once, whether it is moved to the others yet or not, also under what is changed meanwhile.
func TestAnImportIsInForceBeforeItIsMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	s, other, db := open(t, sqlite.Config{Path: path}), open(t, sqlite.Config{Path: path}), raw(t, path)
	b := book{}
	b.imports(t, s, customers{0, many}, 1)
	b.holds(t, other, "landed")
	if left(t, db) != many+1 { // nobody watches, so that nothing is moved
		t.Fatalf("there are %d rows of imports", left(t, db))
	}
	b.imports(t, other, customers{0, 1}, 5)                 // one is changed,
	b.imports(t, other, customers{many - 1, many}, 0)       // one deleted,
	b.imports(t, other, customers{many, many + 2}, 6)       // and two are new
	b.imports(t, other, customers{many + 1, many + 2}, 0)   // of which one goes,
	b.imports(t, other, customers{2*many - 1, 2 * many}, 0) // and one never was
	b.holds(t, s, "changed before it is moved")
	b.imports(t, s, customers{many / 3, 2 * many / 3}, 0) // many are deleted,
	b.holds(t, other, "a third is deleted")
	b.imports(t, s, customers{many / 2, many/2 + 1}, 7) // one of them comes back,
	b.imports(t, s, customers{0, 1}, 0)                 // and another goes
	b.holds(t, other, "changed before that is moved")
	b.imports(t, other, customers{many / 4, 3 * many / 2}, 8) // and many replace what is there
	b.holds(t, s, "replaced")
	settle(t, s, db)
	b.holds(t, other, "moved")
}

// A kill switch, say, is thrown between two parts.
func TestRulesAreChangedDuringAnImport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	s, db := open(t, sqlite.Config{Path: path}), raw(t, path)
	imported, changed := make(chan *rulestore.Record, 1), make(chan *rulestore.Record, 1)
	go func() { imported <- book{}.imports(t, s, customers{0, 5 * many}, 1) }()
	for left(t, db) == 0 {
		continue // it begins to arrive, in several parts
	}
	run(t, db, "BEGIN IMMEDIATE") // the next part waits, and meanwhile another writer comes
	go func() {
		record, err := s.Write(t.Context(), &rulestore.Change{
			Author: "ada", Action: "settings.put", Settings: []rulestore.SettingChange{{Name: "mine", Value: []byte("1")}},
		})
		if err != nil {
			t.Error(err)
		}
		changed <- record
	}()
	run(t, db, "ROLLBACK")
	if record := <-changed; record == nil || record.Version != 1 {
		t.Errorf("the rules were changed by %+v", record)
	}
	if record := <-imported; record.Version != 2 || record.Seq != 2 {
		t.Errorf("the overrides were changed by %+v", record)
	}
}

// Of an import that breaks off nothing is seen, and nothing stays.
func TestAnImportThatBreaksOffLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	s, db := open(t, sqlite.Config{Path: path}), raw(t, path)
	b := book{}
	b.imports(t, s, customers{0, many}, 1)
	settle(t, s, db)

	run(t, db, "CREATE TRIGGER fails BEFORE INSERT ON arriving WHEN new.stored_key = CAST('kcustomer-03000' AS BLOB) "+
		"BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
	changes := make([]rulestore.OverrideChange, many)
	for i := range changes {
		changes[i].Override = rulestore.Override{Rule: "a", Key: fmt.Sprintf("customer-%05d", i), Limit: 2}
	}
	if _, err := s.Write(t.Context(), importOf(changes)); rulestore.CodeOf(err) != rulestore.Unavailable {
		t.Errorf("the import is told %v", err)
	}
	if left(t, db) < 2000 {
		t.Errorf("%d rows had arrived", left(t, db))
	}
	b.holds(t, s, "broken off")
	settle(t, s, db)
	b.holds(t, s, "swept")

	// A process that ends does not say so: what is left of its import goes by its age, and not before.
	run(t, db, "DROP TRIGGER fails")
	run(t, db, "INSERT INTO imports (at_us, version) VALUES (CAST(unixepoch('subsec') * 1000000 AS INTEGER) - 90000000, 0)")
	run(t, db, "INSERT INTO arriving SELECT (SELECT max(id) FROM imports), rule, stored_key, hint, 9, 9, 0, 0, '', 0 FROM overrides")
	run(t, db, "INSERT INTO imports (at_us, version) VALUES (CAST(unixepoch('subsec') * 1000000 AS INTEGER), 0)")
	b.imports(t, s, customers{0, many}, 3)
	b.holds(t, s, "imported again")
	if n := left(t, db); n != many+2 {
		t.Errorf("%d rows are left: that of an import that may be alive, and those that have landed, are %d", n, many+2)
	}
}
