package ledger

import "github.com/leaseway/leaseway/internal/rate"

// Terms are what a rule (or an override) says about one key's budget.
type Terms struct {
	Bucket   rate.Bucket
	Version  uint64 // of the rule
	Revision uint64 // of the override; 0 without one
	TTL      int64  // of a lease, µs
}

func (t Terms) older(u Terms) bool {
	return t.Version < u.Version || t.Version == u.Version && t.Revision < u.Revision
}

// Ask is one holder's message about one key.
type Ask struct {
	Holder    uint64  // incarnation: random, new at every start
	Seq       uint64  // one counter per process, never reset; above 0
	Lease     uint64  // the lease that the holder knows, 0 for none
	Spent     int64   // S: spent of it, a total
	Lag       int64   // µs since the spending could have begun to refill; see Holder's Lag
	Debt      int64   // D: admitted without a lease, less what was refunded; a total over the incarnation
	DebtAcked int64   // the part of Debt that an answer has confirmed
	Takes     []int64 // costs of requests that wait now, in order
	Needs     []int64 // like Takes, but to be leased: requests that other rules must agree to as well
	RaiseTo   int64   // the total up to which it wants G, Needs included; below G it is a return
	Keep      bool    // keep the lease's record although nothing is left on it
}

// unspent is what the ask leaves of g granted tokens.
func (a Ask) unspent(g int64) int64 { return g - a.Spent }

// Status says how an ask was taken.
type Status uint8

const (
	// OK: it was applied, or applied before and answered again.
	OK Status = iota
	// Superseded: a newer ask of the same holder was applied before; nothing changed.
	Superseded
)

// Answer is what the ledger says to an ask, and all that a holder needs to speak for the key.
type Answer struct {
	Status Status
	Stale  bool   // the terms offered were older than those the ledger keeps; Terms has the newer
	Seq    uint64 // of the ask
	Lease  uint64 // 0: the holder has none now
	Taken  uint64 // bit i: take i was given

	Granted int64 // G: the lease's total
	Spent   int64 // S as the ledger has it
	Debt    int64 // D that was charged

	Level    rate.Time // tat - now: the time until the bucket is full
	Others   int64     // tokens that other holders have
	Holders  int64     // how many hold a lease, this one included
	AskAgain int64     // µs until asking can bring more, 0 for at once
	Short    bool      // less was given than was asked for

	Terms Terms
}

// The scarcity bounds, in µs and per holder: see askAgain.
const (
	scarceFloor     = 100_000
	scarceCeiling   = 1_000_000
	scarcePerHolder = 10
)

// answer fills in a with what lease i has now.
func (s *State) answer(i int, taken uint64, a Answer) Answer {
	l, b := s.Leases[i], s.Terms.Bucket
	level := s.TAT.Max(rate.At(s.Now)).Shift(-s.Now)

	a.Lease, a.Taken = l.ID, taken
	a.Granted, a.Spent, a.Debt = l.Granted, l.Spent, l.Debt
	a.Level = level
	a.Others = s.Outstanding() - l.left()
	a.Holders = int64(len(s.Leases))
	a.Terms = s.Terms

	if a.Short {
		a.AskAgain = askAgain(b, level, a.Holders)
	}

	return a
}

// askAgain says when a holder that got less than it wanted should come again.
// A lone one comes for the next token. Several wait longer once less than a quarter
// of the burst is there, because tokens collect meanwhile, up to a quarter of the
// burst, and none is lost.
func askAgain(b rate.Bucket, level rate.Time, holders int64) int64 {
	avail := b.Avail(0, level)
	next := b.Wait(0, level, min(b.Burst, avail+1))

	if holders < 2 {
		return next
	}

	if avail > 0 && avail >= b.Burst/4 {
		return 0
	}

	quarter := b.Add(rate.Time{}, b.Burst).Micros / 4
	collect := max(scarceFloor, b.Add(rate.Time{}, 1).Micros*scarcePerHolder*holders)
	collect = min(quarter, collect, scarceCeiling)

	if avail > 0 {
		return collect // there is something now: no slow limit may keep it from being asked for
	}

	return max(next, collect)
}
