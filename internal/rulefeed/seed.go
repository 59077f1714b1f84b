package rulefeed

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// seed writes Config.Seed into a store that nobody has written to, and reports whether it tried.
func (f *Feed) seed(ctx context.Context, state *rulestore.State) (tried bool, err error) {
	if f.config.Seed == nil || len(state.Set.Rules) != 0 {
		return false, nil
	}
	if fresh, err := f.fresh(ctx, state); !fresh || err != nil {
		return false, err
	}
	change := &rulestore.Change{Author: Author, Action: "rules.seed", Reason: "first start", If: rulestore.Absent}
	if state.Rules != 0 {
		change.If = rulestore.Condition(state.Rules)
	}
	for _, r := range f.config.Seed.Rules {
		change.Rules = append(change.Rules, rulestore.RuleChange{ID: r.ID, Rule: r})
	}
	if change.Settings, err = SettingsOf(f.config.Seed); err != nil {
		return true, err
	}
	_, err = f.config.Store.Write(ctx, change)
	if rulestore.CodeOf(err) == rulestore.Conflict {
		return true, nil // another coordinator was faster
	}
	return true, err
}

// fresh reports whether nobody wrote a rule or a part beside the rules yet. Tokens are made before there are rules, and a first
// start without a seed numbers them; neither is meant to leave a fleet without limits.
func (f *Feed) fresh(ctx context.Context, state *rulestore.State) (bool, error) {
	if state.Rules == 0 {
		return len(state.Written) == 0, nil
	}
	records, err := f.config.Store.History(ctx, rulestore.Page{Versions: true, Limit: rulestore.MaxPage})
	if err != nil || len(records) == rulestore.MaxPage {
		return false, err
	}
	return !slices.ContainsFunc(records, func(r rulestore.Record) bool {
		return !strings.HasPrefix(r.Action, "tokens.") && r.Action != renumbering
	}), nil
}

// SettingsOf is the parts of a rule document beside its rules, as changes that set them.
func SettingsOf(set *rule.Set) ([]rulestore.SettingChange, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(set.Marshal(), &parts); err != nil {
		return nil, err
	}
	var changes []rulestore.SettingChange
	for _, name := range rulestore.DocumentSettings() {
		if value, ok := parts[name]; ok {
			changes = append(changes, rulestore.SettingChange{Name: name, Value: value})
		}
	}
	return changes, nil
}
