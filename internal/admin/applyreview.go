package admin

import (
	"context"
	"maps"
	"slices"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// The bounds of what is looked at for warnings about a document: whoever changes thousands of rules reads no thousand warnings.
const (
	maxReviewed = 500
	maxWarnings = 100
)

// review warns of what the document does not show: what begins anew, and what is used now above a new limit. How the rules of
// the document stand to each other rule.Review has said.
func (a *application) review(ctx context.Context, in Fleet) {
	var (
		changed []*rule.Rule
		ids     []string
	)

	for _, one := range a.change.Rules {
		if one.Rule != nil && a.state.Set.Rule(one.ID) != nil && len(changed) < maxReviewed {
			changed, ids = append(changed, one.Rule), append(ids, one.ID)
		}
	}

	a.renamed()

	if len(changed) == 0 {
		return
	}

	used, err := in.Used(ctx, ids...)
	if err != nil {
		used = nil // a warning less
	}

	for _, r := range changed {
		v := &reviewer{fleet: in, state: a.state, before: a.state.Set.Rule(r.ID), after: r, use: used[r.ID]}
		for _, w := range slices.Concat(v.opened(), v.recounted(), v.tight(ctx)) {
			a.warn(r.ID, w)
		}
	}
}

// warn adds a warning about a rule.
func (a *application) warn(id string, w Warning) {
	place := rulestore.RulePlace(id)
	if w.Field != "" {
		place = "rules." + id + "." + w.Field
	}

	if w.Field = place; len(a.out.Warnings) < maxWarnings {
		a.out.Warnings = append(a.out.Warnings, w)
	}
}

// renamed says that a rule under another id is another rule.
func (a *application) renamed() {
	if !a.in.Prune {
		return // the old one stays beside it
	}

	renamed := a.set.Renamed(a.state.Set)
	for _, id := range slices.Sorted(maps.Keys(renamed)) {
		if !a.who.mayRule(renamed[id]) {
			continue // it stays, and is not for them to see
		}

		a.warn(id, Warning{
			Message: "is the rule " + renamed[id] + " under another id, which makes it another rule: its budgets are whole, and it has " +
				"no overrides",
			Fix: "keep the id, and say in description what the rule is for",
		})
	}
}
