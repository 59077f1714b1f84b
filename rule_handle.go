package leaseway

import (
	"context"
	"fmt"
	"time"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// Rule is one rule of a Limiter, for programs that know which rule a request is
// subject to: no matching, and for a key that is in use no I/O and no
// allocation. It follows the rule through all its versions; while it is off or
// not in force everything is allowed, and while it is in shadow mode, too: then
// Decision.ShadowDenied says what it would have refused.
type Rule struct {
	limiter *Limiter
	rule    *table.Rule
	class   rule.Class // ClassUnset for one that nobody said
}

// Rule returns the rule with id. The error, of CodeUnknownRule, is for a rule that is not in force.
func (l *Limiter) Rule(id string) (*Rule, error) {
	r := l.table.Rule(id)
	if r == nil {
		return nil, &Error{
			Code: CodeUnknownRule, Message: fmt.Sprintf("no rule %q is in force", id),
			Hint: "rule ids are case-sensitive; Rules lists them",
		}
	}

	return &Rule{limiter: l, rule: r}, nil
}

// Test returns the rule with the budgets that requests of class test spend: the
// same limits, and for each key a budget of its own. It is As(ClassTest).
func (r *Rule) Test() *Rule { return r.As(rule.ClassTest) }

// As returns the rule for requests of a class, which is that of its decisions:
// those of class test spend budgets of their own, and in the queue of a
// concurrency rule requests stand in the order of their classes, writes unless
// said. Shedders are not asked here.
func (r *Rule) As(class rule.Class) *Rule {
	as := &Rule{limiter: r.limiter, rule: r.rule, class: class}
	if class == rule.ClassTest {
		as.rule = r.rule.Test()
	}

	return as
}

// Take takes one token of key. Under a concurrency rule that is a slot, which
// the request occupies until Limiter.Done: see Decision.HoldsSlot.
func (r *Rule) Take(key string) (d Decision) {
	r.take(key, 1, &d)

	return d
}

// TakeN takes cost tokens of key. A cost of 0 looks and takes nothing, like Peek.
//
// Remaining and Reset are those that the last answer and the tokens spent since
// give; what refilled in between is not counted, nor what other processors took within the present millisecond of a key
// that they are busy with.
func (r *Rule) TakeN(key string, cost int64) (d Decision) {
	switch {
	case cost > 0:
		r.take(key, cost, &d)
	case cost < 0:
		d.Reason = ReasonInvalid
	default:
		r.peek(key, &d)
	}

	return d
}

// Peek says what Take would, and takes nothing.
func (r *Rule) Peek(key string) (d Decision) {
	r.peek(key, &d)

	return d
}

// take fills in d, which is blank. It is told where, since to return so much takes copies.
func (r *Rule) take(key string, cost int64, d *Decision) {
	decided := false

	defer func() {
		if !decided { // to ask for a panic costs as much as taking the token
			r.recovered(recover(), d, key, cost)
		}
	}()

	if r.rule.Plain() {
		if told, charge := r.rule.Quick(key, cost); !told.None() {
			d.told(told, charge)
			d.Class, decided = r.class, true

			return
		}
	}

	r.takeSlow(key, cost, d)

	d.Class, decided = r.class, true
}

// takeSlow is take for what Quick does not decide.
func (r *Rule) takeSlow(key string, cost int64, d *Decision) {
	switch {
	case r.rule.SwitchedOff():
		r.rule.PassOff()

		d.Allowed = true

		return
	case !r.rule.Applies(key):
		d.Allowed = true

		return
	case r.rule.BoundsInFlight():
		*d = r.hold(key, cost)
	default:
		var out table.Outcome

		r.rule.Take(context.Background(), key, cost, &out)

		if out.Origin == table.FromNone {
			d.Allowed = true // the rule is not in force any more

			return
		}

		d.fill(r.rule.ID(), &out)
		d.charges.first = out.Charge
	}

	if r.rule.Watches(key) && d.watched(r.rule.ID()) {
		r.limiter.shadowed.note(watcher{rule: r.rule.ID()}, key)
	}
}

// peek fills in d, which is blank.
func (r *Rule) peek(key string, d *Decision) {
	defer func() {
		r.recovered(recover(), d, key, 0)

		d.Class = r.class
	}()

	if r.rule.SwitchedOff() || !r.rule.Applies(key) {
		d.Allowed = true

		return
	}

	if r.rule.BoundsInFlight() {
		*d = r.look(key)
	} else {
		var out table.Outcome

		r.rule.Peek(context.Background(), key, &out)

		if out.Origin == table.FromNone {
			d.Allowed = true

			return
		}

		d.fill(r.rule.ID(), &out)
	}

	if r.rule.Watches(key) {
		d.watched(r.rule.ID())
	}
}

// Wait takes cost tokens of key, waiting until they are to be had. The error is
// ctx's, or of CodeInvalid if the cost can never pass.
func (r *Rule) Wait(ctx context.Context, key string, cost int64) error {
	if r.rule.BoundsInFlight() {
		return &Error{
			Code: CodeInvalid, Message: fmt.Sprintf("rule %q bounds what is in flight, which Wait could not end", r.rule.ID()),
			Hint: "use TakeN, and Done with its decision; a queue in the rule lets requests wait",
		}
	}

	for {
		d := r.TakeN(key, cost)
		if d.Allowed && d.Delay == 0 {
			return nil
		}

		if !d.Allowed && d.RetryAfter <= 0 {
			return &Error{
				Code: CodeInvalid, Message: fmt.Sprintf("rule %q never admits a cost of %d: %s", d.Rule, cost, d.Reason),
				Hint: fmt.Sprintf("its capacity is %d", d.Limit),
			}
		}

		timer := time.NewTimer(max(d.RetryAfter, d.Delay))

		select {
		case <-ctx.Done():
			timer.Stop()
			r.limiter.Refund(d)

			return ctx.Err()
		case <-timer.C:
		}

		if d.Allowed {
			return nil
		}
	}
}

// recovered turns p, a panic of ours, into an outage of the rule: for a request of
// cost tokens of key, 0 for one that only looks. If p is nil there was none.
func (r *Rule) recovered(p any, d *Decision, key string, cost int64) {
	if p == nil {
		return
	}

	bugs := r.limiter.table.Mishaps()
	bugs.Note("deciding a request", p)

	*d = Decision{Allowed: true, Class: r.class}

	silent := false // one that would say nothing about the request if it could

	bugs.Guard("looking up a rule", func() { silent = r.rule.Watches(key) || !r.rule.Applies(key) })

	if silent {
		return
	}

	r.limiter.withoutStore(d, []table.Hit{{Rule: r.rule, Key: key, Cost: cost}}, cost == 0)
}
