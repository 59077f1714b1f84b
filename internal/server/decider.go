package server

import (
	"context"
	"errors"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/check"
	"github.com/leaseway/leaseway/internal/rpc"
)

// decider is the gRPC door's view of the check door.
type decider struct {
	door *check.Door
}

// Check decides by all rules that match.
func (d decider) Check(ctx context.Context, q rpc.Question) rpc.Verdict {
	return verdict(d.door.Decide(ctx, q.Request, q.PassDelay))
}

// CheckRule decides by one rule. A key that the rule cannot count by is refused as invalid.
func (d decider) CheckRule(_ context.Context, q rpc.RuleQuestion) (rpc.Verdict, error) {
	decision, err := d.door.CheckRule(&check.RuleQuestion{ //nolint:contextcheck // the SDK bounds it by its own deadline
		Rule: q.Rule, Key: q.Key, Class: q.Class, Cost: &q.Cost, PassDelay: q.PassDelay,
	})

	var field *check.FieldError

	switch {
	case err == nil:
		return verdict(decision), nil
	case errors.As(err, &field) && field.Kind == check.Unknown:
		return rpc.Verdict{}, rpc.ErrUnknownRule
	case field != nil:
		return rpc.Verdict{Rule: q.Rule, Reason: leaseway.ReasonInvalid.String()}, nil //nolint:nilerr // the caller is told so
	default:
		return rpc.Verdict{}, err
	}
}

func verdict(d leaseway.Decision) rpc.Verdict {
	return rpc.Verdict{
		Allowed: d.Allowed, Reason: d.Reason.String(), Class: d.Class.String(), Rule: d.Rule, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfter: d.RetryAfter, Reset: d.Reset, Delay: d.Delay,
	}
}
