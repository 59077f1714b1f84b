package relational

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// writeRules checks that what comes of the change is a rule document, and writes what differs.
func (w *write) writeRules(ctx context.Context) error {
	rules, settings, err := w.rows(ctx)
	if err != nil {
		return err
	}
	before := w.store.memory.Assemble(w.head.head(), rules, settings)
	if err := w.conditions(before); err != nil {
		return err
	}
	changed, err := w.next(before, rules)
	if err != nil {
		return err
	}
	for _, row := range changed {
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

// next checks the set that comes of the change, and returns the rows of the rules that it puts there, numbered. Bad rows count only
// when they are named: they do not keep the others from being changed.
func (w *write) next(before *rulestore.State, rows []rulestore.Row) ([]rulestore.Row, error) {
	named := make(map[string]bool, len(w.change.Rules))
	put := make([]*rule.Rule, 0, len(w.change.Rules))
	for _, one := range w.change.Rules {
		named[one.ID] = true
		if one.Rule != nil {
			put = append(put, one.Rule)
		}
	}
	more, err := rulestore.Canonical(&rule.Set{Rules: put})
	if err != nil {
		return nil, err
	}
	good := slices.DeleteFunc(slices.Clone(rows), func(row rulestore.Row) bool {
		return named[row.Name] || before.Set.Rule(row.Name) == nil
	})
	all := slices.SortedFunc(slices.Values(append(good, more...)), func(a, b rulestore.Row) int { return strings.Compare(a.Name, b.Name) })
	settings := before.Settings
	for _, one := range w.change.Settings {
		if one.Value == nil {
			delete(settings, one.Name)
		} else {
			settings[one.Name] = one.Value
		}
	}
	set, err := w.store.memory.Parse(w.version, all, settings)
	if err != nil {
		return nil, &rulestore.Error{Code: rulestore.Invalid, Message: "what comes of the change is no rule document", Err: err}
	}
	set = set.Next(before.Set, w.version)
	for i, r := range put {
		put[i] = set.Rule(r.ID)
	}
	return rulestore.Canonical(&rule.Set{Rules: put})
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
