package admin

import (
	"context"
	"net/http"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

func (d *Door) putRule(ctx context.Context, in *putInput) (*writtenOutput, error) {
	state, err := d.view.fresh(ctx)
	if err != nil {
		return nil, err
	}

	after, warnings, err := parseRule(in.RuleID, in.RawBody)
	if err != nil {
		return nil, err
	}

	before := state.Set.Rule(in.RuleID)
	if before != nil && after.Withheld > 0 && after.Before == nil {
		body, err := keepBefore(before, after, in.RawBody)
		if err != nil {
			return nil, explain(err, false)
		}

		if after, warnings, err = parseRule(in.RuleID, body); err != nil {
			return nil, err
		}
	}

	w := &ruleWrite{
		action: "rules.put", after: after, warnings: warnings, options: in.WriteOptions, force: in.Force, ifNoneMatch: in.IfNoneMatch,
		whole: true,
	}

	return d.writeRule(ctx, state, w)
}

// ruleWrite is a rule that somebody wants to write.
type ruleWrite struct {
	action      string
	after       *rule.Rule
	warnings    []Warning // of its text
	options     WriteOptions
	ifNoneMatch string
	force       bool
	whole       bool // the text is the whole rule, in which things may have been forgotten
	must        bool // it is made of the present rule, and must not replace another
	settings    []rulestore.SettingChange
}

// writeRule checks a rule against the others, and writes it unless it is only a try.
func (d *Door) writeRule(ctx context.Context, state *rulestore.State, w *ruleWrite) (*writtenOutput, error) {
	id := w.after.ID
	before := state.Set.Rule(id)

	condition, err := conditionOf(state.Written[id], w.options.IfMatch, w.ifNoneMatch)
	if err != nil {
		return nil, err
	}

	conditional := condition != rulestore.Whatever
	if w.must && !conditional {
		condition = rulestore.Condition(state.Written[id])
	}

	was, err1 := documentOf(before)
	is, err2 := documentOf(w.after)

	if err1 != nil || err2 != nil {
		return nil, refuse(http.StatusInternalServerError, "the rule could not be written as JSON")
	}

	out := &writtenOutput{CacheControl: noStore}
	out.Body = Written{DryRun: w.options.DryRun, Rule: &Document{is}, Changes: changesBetween(was, is), Warnings: []Warning{}}

	if enforcing(before, w.after, out.Body.Changes) {
		if problem := notEnforced(state, w.force, w.options.Reason); problem != nil {
			return nil, problem
		}
	}

	used, err := d.config.Fleet.Used(ctx, id)
	if err != nil {
		used = nil // a warning less
	}

	review := &reviewer{fleet: d.config.Fleet, state: state, before: before, after: w.after, use: used[id]}
	out.Body.Warnings = append(append(out.Body.Warnings, w.warnings...), review.warnings(ctx)...)

	if w.whole {
		out.Body.Warnings = append(out.Body.Warnings, dropped(out.Body.Changes)...)
	}

	if w.settings == nil {
		w.settings = endedPlan(state, before, w.after)
	}

	change := &rulestore.Change{
		Action: w.action, Target: id, Reason: w.options.Reason, Settings: w.settings,
		Rules: []rulestore.RuleChange{{ID: id, Rule: w.after, If: condition}},
	}

	if out.Body.DryRun {
		out.Etag = etag(state.Written[id])

		return out, fits(state, change)
	}

	// A version that is like the one before would be what a rollback goes back to.
	if before != nil && len(out.Body.Changes) == 0 && len(change.Settings) == 0 {
		out.Etag = etag(state.Written[id])

		return out, nil
	}

	record, err := d.write(ctx, change, conditional)
	if err != nil {
		return nil, err
	}

	out.Body.Version, out.Etag = record.Version, etag(record.Version)

	return out, nil
}

func (d *Door) deleteRule(ctx context.Context, in *deleteInput) (*writtenOutput, error) {
	state, err := d.view.fresh(ctx)
	if err != nil {
		return nil, err
	}

	_, written := state.Written[in.RuleID]
	if !written {
		return nil, noRule(state, in.RuleID)
	}

	condition, err := conditionOf(state.Written[in.RuleID], in.IfMatch, "")
	if err != nil {
		return nil, err
	}

	was, err := documentOf(state.Set.Rule(in.RuleID))
	if err != nil {
		return nil, explain(err, false)
	}

	change := &rulestore.Change{
		Action: "rules.delete", Target: in.RuleID, Reason: in.Reason,
		Rules: []rulestore.RuleChange{{ID: in.RuleID, If: condition}},
	}
	if planOf(state, in.RuleID) != nil {
		change.Settings = append(change.Settings, rulestore.SettingChange{Name: PlanSetting(in.RuleID)})
	}

	if switches, changed := withoutSwitch(state, in.RuleID); changed {
		change.Settings = append(change.Settings, switches)
	}

	out := &writtenOutput{CacheControl: noStore}
	out.Body = Written{DryRun: in.DryRun, Changes: changesBetween(was, nil), Warnings: []Warning{}}

	if in.DryRun {
		return out, nil
	}

	record, err := d.write(ctx, change, condition != rulestore.Whatever)
	if err != nil {
		return nil, err
	}

	out.Body.Version = record.Version

	return out, nil
}
