package rulestore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leaseway/leaseway/rule"
)

// State is all rules and settings, of one version.
type State struct {
	Head

	// Set is the rules, ordered by id, with the settings that are parts of the rule document; it is never nil. Its version is
	// Head.Rules.
	Set *rule.Set
	// Settings are all of them, by name, but for bad ones; nil says that they are not known.
	Settings map[string]json.RawMessage
	// Written is the version that last wrote a rule, by id, or a setting, by SettingPlace; bad ones too.
	Written map[string]uint64
	// Bad are the rows that were left out, ordered by place.
	Bad []BadRow
}

// BadRow is a row that somebody put in by hand, and that is no rule or setting.
type BadRow struct {
	// Place is RulePlace or SettingPlace.
	Place string
	// Err says what is wrong with it; a rule.Errors where the document is wrong.
	Err error
}

// Row is a rule or a setting as it is stored.
type Row struct {
	Name     string
	Version  uint64
	Document []byte
}

// DocumentSettings are the settings that are parts of the rule document.
func DocumentSettings() []string {
	return []string{"identity", "headers", "classes", "shedders", "switches"}
}

// Assemble makes a state of rows, ordered by name, and leaves out bad ones.
func (m *Memory) Assemble(head Head, rules, settings []Row) *State {
	s := &State{
		Head: head, Settings: make(map[string]json.RawMessage, len(settings)), Written: make(map[string]uint64, len(rules)+len(settings)),
	}
	rules, settings = slices.Clone(rules), slices.Clone(settings)
	settings = slices.DeleteFunc(settings, func(row Row) bool {
		s.Written[SettingPlace(row.Name)] = row.Version
		return s.reject(SettingPlace(row.Name), checkSetting(row))
	})
	for _, row := range settings {
		s.Settings[row.Name] = row.Document
	}
	for _, row := range rules {
		s.Written[row.Name] = row.Version
	}
	// Nearly always all are good, and one reading does.
	set, err := m.Parse(head.Rules, rules, s.Settings)
	if err != nil || !namesAgree(set, rules) {
		rules = slices.DeleteFunc(rules, func(row Row) bool { return s.reject(RulePlace(row.Name), m.checkRule(row)) })
		set, err = m.Parse(head.Rules, rules, s.Settings)
	}
	// Each is good by itself, and together they are not. Switches stay as far as they can: one that was thrown must not be undone
	// because another one speaks of a rule that is not there.
	if value, pruned := pruneSwitches(s.Settings["switches"], rules); err != nil && pruned {
		s.reject(SettingPlace("switches"), fmt.Errorf("does not fit the rules: %w", err))
		s.Settings["switches"] = value
		set, err = m.Parse(head.Rules, rules, s.Settings)
	}
	for _, name := range slices.Backward(DocumentSettings()) {
		if _, ok := s.Settings[name]; ok && err != nil {
			s.reject(SettingPlace(name), fmt.Errorf("does not fit the rest: %w", err))
			delete(s.Settings, name)
			set, err = m.Parse(head.Rules, rules, s.Settings)
		}
	}
	if err != nil {
		s.reject("rules", err)
		set = &rule.Set{Version: head.Rules}
		set = set.Next(nil, head.Rules)
	}
	s.Set = set
	slices.SortFunc(s.Bad, func(a, b BadRow) int { return strings.Compare(a.Place, b.Place) })
	return s
}

// reject notes a bad row, and says whether it is one.
func (s *State) reject(place string, err error) bool {
	if err != nil {
		s.Bad = append(s.Bad, BadRow{Place: place, Err: err})
	}
	return err != nil
}

// namesAgree says whether each document is of the rule by whose id the row goes.
func namesAgree(set *rule.Set, rows []Row) bool {
	return slices.EqualFunc(set.Rules, rows, func(r *rule.Rule, row Row) bool { return r.ID == row.Name })
}

// pruneSwitches is switches without those of rules that are not there, and whether there were any.
func pruneSwitches(value json.RawMessage, rules []Row) (json.RawMessage, bool) {
	var switches map[string]json.RawMessage
	var ofRules map[string]json.RawMessage
	if json.Unmarshal(value, &switches) != nil || json.Unmarshal(switches["rules"], &ofRules) != nil {
		return value, false
	}
	before := len(ofRules)
	maps.DeleteFunc(ofRules, func(id string, _ json.RawMessage) bool {
		return !slices.ContainsFunc(rules, func(row Row) bool { return row.Name == id })
	})
	var err1, err2 error
	switches["rules"], err1 = json.Marshal(ofRules)
	value, err2 = json.Marshal(switches)
	return value, len(ofRules) < before && err1 == nil && err2 == nil
}

func (m *Memory) checkRule(row Row) error {
	if m.rule(row) != nil {
		return nil
	}
	if !json.Valid(row.Document) { // or else what is joined to it would change its meaning
		return errors.New("the document is no JSON")
	}
	set, err := rule.Parse(RulePlace(row.Name), Document(0, []Row{row}, nil))
	switch {
	case err != nil:
		return err
	case !namesAgree(set, []Row{row}):
		return fmt.Errorf("the document is not of a rule with this id: %.200s", row.Document)
	}
	return nil
}

func checkSetting(row Row) error {
	if !json.Valid(row.Document) {
		return errors.New("the value is no JSON")
	}
	if !slices.Contains(DocumentSettings(), row.Name) || row.Name == "switches" { // which name rules: judged beside them
		return nil
	}
	_, err := rule.Parse(SettingPlace(row.Name), Document(0, nil, map[string]json.RawMessage{row.Name: row.Document}))
	return err
}

// Document joins rows to a rule document; settings that are not of it are left out.
func Document(version uint64, rules []Row, settings map[string]json.RawMessage) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	if version != 0 {
		fmt.Fprintf(&b, "%q:%d,\n", "version", version)
	}
	for _, name := range DocumentSettings() {
		if value, ok := settings[name]; ok {
			fmt.Fprintf(&b, "%q:%s,\n", name, value)
		}
	}
	b.WriteString(`"rules":[`)
	for i, row := range rules {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		b.Write(row.Document)
	}
	b.WriteString("]}")
	return b.Bytes()
}

// Canonical is the document of each rule of a set, as rule.Set.Marshal gives it, in the order of the set.
func Canonical(set *rule.Set) ([]Row, error) {
	only := rule.Set{Rules: set.Rules, Headers: rule.HeadersBoth}
	var doc struct {
		Rules []json.RawMessage `json:"rules"`
	}
	if err := json.Unmarshal(only.Marshal(), &doc); err != nil || len(doc.Rules) != len(set.Rules) {
		return nil, fmt.Errorf("the rules could not be written as JSON: %w", err)
	}
	rows := make([]Row, len(doc.Rules))
	for i, r := range set.Rules {
		rows[i] = Row{Name: r.ID, Version: r.Version, Document: doc.Rules[i]}
	}
	return rows, nil
}
