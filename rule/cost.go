package rule

import "strconv"

// Cost is what one request takes under a rule.
type Cost struct {
	// Tokens is at least 1; it stands also for a request whose Header is absent or no number from 1 to MaxCost.
	Tokens int64
	// Header is the canonical name of the header that says the cost; empty: always Tokens.
	Header string
}

// MaxCost is the largest cost of one request, in tokens.
const MaxCost = 1 << 40

// CostOf is what req takes under r, in tokens: its own cost, or else the rule's. It is at least 1 unless req.Cost is negative,
// which is for the door to refuse.
func (r *Rule) CostOf(req *Request) int64 {
	if req.Cost != 0 {
		return min(req.Cost, MaxCost)
	}
	if r.Cost.Header == "" {
		return r.Cost.Tokens
	}
	if values := req.Headers[r.Cost.Header]; len(values) > 0 && len(values[0]) <= len("1099511627776") {
		if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= 1 && n <= MaxCost {
			return n
		}
	}
	return r.Cost.Tokens
}
