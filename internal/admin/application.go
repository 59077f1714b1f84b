package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// application is a document on its way into the store.
type application struct {
	state  *rulestore.State
	set    *rule.Set // as it was sent
	in     *applyInput
	who    *principal
	change rulestore.Change
	out    Applied
	// enforced are the rules that would be enforced for every key at once.
	enforced []string
}

func (d *Door) applyDocument(ctx context.Context, in *applyInput) (*appliedOutput, error) {
	state, err := d.view.fresh(ctx)
	if err != nil {
		return nil, err
	}

	set, doubts, err := rule.Review("document", in.RawBody)
	if err != nil {
		if errs, ok := errors.AsType[rule.Errors](err); ok {
			return nil, unfitDocument(itemsOf(errs, bodyPlace, 0))
		}

		return nil, explain(err, false)
	}

	condition, err := conditionOf(state.Rules, in.IfMatch, "")
	if err != nil {
		return nil, err
	}

	a := &application{state: state, set: set, in: in, who: caller(ctx)}
	a.change = rulestore.Change{Action: "rules.apply", Reason: in.Reason, If: condition}
	a.out = Applied{DryRun: in.DryRun, Places: []AppliedChange{}, Warnings: []Warning{}}

	for _, doubt := range doubts {
		a.out.Warnings = append(a.out.Warnings, Warning{Field: doubt.Field, Message: doubt.Message, Fix: doubt.Fix, Line: doubt.Line})
	}

	if err := errors.Join(a.rules(), a.settings()); err != nil {
		return nil, explain(err, false)
	}

	if len(a.enforced) > 0 {
		if problem := notEnforced(state, in.Force, in.Reason); problem != nil {
			problem.Detail += ": " + a.enforced[0]

			return nil, problem
		}
	}

	a.review(ctx, d.config.Fleet)

	if in.DryRun || len(a.change.Rules)+len(a.change.Settings) == 0 {
		return &appliedOutput{Etag: etag(state.Rules), CacheControl: noStore, Body: a.out}, fits(state, &a.change)
	}

	record, err := d.write(ctx, &a.change, condition != rulestore.Whatever)
	if err != nil {
		return nil, err
	}

	a.out.Version = record.Version

	return &appliedOutput{Etag: etag(record.Version), CacheControl: noStore, Body: a.out}, nil
}

// rules finds out which rules the document changes.
func (a *application) rules() error {
	for i, r := range a.set.Rules {
		kept, err := keepingBefore(a.state.Set.Rule(r.ID), r)
		if err != nil {
			return err
		}

		a.set.Rules[i] = kept
	}

	rows, err := rulestore.Canonical(unnumbered(a.set))
	if err != nil {
		return err
	}

	present, err := rulestore.Canonical(unnumbered(a.state.Set))
	if err != nil {
		return err
	}

	was := make(map[string]json.RawMessage, len(present))
	for _, row := range present {
		was[row.Name] = row.Document
	}

	for i, row := range rows {
		before := was[row.Name]
		delete(was, row.Name)

		if bytes.Equal(before, row.Document) {
			continue
		}

		changes := changesBetween(before, row.Document)
		if err := a.put(a.set.Rules[i], rulestore.RulePlace(row.Name), before, changes); err != nil {
			return err
		}
	}

	if !a.in.Prune {
		return nil
	}

	for _, row := range present { // in their order
		if before, left := was[row.Name]; left && a.who.mayRule(row.Name) {
			a.change.Rules = append(a.change.Rules, rulestore.RuleChange{ID: row.Name})
			a.out.Places = append(a.out.Places, AppliedChange{
				Place: rulestore.RulePlace(row.Name), What: "deleted", Changes: changesBetween(before, nil),
			})

			if planOf(a.state, row.Name) != nil {
				a.change.Settings = append(a.change.Settings, rulestore.SettingChange{Name: PlanSetting(row.Name)})
			}
		}
	}

	return nil
}

