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
	Full  bool // it was full when it was lent
}

// Fleet is what a borrower is told beside its loans.
type Fleet struct {
	Live  int64 // holders that live, at least 1
	Brief bool  // terms can change without a new version of their rule: what is lent should be given back soon
}

// Borrower has buckets while they are lent, and alone knows which. Begin and Recall are called under the lock of
// the ledger, at any time, and must not wait for that.
type Borrower interface {
	// Begin begins a loan of a key's bucket, which was lent.
	Begin(ruleID, key string, lent *Lent)

	// Recall ends the loan of a key's bucket, and returns how that is; ok is false if the borrower does not have it.
	Recall(ruleID, key string) (back Lent, ok bool)

	// ReturnAll gives back whatever it has.
	ReturnAll()
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
