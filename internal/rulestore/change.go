package rulestore

import (
	"encoding/json"
	"iter"

	"github.com/leaseway/leaseway/rule"
)

// The bounds of a change. They keep a hostile or broken one from filling the store.
const (
	// MaxText is the longest author, action, target, reason or note, in bytes.
	MaxText = 1000
	// MaxItems is how many rules, settings and, without a stream, overrides one change may name.
	MaxItems = rule.MaxRules
	// MaxSetting is the size of a setting's value, in bytes.
	MaxSetting = 1 << 20
	// MaxStream is how many overrides one change may stream.
	MaxStream = 10_000_000
)

// Condition is what a change takes for granted about one thing: the version that last wrote it, or one of the two below.
type Condition uint64

const (
	// Whatever is no condition.
	Whatever Condition = 0
	// Absent says that there is none yet.
	Absent Condition = 1<<64 - 1
)

// Change is what one version is to be. One that names no rule, setting or override makes a record without a version.
type Change struct {
	// Author is who makes the change; it is required. Reason is why.
	Author, Reason string
	// Action is a word for what is done, such as "rules.put", and Target what it is done to; the action is required.
	Action, Target string
	// If holds about State.Set.Version, when not Whatever; Absent holds before the first change of a rule or setting.
	If Condition

	Rules    []RuleChange
	Settings []SettingChange
	// Overrides are applied in order, the last one of a key wins. An error that it yields ends the change, which is then not
	// made. It may be long: no other writer waits for it.
	Overrides iter.Seq2[OverrideChange, error]
}

// RuleChange puts a rule in the place of the one with that id, or takes it away.
type RuleChange struct {
	ID string
	// Rule is nil to delete. Its version is not looked at. Overrides of a deleted rule stay, for whoever puts it back.
	Rule *rule.Rule
	// If holds about State.Written[ID], when not Whatever.
	If Condition
}

// SettingChange sets a setting, or takes it away.
type SettingChange struct {
	// Name is that of a part of the rule document other than rules, or any other.
	Name string
	// Value is JSON; nil deletes.
	Value json.RawMessage
	// If holds about State.Written["settings "+Name], when not Whatever.
	If Condition
}

// OverrideChange sets an override, or takes it away.
type OverrideChange struct {
	Override

	// Delete takes away the override of Rule and Key, or Hash; nothing else of it is looked at. There need not be one.
	Delete bool
}

// Check finds what no store would take, and can be known without asking it. The error is an *Error.
func (c *Change) Check() error {
	for _, text := range []struct {
		name, text string
		required   bool
	}{{"author", c.Author, true}, {"action", c.Action, true}, {"target", c.Target, false}, {"reason", c.Reason, false}} {
		if err := checkText(text.name, text.text, text.required); err != nil {
			return err
		}
	}
	if n := len(c.Rules) + len(c.Settings); n > MaxItems {
		return invalid("", "make several changes", "the change names %d rules and settings, which is more than %d", n, MaxItems)
	}
	seen := make(map[string]bool, len(c.Rules)+len(c.Settings))
	for _, one := range c.Rules {
		place := RulePlace(one.ID)
		switch {
		case one.ID == "":
			return invalid("rules", "name the rule", "a change has no id")
		case one.Rule != nil && one.Rule.ID != one.ID:
			return invalid(place, "write the same id", "the document is of the rule %q", one.Rule.ID)
		case seen[place]:
			return invalid(place, "keep one of them", "the change names it twice")
		}
		seen[place] = true
	}
	for _, one := range c.Settings {
		place := SettingPlace(one.Name)
		if err := checkText("settings", one.Name, true); err != nil {
			return err
		}
		switch {
		case len(one.Value) > MaxSetting:
			return invalid(place, "write less", "the value has %d bytes, which is more than %d", len(one.Value), MaxSetting)
		case one.Value != nil && !json.Valid(one.Value):
			return invalid(place, "write JSON", "the value is no JSON")
		case seen[place]:
			return invalid(place, "keep one of them", "the change names it twice")
		}
		seen[place] = true
	}
	return nil
}

// RulePlace names a rule in errors and in records.
func RulePlace(id string) string { return "rules " + id }

// SettingPlace names a setting in errors, in records and in State.Written.
func SettingPlace(name string) string { return "settings " + name }
