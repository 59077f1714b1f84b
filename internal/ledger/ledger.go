// Package ledger is the store's side of a lease: how full one (rule, key) is,
// and which holder has which tokens of it.
//
// A holder asks; the ledger applies the ask at the store's time and answers:
//
//	forfeit → order → lift → settle → return → grant → answer
//
// The invariant, at every event: the tokens that holders have and did not yet
// spend still occupy the bucket (tat >= now + O·T), and the bucket never holds
// more than its burst. A report of spending only lowers O, a grant or a return
// moves tokens between the level and O, and refill adds at most the rate. So in
// any interval of length t at most B + rate·t requests are admitted, whatever
// the TTL and whatever the network does to asks and answers.
//
// The package is pure: the store calls Apply inside its own atomicity, with its
// own clock. Its neighbours are rate (the arithmetic below it) and holder (the
// other side of the conversation).
package ledger

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
)

// Guard is added to a lease's TTL on the ledger's side, so that the holder,
// whose clock may run slower, has stopped before the ledger forfeits: 50 ms.
const Guard = 50_000

// MaxTakes bounds the takes of one ask.
const MaxTakes = 64

// State is the ledger of one (rule, key). The zero value is a budget that
// nothing was spent of. Which of TAT, Window and Log counts, Terms.Algorithm says.
type State struct {
	TAT    rate.Time        // of a bucket: when it is full again, leased tokens included
	Window rate.Window      // of a window: what is used of it, leased tokens included
	Log    []rate.Admission // of a log, oldest first
	Now    int64            // the store's time at the last event, µs
	Terms  Terms            // what it was last charged under
	Leases []Lease          // live ones, in no order; in a window only those of the present one
	Old    []Lease          // of a window: that ended in it, and of a sliding one in the one before, until their final S is told
	Ahead  Ahead            // of a fixed window: what is leased of the next one
	Slots  slots.State      // of what is in flight: who has how many

	others int64 // O without the lease that Apply works on, which no step of it changes
}

// Lease is what one holder incarnation has of a ledger. Granted and Spent are
// totals over the lease's life, Debt over the incarnation's, so that a message
// that is lost, doubled or late can be answered again without counting twice.
type Lease struct {
	Holder  uint64 // the incarnation
	ID      uint64 // when it was opened, and by which ask: see leaseID
	Granted int64
	Spent   int64
	Debt    int64
	Exp     int64  // µs of the store's time
	Due     int64  // when it was told to ask again while tokens are scarce, µs of the store's time; 0: it was not. Of an old one: see await
	Seq     uint64 // of the last ask applied
	Version uint64 // of the rule that it was granted under
	Taken   uint64 // its answer: which takes it was given
}

// left is what the holder may still spend.
func (l Lease) left() int64 { return l.Granted - l.Spent }

// Apply handles one ask at the store's time now, under the terms that the
// coordinator found for the key, and returns the answer.
func (s *State) Apply(now int64, terms Terms, ask Ask) Answer {
	s.observe(now)
	s.forfeit() // under the terms that the leases were charged with
	stale := s.adopt(terms)

	if ask.Slots || s.Terms.Algorithm == rate.Concurrency {
		return s.inFlight(ask, stale)
	}

	s.roll()
	s.final(ask)

	if ask.Ahead {
		return s.ahead(ask)
	}

	i := s.find(ask.Holder)
	if i >= 0 && ask.Seq <= s.Leases[i].Seq {
		if ask.Seq < s.Leases[i].Seq {
			return Answer{Status: Superseded, Seq: ask.Seq}
		}

		taken := s.Leases[i].Taken
		short := s.Leases[i].Granted < ask.RaiseTo || bits.OnesCount64(taken) < len(ask.Takes)

		s.others = s.Outstanding() - s.Leases[i].left()

		return s.answer(i, taken, Answer{Stale: stale, Seq: ask.Seq, Short: short})
	}

	if i >= 0 && s.Leases[i].ID != ask.Lease {
		s.drop(i, s.Now) // it names another one: this one is taken as spent
		i = -1
	}

	if i < 0 {
		s.giveBackAhead(ask)
		i = s.open(ask)
		ask.RaiseTo -= ask.Spent // an unknown lease's S is not believed
		ask.Spent = 0
	}

	l := &s.Leases[i]
	l.Seq = ask.Seq
	s.others = s.Outstanding() - l.left()
	s.settle(l, ask)
	s.giveBack(l, ask)
	taken, refused := s.grant(l, ask)
	l.Taken = taken
	ttl := s.lives(l, &ask)
	l.Exp = s.Now + ttl + Guard

	a := Answer{Stale: stale, Seq: ask.Seq, Short: refused > 0 || l.Granted < ask.RaiseTo}
	a = s.answer(i, taken, a)

	if ttl > s.Terms.TTL {
		a.TTL = ttl
	}

	if refused > 0 && !s.Terms.bucket() {
		a.Window.Refused, a.Window.Wait = refused, s.Wait(refused)
	}

	if l.left() == 0 && l.Debt == ask.Debt && ask.DebtAcked == ask.Debt && ask.RaiseTo <= l.Granted && !ask.Keep {
		s.Leases = slices.Delete(s.Leases, i, i+1) // nothing left to remember
		a.Lease, a.Granted = 0, 0
	}

	return a
}

