package rule

import "strings"

// Cost is what one request takes under a rule.
type Cost struct {
	// Tokens is at least 1; it stands also for a request whose Header is absent or no whole number from 1 on.
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
	if values := req.Headers[r.Cost.Header]; len(values) > 0 {
		if n := wholeCost(values[0]); n > 0 {
			return n
		}
	}

	return r.Cost.Tokens
}

// wholeCost reads a whole number, at most MaxCost of it: a request that says more must not cost less. It is 0 for anything else.
func wholeCost(text string) (n int64) {
	text = strings.TrimPrefix(text, "+")

	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 { //nolint:mnd // as in the decimal system
			return 0
		}

		n = min(n*10+int64(digit), MaxCost) //nolint:mnd // as above
	}

	return n
}
