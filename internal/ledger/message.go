package ledger

import "github.com/leaseway/leaseway/internal/rate"

// Terms are what a rule (or an override) says about one key's budget.
type Terms struct {
	Algorithm rate.Algorithm
	// Bucket has the capacity (Burst) of every algorithm, and the rate of the
	// buckets; for windows and the log the rate is an average that nothing exact is made of.
	Bucket   rate.Bucket
	Length   int64    // of a window or log, µs; 0 for buckets and calendar windows
	Calendar Calendar // of a calendar window
	Version  uint64   // of the rule
	Revision uint64   // of the override; 0 without one
	TTL      int64    // of a lease, µs
	Share    int64    // of slots: what percentage of the sum of offers their number is, instead of the burst; it does not travel
	Whole    bool     // a ledger whose past the store lost begins with nothing used; it does not travel
}

// Calendar is a calendar window, and the end of the one after it: a store knows
// no time zones, so the coordinator tells it the edges. µs; zero for other windows.
type Calendar struct{ Start, End, Next int64 }

// span returns the window that now is in.
func (t *Terms) span(now int64) rate.Span {
	switch c := t.Calendar; {
	case c.End == 0:
		return rate.Aligned(now, max(1, t.Length))
	case now < c.End:
		return rate.Span{Start: c.Start, End: c.End}
	default:
		return rate.Span{Start: c.End, End: c.Next}
	}
}

// After returns the length of the window after the present one, µs.
func (t *Terms) After() int64 {
	if c := t.Calendar; c.End != 0 {
		return c.Next - c.End
	}

	return t.Length
}

func (t *Terms) sliding() rate.Sliding {
	return rate.Sliding{Limit: t.Bucket.Burst, Length: max(1, t.Length)}
}

func (t *Terms) log() rate.Log { return rate.Log{Limit: t.Bucket.Burst, Length: t.Length} }

// bucket reports whether the budget is a level that drains.
func (t *Terms) bucket() bool {
	return t.Algorithm == rate.TokenBucket || t.Algorithm == rate.LeakyBucket
}

// counts reports whether budgets under t and u count alike at now, whatever their limits.
func (t *Terms) counts(u *Terms, now int64) bool {
	if t.bucket() || u.bucket() {
		return t.bucket() && u.bucket()
	}

	return t.Algorithm == u.Algorithm && t.Length == u.Length && t.edges(u, now)
}

// edges reports whether a window under u that is not over at now ends as it does
// under t. Those of a calendar move on by themselves, but a new version may have others.
func (t *Terms) edges(u *Terms, now int64) bool {
	if t.Calendar == u.Calendar || t.Version == u.Version {
		return true
	}

	old := u.span(now)

	return now >= old.End || t.span(now) == old
}

func (t *Terms) older(u *Terms) bool {
	return t.Version < u.Version || t.Version == u.Version && t.Revision < u.Revision
}

// Ask is one holder's message about one key.
type Ask struct {
	Holder     uint64  // incarnation: random, new at every start
	Seq        uint64  // one counter per process, never reset; above 0
	Lease      uint64  // the lease that the holder knows, 0 for none
	Spent      int64   // S: spent of it, a total
	Lag        int64   // µs since the spending could have begun to refill, told for S; may be negative
	LagFrac    int64   // 1/Q µs that it began later than that
	Debt       int64   // D: admitted without a lease, less what was refunded; a total over the incarnation
	DebtAcked  int64   // the part of Debt that an answer has confirmed
	Takes      []int64 // costs of requests that wait now, in order
	Needs      []int64 // like Takes, but to be leased: requests that other rules must agree to as well
	RaiseTo    int64   // the total up to which it wants G, Needs included; below G it is a return
	Ended      uint64  // a lease that ended with its window, 0 for none
	EndedSpent int64   // its final S: the rest was not spent
	Ahead      bool    // it is about the next window: RaiseTo tokens of it, and nothing else
	Keep       bool    // keep the lease's record although nothing is left on it
	Long       bool    // the lease may live for Terms.Long, if it is small enough
	Slots      bool    // it is about slots: Spent of them are in flight now, Needs wait for some, RaiseTo are wanted in all
	Offer      int64   // of an ask about slots: what the holder adds to their number, where the holders make it up
	Name       uint64  // hash of the holder's configured name, 0 for none; it does not travel
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
	Ahead  bool   // it is about the next window, which begins when Window.Left is over
	Seq    uint64 // of the ask
	Lease  uint64 // 0: the holder has none now
	Taken  uint64 // bit i: take i was given

	Granted int64 // G: the lease's total
	Spent   int64 // S as the ledger has it
	Debt    int64 // D that was charged

	TTL      int64     // how long the lease lives, µs: to the end of its window at most
	Level    rate.Time // of a bucket: tat - now, the time until it is full
	Window   Window    // of a window or log
	Others   int64     // tokens that other holders have
	Holders  int64     // how many hold a lease, this one included
	AskAgain int64     // µs until asking can bring more, 0 for at once
	Short    bool      // less was given than was asked for

	Terms Terms
}

// Window is how far a window or log is used.
type Window struct {
	Left int64 // µs until the window ends, or the log forgets everything
	Used int64 // tokens, leased ones included
	Prev int64 // tokens of the window before, of a sliding one

	Refused int64 // the first cost that was refused, 0 for none
	Wait    int64 // µs until it can pass, -1 for never
}

// answer fills in a with what lease i has now.
func (s *State) answer(i int, taken uint64, a Answer) Answer {
	l := s.Leases[i]

	a.Lease, a.Taken = l.ID, taken
	a.Granted, a.Spent, a.Debt = l.Granted, l.Spent, l.Debt
	a.Others = s.others
	a.Holders = int64(len(s.Leases))
	a.Terms = s.Terms
	a.TTL = s.Terms.TTL

	if s.Terms.bucket() {
		a.Level = s.TAT.Max(rate.At(s.Now)).Shift(-s.Now)
	} else {
		a.Window = s.window()
	}

	if s.Terms.Algorithm.Windowed() {
		a.TTL = min(a.TTL, a.Window.Left)
	}

	s.Leases[i].Due = 0
	if a.Short {
		a.AskAgain = s.askAgain(i, a.Others)
	}

	return a
}

// window returns how far a window or log is used.
func (s *State) window() Window {
	if s.Terms.Algorithm == rate.SlidingLog {
		l := s.Terms.log()

		return Window{Left: l.Clear(s.Log, s.Now), Used: l.Used(s.Log)}
	}

	return Window{Left: s.Terms.span(s.Now).End - s.Now, Used: s.Window.Used, Prev: s.Window.Prev}
}
