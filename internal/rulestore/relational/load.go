package relational

import (
	"context"
	"database/sql"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// Load reads everything but overrides, in one snapshot.
func (s *Store) Load(ctx context.Context) (*rulestore.State, error) {
	var (
		head            headRow
		rules, settings []rulestore.Row
	)
	err := s.read(ctx, func(c *session) (err error) {
		if head, err = c.head(ctx, ""); err != nil {
			return err
		}
		rules, settings, err = c.rows(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.memory.Assemble(head.head(), rules, settings), nil
}

// rows reads rules and settings, ordered by name.
func (c *session) rows(ctx context.Context) (rules, settings []rulestore.Row, err error) {
	into := func(list *[]rulestore.Row) func(*sql.Rows) error {
		return func(rows *sql.Rows) error {
			var row rulestore.Row
			var version int64
			if err := rows.Scan(&row.Name, &version, &row.Document); err != nil {
				return err
			}
			row.Version = uint64(max(0, version)) // somebody's hand may have been in it
			*list = append(*list, row)
			return nil
		}
	}
	if err := c.each(ctx, into(&rules), "SELECT id, version, document FROM rules ORDER BY id"); err != nil {
		return nil, nil, err
	}
	if err := c.each(ctx, into(&settings), "SELECT name, version, document FROM settings ORDER BY name"); err != nil {
		return nil, nil, err
	}
	return rules, settings, nil
}
