package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// reviewer finds what a document does not show about a change.
type reviewer struct {
	fleet  Fleet
	state  *rulestore.State
	before *rule.Rule
	after  *rule.Rule
	use    Use // of the rule, lately
}

// warnings are about the rules beside it, what is used now, and what begins anew.
func (v *reviewer) warnings(ctx context.Context) []Warning {
	return slices.Concat(v.opened(), v.overshadowed(), v.recounted(), v.tight(ctx))
}

// opened says that keys which had the rule have no limit under it any more.
func (v *reviewer) opened() []Warning {
	was, is := v.before, v.after
	if was == nil || was.Mode != rule.Enforce || is.Before != nil || is.Withheld <= was.Withheld || was.Before != nil {
		return nil
	}

	return []Warning{{
		Field: "rollout", Message: fmt.Sprintf("at %s %% it is no rule for the other keys, which have no limit under it", is.Rollout()),
		Fix: "write the changed rule with this rollout instead, which keeps what it was for the others, or say so: before: {mode: off}",
	}}
}

// maxOvershadowed bounds how many rules a warning names.
const maxOvershadowed = 5

// overshadowed looks for rules that can do nothing beside others.
func (v *reviewer) overshadowed() (list []Warning) {
	for _, other := range v.state.Set.Rules {
		if other.ID == v.after.ID || len(list) == maxOvershadowed {
			continue
		}

		switch {
		case other.Overshadows(v.after):
			list = append(list, Warning{
				Message: fmt.Sprintf("can do nothing: the rule %s refuses all that this one would refuse", other.ID),
				Fix:     "lower the limit, narrow the scope of the other rule, or leave one of them out; overrides may change this",
			})
		case v.after.Overshadows(other):
			list = append(list, Warning{
				Message: fmt.Sprintf("leaves the rule %s nothing to do: this one refuses all that it would refuse", other.ID),
				Fix:     "narrow the scope, or delete the other rule; overrides may change this",
			})
		}
	}

	return list
}

// recounted says what begins anew, which for a while is more than the limit.
func (v *reviewer) recounted() (list []Warning) {
	if v.before == nil || v.after.Block {
		return nil
	}

	was, is := v.before, v.after
	buckets := was.Algorithm.HasBurst() && is.Algorithm.HasBurst()

	switch {
	case was.Algorithm != is.Algorithm && !buckets:
		list = append(list, Warning{Field: "algorithm", Message: "counting starts anew: another algorithm counts otherwise"})
	case !buckets && (was.Window != is.Window || was.Calendar != is.Calendar):
		list = append(list, Warning{Field: "window", Message: "counting starts anew: the windows begin and end at other times"})
	}

	if !slices.Equal(was.KeyBy, is.KeyBy) || was.Normalize != is.Normalize || was.IPv6Prefix != is.IPv6Prefix {
		list = append(list, Warning{Field: "keyBy", Message: "counting starts anew: the budgets of other keys are whole"})
	}

	for i := range list {
		list[i].Fix = "make it when little is in use, or write a rule of its own beside this one and delete this one later"
	}

	return list
}

// tight says that somebody uses more than the new limit already.
func (v *reviewer) tight(ctx context.Context) []Warning {
	if v.before == nil || v.before.Block || v.after.Block {
		return nil
	}

	message := ""

	if v.after.Burst < v.before.Burst && slices.Equal(v.before.KeyBy, v.after.KeyBy) && v.before.KeyBy[0].Kind == rule.KeyGlobal {
		// There is but one key, whose level tells also what is leased.
		level, err := v.fleet.Level(ctx, v.before.ID, "")
		if used := level.Limit - level.Remaining; err == nil && used > v.after.Burst {
			message = fmt.Sprintf("%d tokens are used now, above the new capacity of %d: requests will be refused at once",
				used, v.after.Burst)
		}
	}

	if message == "" {
		message = v.outgrown()
	}

	if message == "" {
		return nil
	}

	return []Warning{{
		Field: limitField, Message: message, Fix: "write an override for it first, or roll the change out with rollout",
	}}
}

// outgrown says that a key used more lately than it may from now on, if that is less than before.
func (v *reviewer) outgrown() string {
	use := v.use
	if use.Tokens == 0 {
		return ""
	}

	may := admits(v.after, use.Per)
	if use.Tokens <= may || may >= admits(v.before, use.Per) {
		return ""
	}

	if v.after.Algorithm == rule.Concurrency {
		return fmt.Sprintf("a key had %d requests in flight lately, above the new limit of %d: some will be refused", use.Tokens, may)
	}

	return fmt.Sprintf("a key used %d tokens in %v lately, where the new limit lets it use %d: if it goes on so, it will be refused",
		use.Tokens, use.Per, may)
}

// admits is how much a rule lets a key use in a period, going on so: its rate over that time, and never less than its capacity. A
// period shorter than the window counts as the window.
func admits(r *rule.Rule, per time.Duration) int64 {
	if r.Algorithm == rule.Concurrency || r.Window <= 0 {
		return r.Burst
	}

	windows := max(1, float64(per)/float64(r.Window))

	return max(r.Burst, int64(float64(r.Limit)*windows))
}

// dropped says which settings of a rule a shorter document takes away.
func dropped(changes []Change) []Warning {
	var names []string

	for _, c := range changes {
		if c.After == nil && c.Field != "before" {
			names = append(names, c.Field)
		}
	}

	if len(names) == 0 {
		return nil
	}

	return []Warning{{
		Message: "takes away what the rule had beside: " + strings.Join(names, ", "),
		Fix:     "PUT writes the whole rule: send these, too, unless they are to go",
	}}
}
