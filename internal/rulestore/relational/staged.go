package relational

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// staged is the overrides of a change on their way into the table. A few are kept in memory. Many go into a temporary table of
// the connection first, so that neither a slow sender nor a million rows hold up other writers for longer than the last statement.
type staged struct {
	*session // nil until it is needed: a connection that waits is one that others miss

	store   *Store
	batch   map[string]rulestore.OverrideChange // by rule and stored key: the last one of a key wins
	total   int
	table   bool // that there is a temporary table
	deletes bool // and that some of its rows delete
}

const batchSize = rulestore.MaxDifferences

// collect reads all of them.
func (s *staged) collect(ctx context.Context, changes iter.Seq2[rulestore.OverrideChange, error]) error {
	s.batch = make(map[string]rulestore.OverrideChange)
	if changes == nil {
		return nil
	}
	for change, err := range changes {
		switch {
		case err != nil:
			return fmt.Errorf("overrides, after %d of them: %w", s.total, err)
		case s.total == rulestore.MaxStream:
			return &rulestore.Error{
				Code: rulestore.Invalid, Place: "overrides",
				Message: fmt.Sprintf("there are more than %d", s.total), Fix: "make several changes",
			}
		}
		if err := check(&change); err != nil {
			return fmt.Errorf("overrides, after %d of them: %w", s.total, err)
		}
		if len(s.batch) == batchSize {
			if err := s.spill(ctx); err != nil {
				return err
			}
		}
		s.batch[change.Rule+"\x00"+string(change.StoredKey())] = change
		s.total++
	}
	if s.table {
		return s.spill(ctx)
	}
	return ctx.Err()
}

// connect takes the connection, if there is none yet.
func (s *staged) connect(ctx context.Context) (err error) {
	if s.session == nil {
		s.session, err = s.store.open(ctx)
	}
	return err
}

// close gives the connection back, if there is one.
func (s *staged) close() {
	if s.session != nil {
		s.session.close()
	}
}

// check bounds what a deletion names, too.
func check(change *rulestore.OverrideChange) error {
	one := change.Override
	if change.Delete {
		one.Limit, one.Burst, one.LeaseTTL = 1, 0, 0
	}
	return one.Check()
}

const (
	overrideColumns = "rule, stored_key, hint, tokens, burst, lease_us, expires_us, note"
	onOverride      = " ON CONFLICT (rule, stored_key) DO UPDATE SET hint = excluded.hint, tokens = excluded.tokens, " +
		"burst = excluded.burst, lease_us = excluded.lease_us, expires_us = excluded.expires_us, note = excluded.note"
)

// differing is whether an override is another one than that of the same key, both by the names of their tables.
func differing(a, b string) string {
	columns := strings.Split(overrideColumns, ", ")[2:] // without the key
	left, right := make([]string, 0, len(columns)), make([]string, 0, len(columns))
	for _, column := range columns {
		left, right = append(left, a+"."+column), append(right, b+"."+column)
	}
	return "(" + strings.Join(left, ", ") + ") <> (" + strings.Join(right, ", ") + ")"
}

// spill moves the batch into the temporary table, in a transaction that locks nothing others need.
func (s *staged) spill(ctx context.Context) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	if !s.table {
		// Gone with the connection, which is why that is not used again.
		s.table, s.spoiled = true, true
		unique := "PRIMARY KEY (rule, stored_key)"
		if s.store.dialect.Copy != nil {
			unique = "seq BIGSERIAL"
		}
		if _, err := s.exec(ctx, "CREATE TEMPORARY TABLE staged (rule TEXT NOT NULL, stored_key "+s.store.dialect.Bytes+" NOT NULL, "+
			"hint TEXT NOT NULL, tokens BIGINT NOT NULL, burst BIGINT NOT NULL, lease_us BIGINT NOT NULL, expires_us BIGINT NOT NULL, "+
			"note TEXT NOT NULL, deleted BIGINT NOT NULL, "+unique+")"+s.store.dialect.Clustered); err != nil {
			return err
		}
	}
	if s.store.dialect.Copy != nil {
		return s.copy(ctx)
	}
	rows := make([]any, 0, stagedColumns*len(s.batch))
	for _, change := range s.batch {
		deleted := 0
		if change.Delete {
			deleted, s.deletes = 1, true
		}
		rows = append(append(rows, values(&change.Override)...), deleted)
	}
	clear(s.batch)
	return s.within(ctx, func() error { return s.begin(ctx, "BEGIN") }, func() error { return s.insert(ctx, rows) })
}

// copy is spill for a database that has a way of its own.
func (s *staged) copy(ctx context.Context) error {
	rows := Rows{Table: "staged", Columns: strings.Split(overrideColumns+", deleted", ", "), Values: make([][]any, 0, len(s.batch))}
	for _, change := range s.batch {
		deleted := int64(0)
		if change.Delete {
			deleted, s.deletes = 1, true
		}
		rows.Values = append(rows.Values, append(values(&change.Override), deleted))
	}
	clear(s.batch)
	return s.store.explain(ctx, s.store.dialect.Copy(ctx, s.conn, rows))
}

