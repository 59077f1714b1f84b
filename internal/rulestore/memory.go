package rulestore

import (
	"bytes"
	"encoding/json"
	"sync/atomic"

	"github.com/leaseway/leaseway/rule"
)

// Memory reads rows, and remembers what the last ones said: of thousands of rules few change at a time, and to read them all is
// nearly all the work that a change makes. The zero Memory knows none. It is safe for concurrent use.
type Memory struct {
	last atomic.Pointer[map[string]remembered] // by name; never changed
}

// remembered is a rule, and the document that it was read from.
type remembered struct {
	document []byte
	rule     *rule.Rule
}

// mostShared bounds the documents of a set of which some are not read again, in bytes: how large one may be is only known of one
// that is read as a whole.
const mostShared = rule.MaxDocument / 8

// Parse reads the rule document that rows make with the settings; its rules are ordered as the rows are, by name. What is wrong it
// says by the place in a document of the rows that it read.
func (m *Memory) Parse(version uint64, rows []Row, settings map[string]json.RawMessage) (*rule.Set, error) {
	size := 0
	for _, row := range rows {
		size += len(row.Document)
	}
	fresh := rows
	var known []*rule.Rule
	if last := m.last.Load(); last != nil && size <= mostShared {
		fresh = nil
		for _, row := range rows {
			if r := m.rule(row); r != nil {
				known = append(known, r)
			} else {
				fresh = append(fresh, row)
			}
		}
	}
	set, err := rule.Extend("rules", Document(version, fresh, settings), known)
	if err == nil && len(fresh) > 0 && namesAgree(set, rows) {
		m.remember(set, rows)
	}
	return set, err
}

// rule is the one that was read from such a row; nil for none.
func (m *Memory) rule(row Row) *rule.Rule {
	last := m.last.Load()
	if last == nil {
		return nil
	}
	if r, ok := (*last)[row.Name]; ok && bytes.Equal(r.document, row.Document) {
		return r.rule
	}
	return nil
}

// remember keeps the rules of a set that was read from rows, but for those of rows that may have said something else among others.
func (m *Memory) remember(set *rule.Set, rows []Row) {
	next := make(map[string]remembered, len(rows))
	for i, row := range rows {
		if m.rule(row) != nil || json.Valid(row.Document) {
			next[row.Name] = remembered{row.Document, set.Rules[i]}
		}
	}
	m.last.Store(&next)
}
