package relational

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// selectOverrides is a statement that reads overrides, as overrides takes them: a key has two rows where one is of an import that
// has landed.
func (s *Store) selectOverrides(where string) string {
	text := "SELECT " + overrideColumns + ", version, 0 AS deleted FROM overrides WHERE " + where
	if s.dialect.Part > 0 { // SQLite merges the two without sorting them
		text += " UNION ALL SELECT " + overrideColumns + ", (SELECT version FROM imports WHERE version > 0) AS version, deleted " +
			"FROM arriving WHERE import = " + landed + " AND " + where
	}
	return text + " ORDER BY rule, stored_key"
}

// step is how many rows are read at a time, and how many keys are looked up with one statement.
const step = 500

// Overrides looks up keys, or lists, as the query says. An error of code Invalid is about one row, and the next come after it.
func (s *Store) Overrides(ctx context.Context, query rulestore.Query) iter.Seq2[rulestore.Override, error] {
	return func(yield func(rulestore.Override, error) bool) {
		if err := query.Check(); err != nil {
			yield(rulestore.Override{}, err)
			return
		}
		if query.Keys != nil {
			s.lookup(ctx, query, yield)
			return
		}
		s.list(ctx, query, yield)
	}
}

// found is an override, or why a row is none, or that there is none any more.
type found struct {
	override rulestore.Override
	err      error
	deleted  bool
}

// overrides reads what a statement of selectOverrides selects, and leaves one row of each key: the one that is in force. It
// returns how many rows there were, too.
func (c *session) overrides(ctx context.Context, statement string, args ...any) (list []found, rows int, err error) {
	err = c.each(ctx, func(row *sql.Rows) error {
		one, deleted, err := scanOverride(row)
		if err != nil && rulestore.CodeOf(err) != rulestore.Invalid {
			return err
		}
		rows++
		if last := len(list) - 1; last >= 0 && sameKey(&one, &list[last].override) {
			if one.Version > list[last].override.Version {
				list[last] = found{one, err, deleted}
			}
			return nil
		}
		list = append(list, found{one, err, deleted})
		return nil
	}, statement, args...)
	return list, rows, err
}

func sameKey(a, b *rulestore.Override) bool {
	return a.Rule == b.Rule && bytes.Equal(a.StoredKey(), b.StoredKey())
}

// overrides is that of a session which ends with it.
func (s *Store) overrides(ctx context.Context, statement string, args ...any) (list []found, rows int, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer c.close()
	return c.overrides(ctx, statement, args...)
}

func (s *Store) list(ctx context.Context, query rulestore.Query, yield func(rulestore.Override, error) bool) {
	ruleID, stored, err := rulestore.ParseCursor(query.After)
	if err != nil {
		yield(rulestore.Override{}, err)
		return
	}
	left, n := query.Limit, step
	if left != 0 {
		n = min(n, left+2) // of the last key there may be another row
	}
	for {
		where, args := "(rule, stored_key) > ($1, $2)", []any{ruleID, cmpBytes(stored)}
		if query.Rule != "" {
			if ruleID != query.Rule {
				stored = nil
			}
			where, args = "rule = $1 AND stored_key > $2", []any{query.Rule, cmpBytes(stored)}
		}
		page, rows, err := s.overrides(ctx, s.selectOverrides(where)+fmt.Sprintf(" LIMIT %d", n), args...)
		if err != nil {
			yield(rulestore.Override{}, err)
			return
		}
		if rows == n {
			page = page[:len(page)-1]
			last := &page[len(page)-1].override
			ruleID, stored = last.Rule, last.StoredKey()
		}
		for i := range page {
			switch {
			case page[i].deleted:
				continue
			case !yield(page[i].override, page[i].err):
				return
			}
			left--
			if left == 0 {
				return
			}
		}
		if rows < n {
			return
		}
		n = step // many are deleted
	}
}

// cmpBytes is where a list begins: no key is as small, and a driver may take none for NULL.
func cmpBytes(stored []byte) []byte {
	if len(stored) == 0 {
		return []byte{0}
	}
	return stored
}

func (s *Store) lookup(ctx context.Context, query rulestore.Query, yield func(rulestore.Override, error) bool) {
	if len(query.Keys) > rulestore.MaxLookup || query.Rule == "" {
		yield(rulestore.Override{}, &rulestore.Error{
			Code: rulestore.Invalid, Place: "keys", Message: fmt.Sprintf("%d keys of the rule %q", len(query.Keys), query.Rule),
			Fix: fmt.Sprintf("name a rule, and at most %d keys", rulestore.MaxLookup),
		})
		return
	}
	for keys := range slices.Chunk(query.Keys, step) {
		asked := make(map[string]string, 2*len(keys)) // a key, by both forms in which it may be stored
		args := []any{query.Rule}
		var places strings.Builder
		for _, key := range keys {
			for _, secret := range []bool{false, true} {
				stored := (&rulestore.Override{Rule: query.Rule, Key: key, Secret: secret}).StoredKey()
				asked[string(stored)] = key
				fmt.Fprintf(&places, ",$%d", len(args)+1)
				args = append(args, stored)
			}
		}
		list, _, err := s.overrides(ctx, s.selectOverrides("rule = $1 AND stored_key IN ("+places.String()[1:]+")"), args...)
		if err != nil {
			yield(rulestore.Override{}, err)
			return
		}
		for i := range list {
			one, err := &list[i].override, list[i].err
			if list[i].deleted || err == nil && !one.Expires.IsZero() && !query.Now.Before(one.Expires) {
				continue
			}
			one.Key = asked[string(one.StoredKey())]
			if !yield(*one, err) {
				return
			}
		}
	}
}

// scanOverride reads a row of selectOverrides. What somebody put in by hand is an error of code Invalid; of what is deleted only the
// key is told.
func scanOverride(rows *sql.Rows) (o rulestore.Override, deleted bool, err error) {
	var (
		stored                  []byte
		lease, expires, version int64
	)
	if err := rows.Scan(&o.Rule, &stored, &o.Hint, &o.Limit, &o.Burst, &lease, &expires, &o.Note, &version, &deleted); err != nil {
		return o, deleted, err
	}
	o.Version = uint64(max(0, version))
	if err := o.SetStoredKey(stored); err != nil || deleted {
		return o, deleted, err
	}
	o.LeaseTTL = time.Duration(lease) * time.Microsecond
	if expires != 0 {
		o.Expires = time.UnixMicro(expires).UTC()
	}
	if lease > time.Hour.Microseconds() {
		o.LeaseTTL = time.Duration(1<<63 - 1) // and not what the product wraps to
	}
	err = o.Check()
	return o, false, err
}
