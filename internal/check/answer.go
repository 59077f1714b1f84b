package check

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway"
)

// Answer is a decision as the check door writes it. When several rules matched it speaks of the one with the least left; on
// a refusal, of the one that refused longest. When no rule matched, rule is empty and the numbers are 0.
type Answer struct {
	Allowed       bool   `doc:"Whether the request may pass."                                 json:"allowed"`
	Remaining     int64  `doc:"Tokens left, never negative."                                  json:"remaining"`
	RetryAfterSec int64  `doc:"Seconds until it can pass, rounded up; 0: now, or never."      json:"retryAfterSec"`
	Limit         int64  `doc:"The capacity for this key, in tokens."                         json:"limit"`
	ResetSec      int64  `doc:"Seconds until the capacity is whole again, rounded up."        json:"resetSec"`
	DelayMs       int64  `doc:"Milliseconds to hold an allowed request first, rounded up."    json:"delayMs"`
	Rule          string `doc:"The rule that the numbers speak of; empty when none matched."  json:"rule"`
	Reason        Reason `doc:"Why it was refused; empty when allowed within the limit."      json:"reason"`
	Class         string `doc:"How much the request matters; empty where one rule was asked." json:"class,omitempty"`
	Degraded      bool   `doc:"Whether the coordinator, late or gone, had no part in it."     json:"degraded,omitempty"`
}

// Reason is the word of a leaseway.Reason, described by all there are.
type Reason string

// Schema lists the reasons in the OpenAPI document.
func (Reason) Schema(huma.Registry) *huma.Schema {
	reasons := []leaseway.Reason{
		leaseway.ReasonNone, leaseway.ReasonOverLimit, leaseway.ReasonTooManyInFlight, leaseway.ReasonCostExceedsLimit,
		leaseway.ReasonBlocked, leaseway.ReasonMissingKey, leaseway.ReasonUnavailable, leaseway.ReasonDelayed,
		leaseway.ReasonShedWorker, leaseway.ReasonShedFleet,
	}

	schema := &huma.Schema{Type: huma.TypeString}
	for _, reason := range reasons {
		schema.Enum = append(schema.Enum, reason.String())
	}

	return schema
}

// NewAnswer writes down a decision.
func NewAnswer(d leaseway.Decision) Answer {
	return Answer{
		Allowed:       d.Allowed,
		Remaining:     d.Remaining,
		RetryAfterSec: whole(d.RetryAfter, time.Second),
		Limit:         d.Limit,
		ResetSec:      whole(d.Reset, time.Second),
		DelayMs:       whole(d.Delay, time.Millisecond),
		Rule:          d.Rule,
		Reason:        Reason(d.Reason.String()),
		Class:         d.Class.String(),
		Degraded:      d.Origin.Degraded(),
	}
}

// whole counts units in d, rounded up, so that nobody comes too early.
func whole(d, unit time.Duration) int64 {
	if d <= 0 {
		return 0
	}

	return int64((d-1)/unit) + 1
}