// insert inserts the values of any number of rows, as many at a time as the database takes best.
func (s *staged) insert(ctx context.Context, rows []any) error {
	full := stagedColumns * s.store.dialect.Rows
	if len(rows) >= full {
		prepared, err := s.conn.PrepareContext(ctx, insertStaged(s.store.dialect.Rows))
		if err != nil {
			return s.store.explain(ctx, err)
		}
		defer prepared.Close()
		for ; len(rows) >= full; rows = rows[full:] {
			if _, err := prepared.ExecContext(ctx, rows[:full]...); err != nil {
				return s.store.explain(ctx, err)
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := s.exec(ctx, insertStaged(len(rows)/stagedColumns), rows...)
	return err
}

// stagedColumns are those of an override, and whether it is deleted.
const stagedColumns = 9

// insertStaged is the statement that inserts n rows.
func insertStaged(n int) string {
	var text strings.Builder
	text.WriteString("INSERT INTO staged (" + overrideColumns + ", deleted) VALUES ")
	for i := range n {
		if i > 0 {
			text.WriteByte(',')
		}
		writePlaces(&text, i*stagedColumns, stagedColumns)
	}
	text.WriteString(onOverride + ", deleted = excluded.deleted")
	return text.String()
}

// writePlaces writes ($4,$5,$6) for from 3 and n 3.
func writePlaces(text *strings.Builder, from, n int) {
	for i := range n {
		separator := byte(',')
		if i == 0 {
			separator = '('
		}
		text.WriteByte(separator)
		fmt.Fprintf(text, "$%d", from+i+1)
	}
	text.WriteByte(')')
}

// values are those of overrideColumns.
func values(o *rulestore.Override) []any {
	expires := int64(0)
	if !o.Expires.IsZero() {
		expires = o.Expires.UnixMicro()
	}
	return []any{o.Rule, o.StoredKey(), o.StoredHint(), o.Limit, o.Burst, o.LeaseTTL.Microseconds(), expires, o.Note}
}

// apply makes them part of a version, within its transaction. It returns how many rows were written or deleted; those that are as they
// were are left alone, so that whoever sends the same list again makes no version.
func (s *staged) apply(ctx context.Context, version uint64) (n int64, differences []rulestore.Difference, err error) {
	if !s.table {
		return s.applyFew(ctx, version)
	}
	from := "staged"
	if s.store.dialect.Copy != nil {
		from = s.store.dialect.Latest
	}
	var deleted int64
	if s.deletes {
		deleted, err = s.exec(ctx,
			"DELETE FROM overrides WHERE (rule, stored_key) IN (SELECT rule, stored_key FROM "+from+" WHERE deleted = 1)")
		if err != nil {
			return 0, nil, err
		}
	}
	written, err := s.exec(ctx, "INSERT INTO overrides ("+overrideColumns+", version) SELECT "+overrideColumns+
		", CAST($1 AS BIGINT) FROM "+from+" WHERE deleted = 0"+onOverride+", version = excluded.version WHERE "+
		differing("overrides", "excluded"), version)
	return deleted + written, nil, err
}

// applyFew applies what is in memory, and tells what was there before.
func (s *staged) applyFew(ctx context.Context, version uint64) (n int64, differences []rulestore.Difference, err error) {
	for _, change := range s.batch {
		stored := change.StoredKey()
		d := rulestore.Difference{Place: change.Place()}
		before, _, err := s.overrides(ctx, s.store.selectOverrides("rule = $1 AND stored_key = $2"), change.Rule, stored)
		if err != nil {
			return 0, nil, err
		}
		var rows int64
		if len(before) > 0 && !before[0].deleted {
			if rows = 1; before[0].err == nil { // a bad row is no reason not to replace it
				d.Before = overrideDocument(&before[0].override)
			}
			if !change.Delete && bytes.Equal(d.Before, overrideDocument(&change.Override)) {
				continue
			}
		}
		if s.store.dialect.Part > 0 { // what has landed is older
			if _, err := s.exec(ctx, "DELETE FROM arriving WHERE import = "+landed+" AND rule = $1 AND stored_key = $2",
				change.Rule, stored); err != nil {
				return 0, nil, err
			}
		}
		if change.Delete {
			_, err = s.exec(ctx, "DELETE FROM overrides WHERE rule = $1 AND stored_key = $2", change.Rule, stored)
		} else {
			d.After = overrideDocument(&change.Override)
			rows, err = s.exec(ctx, "INSERT INTO overrides ("+overrideColumns+", version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"+
				onOverride+", version = excluded.version", append(values(&change.Override), version)...)
		}
		if err != nil {
			return 0, nil, err
		}
		if n += rows; rows > 0 {
			differences = append(differences, d)
		}
	}
	return n, differences, nil
}

// overrideDocument is an override in a record; a key that is no text is there in hexadecimal digits.
func overrideDocument(o *rulestore.Override) json.RawMessage {
	doc := struct {
		Rule      string `json:"rule"`
		Key       string `json:"key,omitempty"`
		KeyHex    string `json:"keyHex,omitempty"`
		KeySHA256 string `json:"keySha256,omitempty"`
		Hint      string `json:"hint,omitempty"`
		Limit     int64  `json:"limit,omitempty"`
		Burst     int64  `json:"burst,omitempty"`
		LeaseTTL  string `json:"leaseTtl,omitempty"`
		Expires   string `json:"expires,omitempty"`
		Note      string `json:"note,omitempty"`
	}{Rule: o.Rule, Hint: o.StoredHint(), Limit: o.Limit, Burst: o.Burst, Note: o.Note}
	switch {
	case o.Secret:
		doc.KeySHA256 = hex.EncodeToString(o.StoredKey()[1:])
	case utf8.ValidString(o.Key):
		doc.Key = o.Key
	default:
		doc.KeyHex = hex.EncodeToString([]byte(o.Key))
	}
	if o.LeaseTTL != 0 {
		doc.LeaseTTL = o.LeaseTTL.String()
	}
	if !o.Expires.IsZero() {
		doc.Expires = o.Expires.UTC().Format("2006-01-02T15:04:05.999999Z07:00")
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil // strings and numbers always encode
	}
	return text
}
