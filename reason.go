package leaseway

import "fmt"

// Reason says why a request was refused, or let through against the rule's
// word. The set is closed. It is a number here, and a word in text: in JSON, in headers, in logs.
type Reason uint8

// The reasons, each with its word.
const (
	// ReasonNone: allowed, within every rule that matched. The word is empty.
	ReasonNone Reason = iota
	// ReasonOverLimit, over_limit: the caller's budget is used up. HTTP 429.
	ReasonOverLimit
	// ReasonTooManyInFlight, too_many_in_flight: as many requests of the caller are in flight as may be. HTTP 429.
	ReasonTooManyInFlight
	// ReasonCostExceedsLimit, cost_exceeds_limit: the cost is above the capacity; waiting never helps. HTTP 429.
	ReasonCostExceedsLimit
	// ReasonBlocked, blocked: the rule blocks the key. HTTP 429.
	ReasonBlocked
	// ReasonMissingKey, missing_key: the rule demands a key that the request lacks. HTTP 429.
	ReasonMissingKey
	// ReasonShedWorker, shed_worker: this process is busy, and serves what matters more. HTTP 503.
	ReasonShedWorker
	// ReasonShedFleet, shed_fleet: the fleet is busy, and what is left of it is for critical requests. HTTP 503.
	ReasonShedFleet
	// ReasonUnavailable, unavailable: no coordinator answered and the rule says deny. HTTP 503.
	ReasonUnavailable
	// ReasonDelayed, delayed: a leaky bucket would hold the request for longer than
	// whoever asked can. Only doors say it, never the SDK. HTTP 429.
	ReasonDelayed
	// ReasonInvalid, invalid: the request itself is not one, such as a negative cost. HTTP 400.
	ReasonInvalid
)

// String returns the reason's word, "unknown" for a number that is none.
func (r Reason) String() string {
	switch r {
	case ReasonNone:
		return ""
	case ReasonOverLimit:
		return "over_limit"
	case ReasonTooManyInFlight:
		return "too_many_in_flight"
	case ReasonCostExceedsLimit:
		return "cost_exceeds_limit"
	case ReasonBlocked:
		return "blocked"
	case ReasonMissingKey:
		return "missing_key"
	case ReasonShedWorker:
		return "shed_worker"
	case ReasonShedFleet:
		return "shed_fleet"
	case ReasonUnavailable:
		return "unavailable"
	case ReasonDelayed:
		return "delayed"
	case ReasonInvalid:
		return "invalid"
	default:
		return "unknown"
	}
}

// MarshalText writes the reason's word.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads a reason's word. The error is for one that is none.
func (r *Reason) UnmarshalText(text []byte) error {
	for known := ReasonNone; known <= ReasonInvalid; known++ {
		if known.String() == string(text) {
			*r = known

			return nil
		}
	}

	return fmt.Errorf("%q is no reason: reasons are words such as over_limit", text)
}
