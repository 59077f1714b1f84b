package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// rollouts carries out the plans that the admin API makes: it raises the share of keys that have a rule as it is written, step by
// step, and takes it back when too much is refused.
//
//	running ── time of the step is over ──▶ next step ── the last ──▶ done
//	   └────── too much is refused ───────▶ rollout 0, stopped
//
// All of it is in the store, so it goes on after a restart, and on any coordinator. They may all be at it: each change names the
// versions that it is made of, and only the first is taken.
type rollouts struct {
	store  rulestore.Store
	latest func() *rulestore.State
	// counts are the requests of keys that the rollout of a rule, in this version of it, has reached, since it came into force,
	// and those of them that were refused.
	counts func(ctx context.Context, ruleID string, version uint64) (requests, refused int64)
	now    func() time.Time
	log    *slog.Logger
}

const (
	rolloutEvery = time.Second
	// fewRequests is how many of a step say nothing yet about the share that is refused.
	fewRequests = 20
)

// run looks after the plans until ctx ends.
func (r *rollouts) run(ctx context.Context) {
	ticker := time.NewTicker(rolloutEvery)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.look(ctx)
		}
	}
}

// look goes through all plans once.
func (r *rollouts) look(ctx context.Context) {
	state := r.latest()
	if state == nil {
		return
	}

	for name, text := range state.Settings {
		id, isPlan := strings.CutPrefix(name, admin.PlanPrefix)

		if !isPlan { // a rule may have the name of a setting
			continue
		}

		plan := &admin.Plan{}
		if json.Unmarshal(text, plan) != nil || plan.State != admin.PlanRunning {
			continue
		}

		if err := r.advance(ctx, state, id, plan); err != nil && rulestore.CodeOf(err) != rulestore.Conflict {
			r.log.Error("a rollout could not go on: it is tried again", "rule", id, "error", err)
		}
	}
}

// advance does what a plan asks for now, if anything. It changes plan.
func (r *rollouts) advance(ctx context.Context, state *rulestore.State, id string, plan *admin.Plan) error {
	now := r.now().UTC().Truncate(time.Second)

	present := state.Set.Rule(id)
	if present == nil || plan.Step < 0 || plan.Step >= len(plan.Steps) {
		plan.State, plan.Note = admin.PlanStopped, "the rule is not there, or the plan has no such step"

		return r.write(ctx, state, planned{id: id, plan: plan})
	}

	if present.Rollout() != percent(plan.Steps[plan.Step]) {
		plan.State, plan.Note = admin.PlanStopped, "the rollout is set to "+present.Rollout()+" % by hand"
		r.log.Warn("a rollout goes on by itself no more", "rule", id, "why", plan.Note)

		return r.write(ctx, state, planned{id: id, plan: plan})
	}

	if share, known := r.share(ctx, present); known && share > plan.MaxRefused {
		plan.State = admin.PlanStopped
		plan.Note = fmt.Sprintf("%.1f %% of requests were refused at %s %%, more than %s %%: back to 0",
			share, percent(plan.Steps[plan.Step]), percent(plan.MaxRefused))

		r.log.Warn("a rollout is stopped and taken back", "rule", id, "why", plan.Note)

		return r.write(ctx, state, planned{id, plan, present, 0})
	}

	if now.Before(plan.Since.Add(time.Duration(plan.Every) * time.Second)) {
		return nil
	}

	if plan.Step == len(plan.Steps)-1 {
		plan.State, plan.Since = admin.PlanDone, now

		return r.write(ctx, state, planned{id: id, plan: plan})
	}

	plan.Step, plan.Since = plan.Step+1, now
	r.log.Info("a rollout goes on", "rule", id, "percent", plan.Steps[plan.Step])

	return r.write(ctx, state, planned{id, plan, present, plan.Steps[plan.Step]})
}

// share is the share of requests, in percent, that this version of a rule refused of the keys that its rollout has reached; known
// is false while there were few. Each step is a version of its own, so nothing from before it is in there.
func (r *rollouts) share(ctx context.Context, present *rule.Rule) (share float64, known bool) {
	requests, refused := r.counts(ctx, present.ID, present.Version)
	if requests < fewRequests {
		return 0, false
	}

	return 100 * float64(refused) / float64(requests), true
}

// planned is a plan to be written, and with a rule its new rollout.
type planned struct {
	id      string
	plan    *admin.Plan
	present *rule.Rule // nil leaves the rule
	rollout float64
}

func (r *rollouts) write(ctx context.Context, state *rulestore.State, p planned) error {
	text, err := json.Marshal(p.plan)
	if err != nil {
		return err
	}

	name := admin.PlanSetting(p.id)
	change := &rulestore.Change{
		Author: p.plan.Author, Action: "rules.rollout", Target: p.id, Reason: reasonOf(p.plan),
		Settings: []rulestore.SettingChange{{
			Name: name, Value: text, If: rulestore.Condition(state.Written[rulestore.SettingPlace(name)]),
		}},
	}

	if p.present != nil {
		next, err := rolledOut(p.present, p.rollout)
		if err != nil {
			return err
		}

		change.Rules = []rulestore.RuleChange{{ID: p.id, Rule: next, If: rulestore.Condition(state.Written[p.id])}}
	}

	_, err = r.store.Write(ctx, change)

	return err
}

// reasonOf is what the audit says about a change that a plan makes.
func reasonOf(plan *admin.Plan) string {
	if plan.Note != "" {
		return "by plan: " + plan.Note
	}

	return fmt.Sprintf("by plan: step %d of %d, %s %%, %s", plan.Step+1, len(plan.Steps), percent(plan.Steps[plan.Step]), plan.State)
}

func percent(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// rolledOut is a rule with another rollout; at 100 there is no version before it any more.
func rolledOut(r *rule.Rule, rollout float64) (*rule.Rule, error) {
	bare := *r
	bare.Version = 0

	rows, err := rulestore.Canonical(&rule.Set{Rules: []*rule.Rule{&bare}})
	if err != nil {
		return nil, err
	}

	var fields map[string]json.RawMessage
	if err := json.Unmarshal(rows[0].Document, &fields); err != nil {
		return nil, err
	}

	fields["rollout"] = json.RawMessage(percent(rollout))
	if rollout >= 100 { //nolint:mnd // percent
		delete(fields, "rollout")
		delete(fields, "before")
	}

	if rows[0].Document, err = json.Marshal(fields); err != nil {
		return nil, err
	}

	set, err := rule.Parse("rollout", rulestore.Document(0, rows, nil))
	if err != nil {
		return nil, err
	}

	return set.Rules[0], nil
}
