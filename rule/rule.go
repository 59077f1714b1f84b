package rule

import "time"

// Rule is one limit as its owner wrote it. It is immutable once parsed.
type Rule struct {
	// ID is the rule's identity: its ledgers follow it, whatever else changes.
	ID string
	// Version is the version of the set that last changed what this rule does; 0 before Set.Next numbered it.
	Version uint64
	// Description is for people.
	Description string
	// Scope says which requests the rule is about.
	Scope Scope
	// KeyBy says whose budget is spent; it has at least one part.
	KeyBy []KeyPart
	// Algorithm says how the budget refills.
	Algorithm Algorithm
	// Limit is in tokens a Window; it is 0 only when Block is set.
	Limit int64
	// Window is from 1 ms to 366 days; 0 only when Block is set. Under a Calendar it is nominal: 24 hours, or 30 days.
	Window time.Duration
	// Calendar says whether the windows are those of a calendar; only a FixedWindow has them.
	Calendar Calendar
	// TimeZone is where the calendar's days begin; nil without a Calendar.
	TimeZone *time.Location
	// Burst is the capacity in tokens; where the algorithm has no burst it is the limit.
	Burst int64
	// Cost is what one request takes.
	Cost Cost
	// Queue is for a Concurrency rule: who may wait until another request is over. The zero Queue lets nobody wait.
	Queue Queue
	// Mode says whether the rule refuses, only reports, or is off.
	Mode Mode
	// Withheld is the share of keys that do not have the rule as it is written, in hundredths of a percent; see For.
	Withheld int
	// Before is what the other keys have, under the same id and version; nil: the rule does not apply to them.
	Before *Rule
	// OnUnavailable says what happens while the coordinator is out of reach.
	OnUnavailable OnUnavailable
	// Fallback is the budget of one instance during an outage; nil: a share of the limit.
	Fallback *Quota
	// Missing says what happens to a request that lacks a part of the key.
	Missing Missing
	// AfterLoss says what a budget is after the store lost its data.
	AfterLoss AfterLoss
	// LeaseTTL is how long a holder may spend a lease before it must ask again.
	LeaseTTL time.Duration
	// Slack is the cold-key debt that the rule tolerates, in tokens.
	Slack int64
	// Block refuses every request in scope, without a time to come back.
	Block bool
	// Secret says that keys are never to be shown, logged or stored in clear.
	Secret bool
	// IPv6Prefix is how many bits of an IPv6 address make the key, 1 to 128.
	IPv6Prefix int
	// Normalize says which spellings of a key part are the same.
	Normalize Normalize
	// Overrides are negotiated limits by key text as written; Quota looks them up by key.
	Overrides map[string]Override

	quotas   map[string]Quota // by canonical key; nil without overrides
	own      Quota
	bringing bool // keys bring their quotas along: it is RequestLimits
}

// usualTTL is the TTL of a rule that does not say one.
func (r *Rule) usualTTL() time.Duration {
	if r.Algorithm == Concurrency {
		return usualSlotTTL
	}
	return usualLeaseTTL
}

// Mode says whether a rule refuses.
type Mode uint8

const (
	// Enforce refuses what is over the limit.
	Enforce Mode = iota
	// Shadow decides, counts and reports, and never refuses.
	Shadow
	// Off matches nothing.
	Off
)

// String is the mode as the document writes it.
func (m Mode) String() string { return word(modeWords(), int(m)) }

// OnUnavailable says what a rule does while the coordinator is out of reach.
type OnUnavailable uint8

const (
	// Local decides from a bucket of this instance: the fallback, or a share of the limit.
	Local OnUnavailable = iota
	// Allow lets everything pass: fail open.
	Allow
	// Deny refuses everything: fail closed.
	Deny
)

// String is the policy as the document writes it.
func (o OnUnavailable) String() string { return word(onUnavailableWords(), int(o)) }

// Missing says what a rule does with a request that lacks a part of its key.
type Missing uint8

const (
	// MissingSkip leaves the request alone: the rule does not apply.
	MissingSkip Missing = iota
	// MissingShared lets all such requests share one budget.
	MissingShared
	// MissingDeny refuses the request.
	MissingDeny
)

// String is the policy as the document writes it.
func (m Missing) String() string { return word(missingWords(), int(m)) }

// AfterLoss says what a budget is that was not heard of since the store lost its data.
type AfterLoss uint8

const (
	// Caution takes it as spent when the data was lost.
	Caution AfterLoss = iota
	// Full takes it as whole: what was spent before can be spent again.
	Full
)

// String is the policy as the document writes it.
func (a AfterLoss) String() string { return word(afterLossWords(), int(a)) }

// The words of the document, in the order of the constants: the parser, Marshal and String all read these.
func modeWords() []string          { return []string{"enforce", "shadow", "off"} }
func onUnavailableWords() []string { return []string{"local", "allow", "deny"} }
func afterLossWords() []string     { return []string{"caution", "full"} }
func missingWords() []string       { return []string{"skip", "shared", "deny"} }

func word(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return "unknown"
}
