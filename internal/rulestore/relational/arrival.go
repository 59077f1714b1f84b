package relational

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// arrival is an import on its way into a database with one writer, which others need meanwhile. Its rows arrive in parts, each
// in a transaction of its own; nobody sees them before one more gives their import a version. From then on they are in force,
// and are moved to the others, in parts again:
//
//	imports   (none) ──arrive──▶ version 0 ──land──▶ version 8 ──settle──▶ (none)
//	arriving              rows, that nobody sees │ before the others │ fewer and fewer
//
// One import at a time is landed and not settled. One that breaks off is swept when it gave no sign of life for some time.
type arrival struct {
	id    int64
	count int64 // the rows that it changes or deletes
}

// abandonedAfter is how long an import without a sign of life is left alone.
const abandonedAfter = time.Minute

// landed is the import whose rows are in force before they are moved; NULL for none.
const landed = "(SELECT id FROM imports WHERE version > 0)"

// errUnsettled says that another import has landed, and is not moved yet.
var errUnsettled = errors.New("the import before has not settled")

// arrive writes what is staged, in parts that nobody sees.
func (s *staged) arrive(ctx context.Context) (a *arrival, err error) {
	a = &arrival{}
	// What changes something now counts, although others may still change that before this lands. All rows arrive if one of them does.
	if err := s.settle(ctx); err != nil {
		return a, err
	}
	one := func(into ...any) func(*sql.Rows) error {
		return func(rows *sql.Rows) error { return rows.Scan(into...) }
	}
	if err := s.each(ctx, one(&a.count), "SELECT count(*) FROM staged s LEFT JOIN overrides o "+
		"ON o.rule = s.rule AND o.stored_key = s.stored_key WHERE CASE WHEN deleted = 1 THEN o.rule IS NOT NULL "+
		"ELSE o.rule IS NULL OR "+differing("o", "s")+" END"); err != nil || a.count == 0 {
		return a, err
	}
	now, id := s.store.dialect.NowMicros, int64(0)
	if err := s.store.part(ctx, s.session, func() error {
		return s.each(ctx, one(&id), "INSERT INTO imports (at_us, version) VALUES ("+now+", 0) RETURNING id")
	}); err != nil {
		return a, err
	}
	a.id = id // and not before it is committed, or it might be that of another
	ruleID, stored := "", []byte{0}
	for more := true; more; {
		err := s.store.part(ctx, s.session, func() error {
			if n, err := s.exec(ctx, "UPDATE imports SET at_us = "+now+" WHERE id = $1", a.id); err != nil || n == 0 {
				return orSwept(err)
			}
			n, err := s.exec(ctx, fmt.Sprintf("INSERT INTO arriving (import, "+overrideColumns+", deleted) SELECT $1, "+overrideColumns+
				", deleted FROM staged WHERE (rule, stored_key) > ($2, $3) ORDER BY rule, stored_key LIMIT %d", s.store.dialect.Part),
				a.id, ruleID, stored)
			more = n > 0
			return err
		})
		if err != nil {
			return a, err
		}
		if err := s.each(ctx, one(&ruleID, &stored), "SELECT rule, stored_key FROM arriving WHERE import = $1 "+
			"ORDER BY rule DESC, stored_key DESC LIMIT 1", a.id); err != nil {
			return a, err
		}
	}
	return a, nil
}

func orSwept(err error) error {
	if err != nil {
		return err
	}
	return busy(errors.New("the import took too long, and was swept"))
}

// land gives the import its version, in the transaction that writes the head.
func (a *arrival) land(ctx context.Context, w *write) error {
	if a.count == 0 {
		return nil
	}
	n, err := w.exec(ctx, "UPDATE imports SET version = $1 WHERE id = $2 AND version = 0", w.version, a.id)
	if err != nil || n == 0 {
		return orSwept(err)
	}
	return nil
}

// writeInParts writes a change with many overrides. Those that come with rules are written with them: nothing makes such a change
// of so many that others would notice.
func (s *Store) writeInParts(ctx context.Context, w *write) (err error) {
	if !w.rules() {
		w.arrival, err = w.overrides.arrive(ctx)
		defer func() {
			if err != nil || w.arrival.count == 0 {
				w.overrides.abandon(ctx, w.arrival.id)
			}
		}()
		if err != nil {
			return err
		}
	}
	for {
		if err := w.overrides.settle(ctx); err != nil {
			return err
		}
		waiting, cancel := context.WithTimeout(ctx, s.config.Wait)
		err := s.write(ctx, waiting, w)
		cancel()
		if errors.Is(err, errUnsettled) { // another process was faster
			continue
		}
		nudge(s.arrived)
		return err
	}
}