// Outstanding returns O: tokens that holders have and, as far as is known, did not spend.
func (s *State) Outstanding() int64 {
	var o int64
	for i := range s.Leases {
		l := &s.Leases[i]
		o += l.Granted - l.Spent
	}

	return o
}

// observe moves the ledger to now. A clock that stepped back shifts what is
// kept by the difference, so nothing waits for the old time to come again.
func (s *State) observe(now int64) {
	if back := now - s.Now; back < 0 {
		s.TAT = s.TAT.Shift(back)
		for i := range s.Log {
			s.Log[i].At += back
		}

		for i := range s.Old {
			s.Old[i].Exp += back
		}

		if s.Ahead.Start != 0 {
			s.Ahead.Start = s.Terms.span(now).End
		}

		for i := range s.Leases {
			s.Leases[i].Exp += back
			s.Leases[i].Due = 0
		}

		s.Slots.Shift(back)
	}

	s.Now = now
}

// forfeit drops the leases whose time is over, oldest first, each as if it were
// the only one. A whole fleet's can end at once: that must not cost its square.
func (s *State) forfeit() {
	if !s.over() {
		return
	}

	gone := func(l Lease) bool { return l.Exp <= s.Now }

	var few [8]Lease

	ended, out := few[:0], int64(0)

	for _, l := range s.Leases {
		out += l.left()

		if gone(l) {
			ended = append(ended, l)
		}
	}

	slices.SortStableFunc(ended, func(a, b Lease) int { return cmp.Compare(a.Exp, b.Exp) })

	for _, l := range ended {
		s.lift(l.Exp, out)
		out -= l.left()
		s.await(l)
	}

	s.Leases = slices.DeleteFunc(s.Leases, gone)
}

// over reports whether the time of any lease is over. It, like whatever looks at
// all leases for each ask, copies none: a fleet can have ten thousand.
func (s *State) over() bool {
	for i := range s.Leases {
		if s.Leases[i].Exp <= s.Now {
			return true
		}
	}

	return false
}

// drop takes lease i as spent at the instant at, which is the worst that its holder may have done.
func (s *State) drop(i int, at int64) {
	s.lift(at, s.Outstanding())
	s.Leases = slices.Delete(s.Leases, i, i+1)
}

func (s *State) find(holder uint64) int {
	for i := range s.Leases {
		if s.Leases[i].Holder == holder {
			return i
		}
	}

	return -1
}

func (s *State) open(ask Ask) int {
	s.Leases = append(s.Leases, Lease{
		Holder: ask.Holder, ID: leaseID(s.Now, ask.Seq), Debt: ask.DebtAcked, Version: s.Terms.Version,
	})

	return len(s.Leases) - 1
}

// leaseID makes an id that no other lease of the holder has: the store's time,
// and a part of the seq to tell leases of one microsecond apart. It does not
// repeat when an old ask comes again or when the ledger was lost, and stays
// below 2^53 until the year 2041.
func leaseID(now int64, seq uint64) uint64 { return uint64(now+1)<<2 | seq&3 }
