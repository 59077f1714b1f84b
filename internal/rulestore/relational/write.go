package relational

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
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
	if overrides.total > 0 {
		release, err := take(waiting, s.overridesTurn)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	w := &write{change: change, overrides: overrides}
	w.ahead = overrides.table && s.dialect.LockOverrides != "" && !w.rules()
	if !w.ahead { // or else the database is long at it before there is a turn to take
		release, err := take(waiting, s.turn)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if err := overrides.connect(ctx); err != nil {
		return nil, err
	}
	w.session = overrides.session
	err := w.within(ctx, func() error { return w.begin(waiting, s.dialect.BeginWrite) }, func() error { return w.run(ctx, waiting) })
	if err != nil {
		return nil, err
	}
	s.wake()
	return &w.record, nil
}

// write is a change on its way into the tables.
type write struct {
	*session

	change    *rulestore.Change
	overrides *staged
	// ahead says that the overrides are written before the row of head is locked, under a version that was reserved.
	ahead   bool
	head    headRow
	version uint64
	record  rulestore.Record
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

// writeRules checks that what comes of the change is a rule document, and writes what differs.
func (w *write) writeRules(ctx context.Context) error {
	rules, settings, err := w.rows(ctx)
	if err != nil {
		return err
	}
	before := rulestore.Assemble(w.head.head(), rules, settings)
	if err := w.conditions(before); err != nil {
		return err
	}
	next, changed, err := w.next(before)
	if err != nil {
		return err
	}
	canonical, err := rulestore.Canonical(next)
	if err != nil {
		return err
	}
	for _, row := range canonical {
		if !changed[row.Name] {
			continue
		}
		if err := w.put(ctx, "rules", "id", rulestore.Row{Name: row.Name, Document: row.Document}); err != nil {
			return err
		}
		w.differ(rulestore.RulePlace(row.Name), documentOf(rules, row.Name), row.Document)
	}
	for _, one := range w.change.Rules {
		if one.Rule != nil {
			continue
		}
		if _, err := w.exec(ctx, "DELETE FROM rules WHERE id = $1", one.ID); err != nil {
			return err
		}
		w.differ(rulestore.RulePlace(one.ID), documentOf(rules, one.ID), nil)
	}
	for _, one := range w.change.Settings {
		if one.Value == nil {
			_, err = w.exec(ctx, "DELETE FROM settings WHERE name = $1", one.Name)
		} else {
			err = w.put(ctx, "settings", "name", rulestore.Row{Name: one.Name, Document: one.Value})
		}
		if err != nil {
			return err
		}
		w.differ(rulestore.SettingPlace(one.Name), documentOf(settings, one.Name), one.Value)
	}
	return nil
}

// conditions says which condition of the change does not hold. What is to be deleted must be there.
func (w *write) conditions(before *rulestore.State) error {
	check := func(place, name string, deletes bool, condition rulestore.Condition) error {
		have, there := before.Written[name]
		if deletes && !there {
			return &rulestore.Error{Code: rulestore.Conflict, Place: place, Message: "there is none to delete", Fix: "look at the list"}
		}
		return holds(condition, have, place)
	}
	for _, one := range w.change.Rules {
		if err := check(rulestore.RulePlace(one.ID), one.ID, one.Rule == nil, one.If); err != nil {
			return err
		}
	}
	for _, one := range w.change.Settings {
		place := rulestore.SettingPlace(one.Name)
		if err := check(place, place, one.Value == nil, one.If); err != nil {
			return err
		}
	}
	return nil
}

// holds says whether the version have is what a condition takes for granted.
func holds(condition rulestore.Condition, have uint64, place string) error {
	var message string
	switch {
	case condition == rulestore.Whatever, condition == rulestore.Absent && have == 0, uint64(condition) == have && have != 0:
		return nil
	case condition == rulestore.Absent:
		message = fmt.Sprintf("is there already, since version %d", have)
	case have == 0:
		message = fmt.Sprintf("is not there, and the change is to version %d", condition)
	default:
		message = fmt.Sprintf("is at version %d, and the change is to version %d", have, condition)
	}
	return &rulestore.Error{Code: rulestore.Conflict, Place: place, Message: message, Fix: "read it again, and change what is there now"}
}

// next is the set that comes of the change, numbered, and which of its rules the change names. Bad rows count only when they
// are named: they do not keep the others from being changed.
func (w *write) next(before *rulestore.State) (*rule.Set, map[string]bool, error) {
	rules, err := rulestore.Canonical(before.Set)
	if err != nil {
		return nil, nil, err
	}
	changed := make(map[string]bool, len(w.change.Rules))
	named := make(map[string]bool, len(w.change.Rules))
	put := make([]*rule.Rule, 0, len(w.change.Rules))
	for _, one := range w.change.Rules {
		named[one.ID] = true
		if one.Rule != nil {
			put, changed[one.ID] = append(put, one.Rule), true
		}
	}
	rules = slices.DeleteFunc(rules, func(row rulestore.Row) bool { return named[row.Name] })
	more, err := rulestore.Canonical(&rule.Set{Rules: put})
	if err != nil {
		return nil, nil, err
	}
	settings := before.Settings
	for _, one := range w.change.Settings {
		if one.Value == nil {
			delete(settings, one.Name)
		} else {
			settings[one.Name] = one.Value
		}
	}
	set, err := rule.Parse("rules", rulestore.Document(w.version, append(rules, more...), settings))
	if err != nil {
		return nil, nil, &rulestore.Error{Code: rulestore.Invalid, Message: "what comes of the change is no rule document", Err: err}
	}
	return set.Next(before.Set, w.version), changed, nil
}

// put writes a row of a table whose key is in the column name.
func (w *write) put(ctx context.Context, table, name string, row rulestore.Row) error {
	_, err := w.exec(ctx, "INSERT INTO "+table+" ("+name+", version, document) VALUES ($1, $2, $3) "+
		"ON CONFLICT ("+name+") DO UPDATE SET version = excluded.version, document = excluded.document",
		row.Name, w.version, string(row.Document))
	return err
}

func (w *write) differ(place string, before, after json.RawMessage) {
	w.record.Differences = append(w.record.Differences, rulestore.Difference{Place: place, Before: before, After: after})
}

// documentOf is the document of a row, as JSON whatever somebody put there; nil for none.
func documentOf(rows []rulestore.Row, name string) json.RawMessage {
	for _, row := range rows {
		switch {
		case row.Name != name:
		case json.Valid(row.Document):
			return row.Document
		default:
			text, err := json.Marshal(string(row.Document))
			if err != nil {
				return nil // a string always encodes
			}
			return text
		}
	}
	return nil
}

// nullable is a document as a parameter.
func nullable(document json.RawMessage) any {
	if document == nil {
		return nil
	}
	return string(document)
}
