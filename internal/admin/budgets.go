package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

type (
	resetInput struct {
		RuleInput
		WriteQuery

		Body struct {
			Key string `doc:"Whose budget; left out for a rule by global." json:"key,omitempty" maxLength:"4096"`
		}
	}
	refundInput struct {
		RuleInput
		WriteQuery

		Body struct {
			Key    string `doc:"Whose budget; left out for a rule by global." json:"key,omitempty" maxLength:"4096"`
			Tokens int64  `doc:"How many to give back."                       json:"tokens"        maximum:"1099511627776" minimum:"1"`
		}
	}
	budgetOutput struct {
		CacheControl string `header:"Cache-Control"`
		Body         struct {
			DryRun bool      `doc:"Whether nothing was done." json:"dryRun,omitempty"`
			Limit  LimitView `doc:"The budget afterwards."    json:"limit"`
		}
	}
)

func (d *Door) registerBudgets(api huma.API) {
	register(d, api, route{
		id: "reset-budget", method: http.MethodPost, path: ruleRoute + "/reset", summary: "Make a key's budget whole again",
		need: need{role: Operator},
	}, func(ctx context.Context, in *resetInput) (*budgetOutput, error) {
		b := &budgetChange{action: "budgets.reset", ruleID: in.RuleID, key: in.Body.Key, in: &in.WriteQuery}

		return d.changeBudget(ctx, b, d.config.Fleet.Reset)
	})
	register(d, api, route{
		id: "refund-budget", method: http.MethodPost, path: ruleRoute + "/refund", summary: "Give tokens back to a key",
		need: need{role: Operator}, doc: "A budget is never more than whole.",
	}, func(ctx context.Context, in *refundInput) (*budgetOutput, error) {
		b := &budgetChange{action: "budgets.refund", ruleID: in.RuleID, key: in.Body.Key, in: &in.WriteQuery}

		return d.changeBudget(ctx, b, func(ctx context.Context, ruleID, key string) error {
			return d.config.Fleet.Refund(ctx, ruleID, key, in.Body.Tokens)
		})
	})
}

// budgetAct does something to a key of a rule.
type budgetAct func(ctx context.Context, ruleID, key string) error

// budgetChange is what somebody does to a key's budget.
type budgetChange struct {
	action, ruleID, key string
	in                  *WriteQuery
}

// target names the budget in a record.
func (b *budgetChange) target(r *rule.Rule, key string) string {
	const longest = 500

	return fmt.Sprintf("%s %.*q", b.ruleID, longest, shownKey(r, key))
}

// changeBudget does it, with a record. The record comes first, so that nothing happens without one, except where the store takes
// none: rules from a file do not keep operators from helping a caller.
func (d *Door) changeBudget(ctx context.Context, b *budgetChange, do budgetAct) (*budgetOutput, error) {
	state, err := d.view.state(ctx)
	if err != nil {
		return nil, err
	}

	r := state.Set.Rule(b.ruleID)
	if r == nil {
		return nil, noRule(state, b.ruleID)
	}

	key, err := r.KeyOf(b.key)

	switch {
	case err != nil:
		return nil, ofText(err)
	case r.Algorithm == rule.Concurrency:
		return nil, unfit("path.ruleId", "limits what is in flight, which comes back by itself", "wait until the requests are over")
	}

	if !b.in.DryRun {
		_, err := d.write(ctx, &rulestore.Change{Action: b.action, Target: b.target(r, key), Reason: b.in.Reason}, false)
		if problem, _ := errors.AsType[*Problem](err); err != nil && (problem == nil || !problem.readOnly) {
			return nil, err
		}

		if err := do(ctx, b.ruleID, key); err != nil {
			return nil, explain(err, false)
		}
	}

	out := &budgetOutput{CacheControl: noStore}
	out.Body.DryRun = b.in.DryRun

	if out.Body.Limit, err = d.limitOf(ctx, state, r, key); err != nil {
		return nil, explain(err, false)
	}

	return out, nil
}

// shownKey is a key as answers and records may have it.
func shownKey(r *rule.Rule, key string) string {
	if secretKeys(r) {
		return (&rule.Rule{Secret: true}).ShowKey(key)
	}

	return key
}
