package check

import (
	"time"

	"github.com/leaseway/leaseway"
)

// Answer is a decision as the check door writes it. When several rules matched it speaks of the one with the least left; on
// a refusal, of the one that refused longest. When no rule matched, rule is empty and the numbers are 0.
type Answer struct {
	Allowed       bool   `doc:"Whether the request may pass."                                                                   json:"allowed"`
	Remaining     int64  `doc:"Tokens left, never negative."                                                                    json:"remaining"`
	RetryAfterSec int64  `doc:"Seconds until the same request can pass, rounded up; 0 when allowed or when waiting never helps." json:"retryAfterSec"` //nolint:lll // tags cannot be broken
	Limit         int64  `doc:"The capacity for this key, in tokens."                                                           json:"limit"`
	ResetSec      int64  `doc:"Seconds until the capacity is whole again, rounded up."                                          json:"resetSec"`
	Rule          string `doc:"The rule that the numbers speak of; empty when none matched."                                    json:"rule"`
	Reason        string `doc:"Why it was refused; empty when allowed." enum:",over_limit,cost_exceeds_limit,blocked,missing_key,unavailable" json:"reason"` //nolint:lll // tags cannot be broken
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
		Reason:        string(d.Reason),
	}
}

// wholeSeconds rounds up, so that nobody comes back too early.
func wholeSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}

	return int64((d-1)/time.Second) + 1
}
