package relational

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

const selectOverride = "SELECT " + overrideColumns + ", version FROM overrides"

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

// found is an override, or why a row is none.
type found struct {
	override rulestore.Override
	err      error
}

// overrides reads what a statement selects.
func (s *Store) overrides(ctx context.Context, statement string, args ...any) (list []found, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	defer c.close()
	err = c.each(ctx, func(rows *sql.Rows) error {
		one, err := scanOverride(rows)
		if err != nil && rulestore.CodeOf(err) != rulestore.Invalid {
			return err
		}
		list = append(list, found{one, err})
		return nil
	}, statement, args...)
	return list, err
}

func (s *Store) list(ctx context.Context, query rulestore.Query, yield func(rulestore.Override, error) bool) {
	ruleID, stored, err := rulestore.ParseCursor(query.After)
	if err != nil {
		yield(rulestore.Override{}, err)
		return
	}
	for yielded := 0; query.Limit == 0 || yielded < query.Limit; {
		n := step
		if query.Limit != 0 {
			n = min(n, query.Limit-yielded)
		}
		where, args := " WHERE (rule, stored_key) > ($1, $2)", []any{ruleID, cmpBytes(stored)}
		if query.Rule != "" {
			if ruleID != query.Rule {
				stored = nil
			}
			where, args = " WHERE rule = $1 AND stored_key > $2", []any{query.Rule, cmpBytes(stored)}
		}
		page, err := s.overrides(ctx, selectOverride+where+fmt.Sprintf(" ORDER BY rule, stored_key LIMIT %d", n), args...)
		if err != nil {
			yield(rulestore.Override{}, err)
			return
		}
		for i := range page {
			if !yield(page[i].override, page[i].err) {
				return
			}
		}
		if len(page) < n {
			return
		}
		last := page[n-1].override
		ruleID, stored = last.Rule, last.StoredKey()
		yielded += n
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
		rows, err := s.overrides(ctx, selectOverride+" WHERE rule = $1 AND stored_key IN ("+places.String()[1:]+")", args...)
		if err != nil {
			yield(rulestore.Override{}, err)
			return
		}
		for i := range rows {
			one := &rows[i].override
			if rows[i].err == nil && !one.Expires.IsZero() && !query.Now.Before(one.Expires) {
				continue
			}
			one.Key = asked[string(one.StoredKey())]
			if !yield(*one, rows[i].err) {
				return
			}
		}
	}
}

// scanOverride reads a row of selectOverride. What somebody put in by hand is an error of code Invalid.
func scanOverride(rows *sql.Rows) (o rulestore.Override, err error) {
	var (
		stored                  []byte
		lease, expires, version int64
	)
	if err := rows.Scan(&o.Rule, &stored, &o.Hint, &o.Limit, &o.Burst, &lease, &expires, &o.Note, &version); err != nil {
		return o, err
	}
	o.Version = uint64(max(0, version))
	if err := o.SetStoredKey(stored); err != nil {
		return o, err
	}
	o.LeaseTTL = time.Duration(lease) * time.Microsecond
	if expires != 0 {
		o.Expires = time.UnixMicro(expires).UTC()
	}
	if lease > time.Hour.Microseconds() {
		o.LeaseTTL = time.Duration(1<<63 - 1) // and not what the product wraps to
	}
	err = o.Check()
	return o, err
}
