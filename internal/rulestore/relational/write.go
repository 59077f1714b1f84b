package relational

import (
	"cmp"
	"context"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// Write makes one version of the change.
func (s *Store) Write(ctx context.Context, change *rulestore.Change) (*rulestore.Record, error) {
	if err := change.Check(); err != nil {
		return nil, err
	}
	// First everything that a caller sends slowly, then the turn.
	overrides := &staged{store: s}
	defer overrides.close()
	if err := overrides.collect(ctx, change.Overrides); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, s.config.Wait)
	defer cancel()
	if overrides.total > 0 && s.dialect.LockOverrides != "" {
		release, err := take(waiting, s.overridesTurn)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	w := &write{change: change, overrides: overrides}
	var err error
	if overrides.table && s.dialect.Part > 0 {
		err = s.writeInParts(ctx, w)
	} else {
		err = s.write(ctx, waiting, w)
	}
	if err != nil {
		return nil, err
	}
	return &w.record, nil
}

// write is a change on its way into the tables.
type write struct {
	*session

	change    *rulestore.Change
	overrides *staged
	// ahead says that the overrides are written before the row of head is locked, under a version that was reserved.
	ahead bool
	// arrival is what has come of them already, where they are many and come in parts; nil otherwise.
	arrival *arrival
	head    headRow
	version uint64
	record  rulestore.Record
}

// write makes the change in one transaction; waiting bounds how long it waits for other writers.
func (s *Store) write(ctx, waiting context.Context, w *write) error {
	w.ahead = w.overrides.table && s.dialect.LockOverrides != "" && !w.rules()
	if !w.ahead { // or else the database is long at it before there is a turn to take
		release, err := take(waiting, s.turn)
		if err != nil {
			return err
		}
		defer release()
	}
	if err := w.overrides.connect(ctx); err != nil {
		return err
	}
	w.session = w.overrides.session
	err := w.within(ctx, func() error { return w.begin(waiting, s.dialect.BeginWrite) }, func() error { return w.run(ctx, waiting) })
	if err == nil {
		s.wake()
	}
	return err
}

// rules says whether the change is of rules or settings.
func (w *write) rules() bool { return len(w.change.Rules)+len(w.change.Settings) > 0 }

// run does it all, within a transaction; waiting bounds how long it waits for other writers.
func (w *write) run(ctx, waiting context.Context) (err error) {
	if lock := w.store.dialect.LockOverrides; lock != "" && w.overrides.total > 0 {
		if _, err := w.exec(waiting, lock); err != nil {
			return asBusy(err)
		}
	}
	if w.ahead {
		if w.version, err = w.store.reserve(waiting); err != nil {
			return err
		}
		if err := w.writeOverrides(ctx); err != nil {
			return err
		}
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, w.store.config.Wait) // that was work, and the waiting begins now
		defer cancel()
	}
	if w.head, err = w.session.head(waiting, w.store.dialect.LockHead); err != nil {
		return asBusy(err)
	}
	if w.overrides.table && w.store.dialect.Part > 0 {
		if wait, err := w.unsettled(ctx); wait || err != nil {
			return cmp.Or(err, errUnsettled)
		}
	}
	return w.underHead(ctx)
}

// reserve takes the next version in a transaction of its own. Nobody else gets it, also when no change comes of it. The lock of
// overrides is held meanwhile, so that their versions follow each other.
func (s *Store) reserve(ctx context.Context) (version uint64, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return 0, asBusy(err)
	}
	defer c.close()
	err = c.within(ctx, func() error { return c.begin(ctx, s.dialect.BeginWrite) }, func() error {
		h, err := c.head(ctx, s.dialect.LockHead)
		if err != nil {
			return asBusy(err)
		}
		version = h.last + 1
		_, err = c.exec(ctx, "UPDATE head SET last = $1 WHERE one = 1", version)
		return err
	})
	return version, err
}

// underHead does what is done while the row of head is locked.
func (w *write) underHead(ctx context.Context) error {
	if err := holds(w.change.If, w.head.rules, "the rules"); err != nil {
		return err
	}
	if !w.ahead {
		w.version = w.head.last + 1
	}
	if w.rules() {
		if err := w.writeRules(ctx); err != nil {
			return err
		}
		w.head.rules = w.version
	}
	if !w.ahead {
		if err := w.writeOverrides(ctx); err != nil {
			return err
		}
	}
	if w.record.Overrides > 0 {
		w.head.overrides = w.version
	}
	if w.rules() || w.record.Overrides > 0 {
		w.record.Version, w.head.last = w.version, max(w.version, w.head.last)
	}
	w.head.records++
	return w.finish(ctx)
}

// writeOverrides applies them, and notes in the record what that changed.
func (w *write) writeOverrides(ctx context.Context) error {
	if w.arrival != nil {
		w.record.Overrides = w.arrival.count
		return w.arrival.land(ctx, w)
	}
	n, differences, err := w.overrides.apply(ctx, w.version)
	w.record.Overrides, w.record.Differences = n, append(w.record.Differences, differences...)
	return err
}

// finish writes the record and the head, and has the notice sent.
func (w *write) finish(ctx context.Context) error {
	r, change := &w.record, w.change
	r.Seq, r.At = w.head.records, w.store.config.Now().UTC().Truncate(1000) // microseconds
	r.Author, r.Reason, r.Action, r.Target = change.Author, change.Reason, change.Action, change.Target
	if _, err := w.exec(ctx, "INSERT INTO audit (seq, version, at_us, author, reason, action, target, overrides) "+
		"VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
		r.Seq, r.Version, r.At.UnixMicro(), r.Author, r.Reason, r.Action, r.Target, r.Overrides); err != nil {
		return err
	}
	for _, d := range r.Differences {
		if _, err := w.exec(ctx, "INSERT INTO versions (version, place, before, after) VALUES ($1, $2, $3, $4)",
			r.Version, d.Place, nullable(d.Before), nullable(d.After)); err != nil {
			return err
		}
	}
	if _, err := w.exec(ctx, "UPDATE head SET last = $1, records = $2, rules = $3, overrides = $4 WHERE one = 1",
		w.head.last, w.head.records, w.head.rules, w.head.overrides); err != nil {
		return err
	}
	if w.store.dialect.Notify == "" || r.Version == 0 {
		return nil
	}
	_, err := w.exec(ctx, w.store.dialect.Notify)
	return err
}
