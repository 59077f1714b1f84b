package check

import (
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/leaseway/leaseway"
)

// Answer is a decision as the check door writes it. When several rules matched it speaks of the one with the least left; on
// a refusal, of the one that refused longest. When no rule matched, rule is empty and the numbers are 0.
type Answer struct {
	Allowed       bool   `doc:"Whether the request may pass."                                json:"allowed"`
	Remaining     int64  `doc:"Tokens left, never negative."                                 json:"remaining"`
	RetryAfterSec int64  `doc:"Seconds until it can pass, rounded up; 0: now, or never."     json:"retryAfterSec"`
	Limit         int64  `doc:"The capacity for this key, in tokens."                        json:"limit"`
	ResetSec      int64  `doc:"Seconds until the capacity is whole again, rounded up."       json:"resetSec"`
	Rule          string `doc:"The rule that the numbers speak of; empty when none matched." json:"rule"`
	Reason        Reason `doc:"Why it was refused; empty when allowed within the limit."     json:"reason"`
}

// Reason is a leaseway.Reason, described by its values.
type Reason string

// Schema lists the reasons in the OpenAPI document.
func (Reason) Schema(huma.Registry) *huma.Schema {
	reasons := []leaseway.Reason{
		leaseway.ReasonNone, leaseway.ReasonOverLimit, leaseway.ReasonCostExceedsLimit,
		leaseway.ReasonBlocked, leaseway.ReasonMissingKey, leaseway.ReasonUnavailable,
	}

	schema := &huma.Schema{Type: huma.TypeString}
	for _, reason := range reasons {
		schema.Enum = append(schema.Enum, string(reason))
	}

	return schema
}

// NewAnswer writes down a decision.
func NewAnswer(d leaseway.Decision) Answer {
	return Answer{
		Allowed:       d.Allowed,
		Remaining:     d.Remaining,
		RetryAfterSec: wholeSeconds(d.RetryAfter),
		Limit:         d.Limit,
		ResetSec:      wholeSeconds(d.Reset),
		Rule:          d.Rule,
		Reason:        Reason(d.Reason),
	}
}

// wholeSeconds rounds up, so that nobody comes back too early.
func wholeSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}

	return int64((d-1)/time.Second) + 1
}
