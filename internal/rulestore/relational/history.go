package relational

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// History reads records, the latest first.
func (s *Store) History(ctx context.Context, page rulestore.Page) ([]rulestore.Record, error) {
	if err := page.Check(); err != nil {
		return nil, err
	}
	var records []rulestore.Record
	err := s.read(ctx, func(c *session) (err error) {
		if records, err = c.records(ctx, page); err != nil {
			return err
		}
		return c.differences(ctx, page, records)
	})
	return records, err
}

// records reads them without what they changed.
func (c *session) records(ctx context.Context, page rulestore.Page) (records []rulestore.Record, err error) {
	var (
		where []string
		args  []any
	)
	only := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(args))))
	}
	if page.Before != 0 {
		only("seq < ?", page.Before)
	}
	if page.Version != 0 {
		only("version = ?", page.Version)
	}
	if page.Versions {
		only("version > ?", 0)
	}
	if page.Place != "" {
		only("version IN (SELECT version FROM versions WHERE place = ?)", page.Place)
	}
	statement := "SELECT seq, version, at_us, author, reason, action, target, overrides FROM audit"
	if len(where) > 0 {
		statement += " WHERE " + strings.Join(where, " AND ")
	}
	limit := page.Limit
	if limit == 0 {
		limit = rulestore.MaxPage
	}
	err = c.each(ctx, func(rows *sql.Rows) error {
		var (
			r  rulestore.Record
			at int64
		)
		if err := rows.Scan(&r.Seq, &r.Version, &at, &r.Author, &r.Reason, &r.Action, &r.Target, &r.Overrides); err != nil {
			return err
		}
		r.At = time.UnixMicro(at).UTC()
		records = append(records, r)
		return nil
	}, statement+fmt.Sprintf(" ORDER BY seq DESC LIMIT %d", limit), args...)
	return records, err
}

// differences adds what the records changed, where the page is about one version or one place.
func (c *session) differences(ctx context.Context, page rulestore.Page, records []rulestore.Record) error {
	if len(records) == 0 || page.Version == 0 && page.Place == "" {
		return nil
	}
	of := make(map[uint64]*rulestore.Record, len(records))
	for i := range records {
		of[records[i].Version] = &records[i]
	}
	statement := "SELECT version, place, before, after FROM versions WHERE version BETWEEN $1 AND $2"
	args := []any{records[len(records)-1].Version, records[0].Version}
	if page.Place != "" {
		statement, args = statement+" AND place = $3", append(args, page.Place)
	}
	return c.each(ctx, func(rows *sql.Rows) error {
		var (
			version       uint64
			d             rulestore.Difference
			before, after []byte
		)
		if err := rows.Scan(&version, &d.Place, &before, &after); err != nil {
			return err
		}
		d.Before, d.After = json.RawMessage(before), json.RawMessage(after)
		if r := of[version]; r != nil {
			r.Differences = append(r.Differences, d)
		}
		return nil
	}, statement+" ORDER BY version, place", args...)
}
