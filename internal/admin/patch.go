package admin

import (
	"context"
	"encoding/json"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

type patchInput struct {
	RuleInput
	WriteOptions

	Force bool `doc:"Enforce at once although requireRollout is on; with reason." query:"force"`

	Body struct {
		Mode    string    `doc:"enforce, shadow or off."                             enum:"enforce,shadow,off" json:"mode,omitempty"`
		Rollout *float64  `doc:"The percentage of keys that have the rule as it is." json:"rollout,omitempty"  maximum:"100"         minimum:"0"`
		Plan    *PlanSpec `doc:"Raise the rollout by itself."                        json:"plan,omitempty"`
		EndPlan bool      `doc:"End the plan, and leave the rollout where it is."    json:"endPlan,omitempty"`
	}
}

// PlanSpec is a rollout that is to go on by itself.
type PlanSpec struct {
	Steps      []float64 `doc:"Percentages of keys, each above the one before."                                                                                                               json:"steps"                maxItems:"100"    minItems:"1"`
	EverySec   int64     `doc:"Seconds that each step lasts."                                                                                                                                 json:"everySec"             maximum:"2592000" minimum:"1"`
	MaxRefused *float64  `doc:"Percent of the requests of keys that the rollout has reached, in the whole fleet since the step began: if more are refused, the rollout ends at 0. Usually 5." json:"maxRefused,omitempty"`
}

// usualMaxRefused is the share of requests that a plan lets be refused unless it says so, in percent.
const usualMaxRefused = 5

// patchRule changes what is changed most, and nothing beside it.
func (d *Door) patchRule(ctx context.Context, in *patchInput) (*writtenOutput, error) {
	state, err := d.view.fresh(ctx)
	if err != nil {
		return nil, err
	}

	before := state.Set.Rule(in.RuleID)
	if before == nil {
		return nil, noRule(state, in.RuleID)
	}

	plan, err := d.planned(ctx, in)
	if err != nil {
		return nil, err
	}

	rollout := in.Body.Rollout
	if plan != nil {
		rollout = &plan.Steps[0]
	}

	doc, err := patched(before, in.Body.Mode, rollout)
	if err != nil {
		return nil, err
	}

	after, _, err := parseRule(in.RuleID, doc)
	if err != nil {
		return nil, err
	}

	// What is made of the present rule has the warnings that it had.
	w := &ruleWrite{action: "rules.patch", after: after, options: in.WriteOptions, force: in.Force, must: true}

	switch present := planOf(state, in.RuleID); {
	case plan != nil:
		value, err := json.Marshal(plan)
		if err != nil {
			return nil, explain(err, false)
		}

		w.settings = []rulestore.SettingChange{{Name: PlanSetting(in.RuleID), Value: value}}
	case present != nil && (in.Body.EndPlan || in.Body.Rollout != nil): // by hand now
		w.settings = []rulestore.SettingChange{{Name: PlanSetting(in.RuleID)}}
	}

	return d.writeRule(ctx, state, w)
}

// planned checks what is asked for, and makes the plan; nil for none.
func (d *Door) planned(ctx context.Context, in *patchInput) (*Plan, error) {
	b := &in.Body

	switch {
	case b.Mode == "" && b.Rollout == nil && b.Plan == nil && !b.EndPlan:
		return nil, unfit("body.mode", "nothing is to be changed", "write mode, rollout, plan or endPlan")
	case b.Plan == nil:
		return nil, nil //nolint:nilnil // none was asked for
	case b.Rollout != nil || b.EndPlan:
		return nil, unfit("body.plan", "says the rollout, too", "write plan alone: its first step is the rollout")
	}

	if most := b.Plan.MaxRefused; most != nil && (*most < 0 || *most > 100) {
		return nil, unfit("body.plan.maxRefused", "is no percentage", "write a number from 0 to 100")
	}

	last := 0.0

	for _, step := range b.Plan.Steps {
		if _, ok := percent(step); !ok || step <= last {
			return nil, unfit("body.plan.steps", "are not rising percentages", "write some such as [1, 10, 50, 100]")
		}

		last = step
	}

	plan := &Plan{
		Steps: b.Plan.Steps, Every: b.Plan.EverySec, MaxRefused: usualMaxRefused,
		Since: d.config.Now().UTC().Truncate(time.Second), State: PlanRunning, Author: caller(ctx).name,
	}
	if b.Plan.MaxRefused != nil {
		plan.MaxRefused = *b.Plan.MaxRefused
	}

	return plan, nil
}

// patched is the document of a rule with another mode or rollout; "" and nil leave them.
func patched(r *rule.Rule, mode string, rollout *float64) ([]byte, error) {
	doc, err := documentOf(r)
	if err != nil {
		return nil, explain(err, false)
	}

	fields := fieldsOf(doc)
	set := func(name string, value any) {
		text, _ := json.Marshal(value) //nolint:errchkjson // words and numbers
		fields[name] = text
	}

	if mode != "" {
		if r.Before != nil { // what the other keys keep does not change with it
			before := fieldsOf(fields["before"])
			before["mode"], _ = json.Marshal(r.Before.Mode.String()) //nolint:errchkjson // a word
			set("before", before)
		}

		set("mode", mode)
	}

	if rollout != nil {
		number, ok := percent(*rollout)
		if !ok {
			return nil, unfit("body.rollout", "is no percentage with two decimals at most", "write a number from 0 to 100")
		}

		set("rollout", number)

		if *rollout == 100 {
			delete(fields, "before")
			delete(fields, "rollout")
		}
	}

	return json.Marshal(fields)
}

// planOf is the plan of a rule; nil for none.
func planOf(state *rulestore.State, ruleID string) *Plan {
	plan := &Plan{}
	if text, has := state.Settings[PlanSetting(ruleID)]; !has || json.Unmarshal(text, plan) != nil {
		return nil
	}

	return plan
}
