package rulefeed

import (
	"context"
	"encoding/json"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// seed writes Config.Seed into a store that nobody has written to, and reports whether it tried.
func (f *Feed) seed(ctx context.Context, state *rulestore.State) (tried bool, err error) {
	if f.config.Seed == nil || state.Rules != 0 || len(state.Written) != 0 {
		return false, nil
	}
	change := &rulestore.Change{Author: Author, Action: "rules.seed", Reason: "first start", If: rulestore.Absent}
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
