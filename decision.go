package leaseway

import (
	"time"

	"github.com/leaseway/leaseway/rule"
)

// Request is what is known of one request: who asks, for what, at which cost.
type Request = rule.Request

// Origin says what a decision was made from.
type Origin uint8

// The origins.
const (
	// OriginNone: no rule matched.
	OriginNone Origin = iota
	// OriginLease: from tokens in this process's memory, or a refusal it remembers.
	OriginLease
	// OriginStore: the coordinator was asked.
	OriginStore
	// OriginLocal: by the local limit, since no coordinator answered.
	OriginLocal
	// OriginOpen: let through unlimited, since no coordinator answered and the rule says allow.
	OriginOpen
	// OriginClosed: refused, since no coordinator answered and the rule says deny.
	OriginClosed
)

// String returns the origin's name in metrics: none, lease, store, local, open or closed.
func (o Origin) String() string {
	names := [...]string{"none", "lease", "store", "local", "open", "closed"}
	if int(o) < len(names) {
		return names[o]
	}

	return "unknown"
}

// Degraded reports whether the decision was made without a coordinator that should have been asked.
func (o Origin) Degraded() bool { return o >= OriginLocal }

// Decision is the answer for one request. When several rules matched it speaks
// of the one with the least left; on a refusal, of the one that refused longest.
type Decision struct {
	Allowed bool
	Reason  Reason
	Origin  Origin
	Class   rule.Class // how much the request matters; unset from a Rule, which knows no requests

	// ShadowShed is why a shedder in shadow mode would have refused: ReasonShedWorker,
	// ReasonShedFleet, or ReasonNone.
	ShadowShed Reason

	Rule      string        // id of the rule it speaks of; "" when none matched
	Limit     int64         // its capacity for this key, tokens
	Remaining int64         // tokens left, never negative
	Reset     time.Duration // until the capacity is whole again

	// RetryAfter is how long to wait before the same request can pass. Zero when
	// allowed, and on a refusal that waiting does not mend.
	RetryAfter time.Duration

	// Delay is how long an allowed request is to be held back before it is
	// served: a leaky bucket lets them out evenly. Zero for every other algorithm.
	Delay time.Duration

	// Quota tokens per Window are the rule's rate for this key.
	Quota  int64
	Window time.Duration

	// ShadowDenied is the id of the first shadow rule that would have refused.
	ShadowDenied string

	charges charges
}

// Matched reports whether any rule applied, and the answer so carries rate-limit headers.
func (d *Decision) Matched() bool { return d.Rule != "" }