// abandon has the next sweep take an import away, unless it has landed. What fails here is found by its age.
func (c *session) abandon(ctx context.Context, id int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	_ = c.within(ctx, func() error { return c.begin(ctx, c.store.dialect.BeginWrite) }, func() error {
		_, err := c.exec(ctx, "UPDATE imports SET at_us = 0 WHERE id = $1 AND version = 0", id)
		return err
	})
}

// part runs a short piece of long work in a transaction, and leaves others as long a time for theirs afterwards.
func (s *Store) part(ctx context.Context, c *session, work func() error) error {
	waiting, cancel := context.WithTimeout(ctx, s.config.Wait)
	defer cancel()
	release, err := take(waiting, s.turn)
	if err != nil {
		return err
	}
	var began time.Time
	err = c.within(ctx, func() error { return c.begin(waiting, s.dialect.BeginWrite) }, func() error {
		began = time.Now()
		return work()
	})
	release()
	if err != nil {
		return err
	}
	timer := time.NewTimer(time.Since(began))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// unsettled says whether an import has landed and is not moved yet.
func (c *session) unsettled(ctx context.Context) (yes bool, err error) {
	err = c.each(ctx, func(rows *sql.Rows) error { return rows.Scan(&yes) }, "SELECT count(*) > 0 FROM imports WHERE version > 0")
	return yes, err
}

// settle moves what has landed to the other overrides, and sweeps what was abandoned.
func (c *session) settle(ctx context.Context) error {
	for {
		id, version, err := c.unfinished(ctx)
		if err != nil || id == 0 {
			return err
		}
		if err := c.store.part(ctx, c, func() error { return c.settlePart(ctx, id, version) }); err != nil {
			return err
		}
	}
}

// unfinished is an import that somebody must see to, and its version; 0 for none.
func (c *session) unfinished(ctx context.Context) (id, version int64, err error) {
	now := c.store.dialect.NowMicros
	err = c.each(ctx, func(rows *sql.Rows) error { return rows.Scan(&id, &version) },
		"SELECT id, version FROM imports WHERE version > 0 OR at_us NOT BETWEEN "+now+" - $1 AND "+now+" + $1 "+
			"ORDER BY version DESC LIMIT 1", abandonedAfter.Microseconds())
	return id, version, err
}

// settlePart takes away the first rows of an import, which are moved when it has a version.
func (c *session) settlePart(ctx context.Context, id, version int64) error {
	part := "(SELECT " + overrideColumns + ", deleted FROM arriving WHERE import = $1 ORDER BY rule, stored_key LIMIT " +
		strconv.Itoa(c.store.dialect.Part) + ")"
	if version > 0 {
		if _, err := c.exec(ctx,
			"DELETE FROM overrides WHERE (rule, stored_key) IN (SELECT rule, stored_key FROM "+part+" WHERE deleted = 1)", id); err != nil {
			return err
		}
		if _, err := c.exec(ctx, "INSERT INTO overrides ("+overrideColumns+", version) SELECT "+overrideColumns+", $2 FROM "+part+
			" WHERE deleted = 0"+onOverride+", version = excluded.version", id, version); err != nil {
			return err
		}
	}
	n, err := c.exec(ctx,
		"DELETE FROM arriving WHERE import = $1 AND (rule, stored_key) IN (SELECT rule, stored_key FROM "+part+")", id)
	if err != nil || n > 0 {
		return err
	}
	_, err = c.exec(ctx, "DELETE FROM imports WHERE id = $1", id)
	return err
}

// settleAlways settles whatever landed here, and looks for what others left behind now and then, until ctx ends.
func (s *Store) settleAlways(ctx context.Context) {
	ticker := time.NewTicker(abandonedAfter)
	defer ticker.Stop()
	for {
		if c, err := s.open(ctx); err == nil {
			_ = c.settle(ctx) // or the next time
			c.close()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-s.arrived:
		}
	}
}
