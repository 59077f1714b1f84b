package rulefeed

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// memory is what a Feed knows of good rows, for when they turn bad.
type memory struct {
	settings map[string]json.RawMessage
}

// mend returns the rules of a state, where what is bad is as it was when it was last good. present is in force; nil for
// nothing. What would not fit the rest stays out.
func (m *memory) mend(state *rulestore.State, present *rule.Set) *rule.Set {
	settings := make(map[string]json.RawMessage, len(state.Settings))
	maps.Copy(settings, state.Settings)
	var lost []*rule.Rule
	for _, bad := range state.Bad {
		kind, name, _ := strings.Cut(bad.Place, " ")
		switch {
		case kind == "settings" && m.settings[name] != nil && settings[name] == nil:
			settings[name] = m.settings[name]
		case kind == "rules" && present != nil && name != "" && state.Set.Rule(name) == nil:
			if r := present.Rule(name); r != nil {
				unnumbered := *r
				unnumbered.Version = 0
				lost = append(lost, &unnumbered)
			}
		}
	}
	m.settings = settings
	if len(state.Bad) == 0 {
		return state.Set
	}
	rows, err := rulestore.Canonical(&rule.Set{Rules: slices.Concat(state.Set.Rules, lost)})
	if err != nil {
		return state.Set
	}
	slices.SortFunc(rows, func(a, b rulestore.Row) int { return strings.Compare(a.Name, b.Name) })
	mended, err := rule.Parse("rules", rulestore.Document(state.Rules, rows, settings))
	if err != nil {
		return state.Set
	}
	return mended.Next(state.Set, state.Rules)
}
