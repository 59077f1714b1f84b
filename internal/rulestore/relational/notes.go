package relational

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

var _ rulestore.Board = (*Store)(nil)

// Pin puts up a note, and takes down those that are too old, or of a clock that was set back since.
func (s *Store) Pin(ctx context.Context, from string, body []byte) error {
	if err := rulestore.CheckNote(from, body); err != nil {
		return err
	}
	c, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if len(body) == 0 {
		_, err = c.exec(ctx, "DELETE FROM notes WHERE name = $1", from)
		return err
	}
	now := s.dialect.NowMicros
	return c.within(ctx, func() error { return c.begin(ctx, s.dialect.BeginWrite) }, func() error {
		if _, err := c.exec(ctx, "INSERT INTO notes (name, at_us, body) VALUES ($1, "+now+", $2) "+
			"ON CONFLICT (name) DO UPDATE SET at_us = excluded.at_us, body = excluded.body", from, string(body)); err != nil {
			return err
		}
		_, err := c.exec(ctx, "DELETE FROM notes WHERE at_us NOT BETWEEN "+now+" - $1 AND "+now+" + $1", rulestore.NoteTTL.Microseconds())
		return err
	})
}

// Notes reads them and the head, in one snapshot.
func (s *Store) Notes(ctx context.Context) (notes []rulestore.Note, head rulestore.Head, err error) {
	err = s.read(ctx, func(c *session) error {
		h, err := c.head(ctx, "")
		if err != nil {
			return err
		}
		head = h.head()
		now := s.dialect.NowMicros
		return c.each(ctx, func(rows *sql.Rows) error {
			var note rulestore.Note
			var micros int64
			if err := rows.Scan(&note.From, &micros, &note.Body); err != nil {
				return err
			}
			note.Age = max(0, time.Duration(micros)*time.Microsecond)
			notes = append(notes, note)
			return nil
		}, "SELECT name, "+now+" - at_us, body FROM notes WHERE at_us BETWEEN "+now+" - $1 AND "+now+" + $1 "+
			"ORDER BY at_us DESC LIMIT $2", rulestore.NoteTTL.Microseconds(), rulestore.MaxNotes)
	})
	slices.SortFunc(notes, func(a, b rulestore.Note) int { return strings.Compare(a.From, b.From) })
	return notes, head, err
}
