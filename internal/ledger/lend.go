package ledger

import "github.com/leaseway/leaseway/internal/rate"

// LoanAsk asks to be lent the whole bucket of one key.
type LoanAsk struct {
	Holder  uint64 // the borrower's incarnation
	Name    string // and its name
	Version uint64 // of the rules that it runs
	Rule    string
	Key     string
	MostQ   int64 // the largest Q of a bucket that it can count with
	Tallies []Tally
}

// Lent is a bucket that was lent: it is full at TAT, in the store's time, under Terms.
type Lent struct {
	TAT   rate.Time
	Terms Terms
	Full  bool  // it was full when it was lent
	Live  int64 // holders that live, at least 1
	Brief bool  // its terms can change without a new version of its rule: it should be given back soon
}

// Borrower has a bucket while it is lent.
type Borrower interface {
	// Recall ends the loan, if it is not over, and returns when its bucket is full, in the
	// store's time. It is called under the ledger's lock, at any time, and must not wait for that.
	Recall() rate.Time
}

// Lend brings a ledger to now and to terms, and reports whether it can be lent
// whole: it is a token bucket whose Q is at most mostQ, nobody has a lease of it,
// and the terms are not older than its own. Then it is full at TAT, and says
// nothing until TakeBack.
func (s *State) Lend(now int64, terms Terms, mostQ int64) bool {
	s.observe(now)
	s.forfeit()

	if s.adopt(terms) || s.Terms.Algorithm != rate.TokenBucket || s.Terms.Bucket.Q > mostQ {
		return false
	}

	if len(s.Leases)+len(s.Old)+len(s.Ahead.Leases) > 0 {
		return false
	}

	s.TAT = s.TAT.Max(rate.At(now))

	return true
}

// TakeBack takes back what was lent: the bucket is full at tat.
func (s *State) TakeBack(tat rate.Time) { s.TAT = tat }
