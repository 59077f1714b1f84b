package admin

import (
	"context"
	"time"
)

// Fleet is what the running fleet knows and does, beside what the rule store keeps. It is safe for concurrent use. An error
// means that the fleet could not be asked, and wraps ErrUnknownRule where there is no such rule in force.
type Fleet interface {
	// Instances are the holders that were heard of lately, ordered by name, and the version that they should run.
	Instances(ctx context.Context) (Roster, error)

	// Level says what a key has left under a rule. It never consumes. The key is as rule.AppendKey gives it.
	Level(ctx context.Context, ruleID, key string) (Level, error)

	// Used says, of each of these rules, how much one key has used at most lately, as far as the coordinators of the fleet know, as
	// a warning to whoever lowers the limit. It may be less than what was used, and there is none where nothing is known.
	Used(ctx context.Context, ruleIDs ...string) (map[string]Use, error)

	// Reset makes a key's budget whole again.
	Reset(ctx context.Context, ruleID, key string) error

	// Refund gives tokens, 1 or more, back to a key's budget, which is never more than whole.
	Refund(ctx context.Context, ruleID, key string, tokens int64) error
}

// Roster is who runs which rules.
type Roster struct {
	// Version is that of the newest rules that there are, in the numbers of Instance.Version.
	Version uint64
	// Instances are ordered by name.
	Instances []Instance
	// More is how many others are not listed, since the list is bounded.
	More int
	// Coordinators is how many say so together. Partial says that there may be others that this one could not hear.
	Coordinators int
	Partial      bool
}

// Instance is one holder: an API server, a proxy, an agent, or a coordinator that opens doors.
type Instance struct {
	Name string
	// Incarnation is random, and new at every start.
	Incarnation uint64
	// Version is that of the rules that it runs; 0 while it has none, or does not say.
	Version uint64
	// Seen is when it was last heard of.
	Seen time.Time
	// Bare says that it was let in without a token.
	Bare bool
}

// Use is what one key used of a rule.
type Use struct {
	// Tokens were used, or slots were busy at once.
	Tokens int64
	// Per is the time in which they were; 0 for slots.
	Per time.Duration
}

// Level is what one key has left under one rule.
type Level struct {
	// Allowed says that one token would be admitted now.
	Allowed bool
	// Limit is the capacity for this key and Remaining what is left of it, in tokens; Remaining is never negative.
	Limit, Remaining int64
	// Reset is the time until the budget is whole, RetryAfter that until a token is admitted; 0 for now, or never.
	Reset, RetryAfter time.Duration
	// Reason is why a token would not be admitted, in the words of leaseway.Reason.
	Reason string
}