// put has a rule written.
func (a *application) put(r *rule.Rule, place string, before json.RawMessage, changes []Change) error {
	if !a.who.mayRule(r.ID) {
		return refuse(http.StatusForbidden, "the document changes the rule %s, which is not yours", r.ID)
	}

	what := "changed"
	if before == nil {
		what = "created"
	}

	present := a.state.Set.Rule(r.ID)
	if enforcing(present, r, changes) {
		a.enforced = append(a.enforced, r.ID)
	}

	if present != nil && present.Withheld > 0 && r.Withheld == 0 {
		a.out.Warnings = append(a.out.Warnings, Warning{
			Field: "rules." + r.ID + ".rollout", Message: "the document has no rollout for it: all keys have the rule at once",
			Fix: "write rollout: " + present.Rollout() + " into the document, unless that is meant",
		})
	}

	a.change.Settings = append(a.change.Settings, endedPlan(a.state, present, r)...)
	a.change.Rules = append(a.change.Rules, rulestore.RuleChange{ID: r.ID, Rule: r})
	a.out.Places = append(a.out.Places, AppliedChange{Place: place, What: what, Changes: changes})

	return nil
}

// settings finds out which parts beside the rules the document changes. What is as by default it need not have.
func (a *application) settings() error {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(a.set.Marshal(), &parts); err != nil {
		return err
	}

	for _, name := range rulestore.DocumentSettings() {
		before, after := a.state.Settings[name], parts[name]

		if name == switchesSetting && after == nil && a.in.Prune && before != nil && !namesPart(a.in.RawBody, name) {
			a.keepSwitches(before)

			continue
		}

		mayChange := a.who.role >= Admin && a.who.whole()

		switch {
		case after == nil && (!a.in.Prune || before == nil), equalJSON(before, after):
			continue
		case after == nil && !mayChange: // those who have some rules prune these
			continue
		case !mayChange:
			return refuse(http.StatusForbidden, "the document changes %s, which takes the role admin for all rules: leave it out", name)
		}

		what := "changed"

		switch {
		case after == nil:
			what = "deleted"
		case before == nil:
			what = "created"
		}

		a.change.Settings = append(a.change.Settings, rulestore.SettingChange{Name: name, Value: after})
		a.out.Places = append(a.out.Places, AppliedChange{
			Place: rulestore.SettingPlace(name), What: what, Changes: changesBetween(before, after),
		})
	}

	return nil
}

// keepSwitches leaves the kill switches as they are, but for those of rules that go: somebody threw them by hand, in an emergency, and
// a document that does not speak of them, such as the next one of a repository, must not undo that.
func (a *application) keepSwitches(before json.RawMessage) {
	after, left := withoutSwitchesOf(before, a.change.Rules)
	if !equalJSON(before, after) {
		a.change.Settings = append(a.change.Settings, rulestore.SettingChange{Name: switchesSetting, Value: after})
		a.out.Places = append(a.out.Places, AppliedChange{
			Place: rulestore.SettingPlace(switchesSetting), What: "changed", Changes: changesBetween(before, after),
		})
	}

	if left && a.who.role >= Admin && a.who.whole() { // others could not end them by a document
		a.out.Warnings = append(a.out.Warnings, Warning{
			Field: switchesSetting, Message: "the document does not speak of kill switches: those that are thrown stay so",
			Fix: "end one with leaseway unkill, or all with switches: {} in the document",
		})
	}
}

// withoutSwitchesOf is switches without those of the rules that a change takes away, nil for none, and whether any are left.
func withoutSwitchesOf(switches json.RawMessage, changed []rulestore.RuleChange) (rest json.RawMessage, left bool) {
	var parts map[string]json.RawMessage
	if json.Unmarshal(switches, &parts) != nil {
		return switches, true // whatever it is, it is not for a document to take away
	}

	for _, c := range changed {
		if c.Rule == nil {
			set(parts, "rules", c.ID, nil)
		}
	}

	if len(parts) == 0 {
		return nil, false
	}

	rest, _ = json.Marshal(parts) //nolint:errchkjson // it was JSON

	return rest, true
}

// namesPart says whether a document speaks of one of its parts, be it to say that there is nothing in it.
func namesPart(document []byte, part string) bool {
	var parts map[string]yaml.Node
	if yaml.Unmarshal(document, &parts) != nil {
		return false
	}

	_, named := parts[part]

	return named
}

// equalJSON says whether two texts are the same but for white space.
func equalJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer

	if a == nil || b == nil || json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return slices.Equal(a, b)
	}

	return bytes.Equal(x.Bytes(), y.Bytes())
}
