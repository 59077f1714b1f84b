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
	"math/bits"
	"slices"

	"github.com/leaseway/leaseway/internal/rate"
)

// Guard is added to a lease's TTL on the ledger's side, so that the holder,
// whose clock may run slower, has stopped before the ledger forfeits: 50 ms.
const Guard = 50_000

// MaxTakes bounds the takes of one ask.
const MaxTakes = 64

// State is the ledger of one (rule, key). The zero value is a full bucket that
// nobody holds tokens of.
type State struct {
	TAT    rate.Time // when the bucket is full again, leased tokens included
	Now    int64     // the store's time at the last event, µs
	Terms  Terms     // what it was last charged under
	Leases []Lease   // live ones, in no order
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
	Seq     uint64 // of the last ask applied
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

	i := s.find(ask.Holder)
	if i >= 0 && ask.Seq <= s.Leases[i].Seq {
		if ask.Seq < s.Leases[i].Seq {
			return Answer{Status: Superseded, Seq: ask.Seq}
		}

		taken := s.Leases[i].Taken
		short := s.Leases[i].Granted < ask.RaiseTo || bits.OnesCount64(taken) < len(ask.Takes)

		return s.answer(i, taken, Answer{Stale: stale, Seq: ask.Seq, Short: short})
	}

	if i >= 0 && s.Leases[i].ID != ask.Lease {
		s.drop(i, s.Now) // it names another one: this one is taken as spent
		i = -1
	}

	if i < 0 {
		i = s.open(ask)
		ask.RaiseTo -= ask.Spent // an unknown lease's S is not believed
		ask.Spent = 0
	}

	l := &s.Leases[i]
	l.Seq = ask.Seq
	s.settle(l, ask)
	s.giveBack(l, ask)
	taken, refused := s.grant(l, ask)
	l.Taken = taken
	l.Exp = s.Now + s.Terms.TTL + Guard

	a := Answer{Stale: stale, Seq: ask.Seq, Short: refused || l.Granted < ask.RaiseTo}
	a = s.answer(i, taken, a)

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
		o += s.Leases[i].left()
	}

	return o
}

// Idle reports whether at now the ledger says no more than a missing one would: full, and held by nobody.
func (s *State) Idle(now int64) bool {
	return len(s.Leases) == 0 && !rate.At(now).Less(s.TAT)
}

// Lost marks the ledger as one whose past was lost at the instant loss: it
// counts as empty then, since its tokens may have been spent.
func (s *State) Lost(loss int64) {
	s.TAT = s.TAT.Max(s.Terms.Bucket.Add(rate.At(loss), s.Terms.Bucket.Burst))
}

// observe moves the ledger to now. A clock that stepped back shifts what is
// kept by the difference, so nothing waits for the old time to come again.
func (s *State) observe(now int64) {
	if back := now - s.Now; back < 0 {
		s.TAT = s.TAT.Shift(back)
		for i := range s.Leases {
			s.Leases[i].Exp += back
		}
	}

	s.Now = now
}

// adopt goes over to newer terms, keeping the level in tokens, and reports
// whether the terms that were offered are older than those it keeps.
func (s *State) adopt(terms Terms) (stale bool) {
	if terms.older(s.Terms) {
		return true
	}

	if s.Terms.Bucket.Burst > 0 {
		s.TAT = terms.Bucket.Rebase(s.Now, s.TAT, s.Terms.Bucket)
	}

	s.Terms = terms

	return false
}

// forfeit drops the leases whose time is over, oldest first.
func (s *State) forfeit() {
	for {
		oldest := -1

		for i := range s.Leases {
			if s.Leases[i].Exp <= s.Now && (oldest < 0 || s.Leases[i].Exp < s.Leases[oldest].Exp) {
				oldest = i
			}
		}

		if oldest < 0 {
			return
		}

		s.drop(oldest, s.Leases[oldest].Exp)
	}
}

// drop takes lease i as spent at the instant at, which is the worst that its holder may have done.
func (s *State) drop(i int, at int64) {
	s.lift(at, s.Outstanding())
	s.Leases = slices.Delete(s.Leases, i, i+1)
}

// lift raises the level to the n tokens that occupy the bucket at the instant at.
func (s *State) lift(at, n int64) { s.TAT = s.TAT.Max(s.after(rate.At(at), n)) }

// after returns t moved by the time of n tokens, for n of any size.
func (s *State) after(t rate.Time, n int64) rate.Time {
	return s.Terms.Bucket.Add(t, max(-s.Terms.Bucket.Burst, min(n, s.Terms.Bucket.Burst)))
}

func (s *State) find(holder uint64) int {
	return slices.IndexFunc(s.Leases, func(l Lease) bool { return l.Holder == holder })
}

func (s *State) open(ask Ask) int {
	s.Leases = append(s.Leases, Lease{Holder: ask.Holder, ID: leaseID(s.Now, ask.Seq), Debt: ask.DebtAcked})

	return len(s.Leases) - 1
}

// leaseID makes an id that no other lease of the holder has: the store's time,
// and a part of the seq to tell leases of one microsecond apart. It does not
// repeat when an old ask comes again or when the ledger was lost, and stays
// below 2^53 until the year 2041.
func leaseID(now int64, seq uint64) uint64 { return uint64(now)<<2 | seq&3 }

// settle takes in what the holder spent and owes.
func (s *State) settle(l *Lease, ask Ask) {
	out := s.Outstanding()

	if ask.Spent > l.Spent {
		// The tokens occupied the bucket until they were spent: lift to what
		// was outstanding then, which is never more than now's.
		began := s.after(rate.At(s.Now-ask.Lag), ask.unspent(l.Granted)+out-l.left())
		s.TAT = s.TAT.Max(began.Min(s.after(rate.At(s.Now), out)))
	} else {
		s.lift(s.Now, out)
	}

	s.spend(l, ask.Spent)
	s.lift(s.Now, s.Outstanding()) // before the debt, which would vanish in it otherwise
	s.owe(l, ask)
	s.lift(s.Now, s.Outstanding())
}

// spend notes the holder's total. More than was granted, which a store that
// lost a grant can hear, is charged now.
func (s *State) spend(l *Lease, spent int64) {
	l.Spent = max(l.Spent, spent)

	if over := l.Spent - l.Granted; over > 0 {
		s.charge(over)
		l.Granted = l.Spent
	}
}

// owe charges debt, or credits a refund when the total went down. A credit
// counts only on a lease that the ask names, so that a late copy finds nothing to credit.
func (s *State) owe(l *Lease, ask Ask) {
	more := ask.Debt - l.Debt
	if more < 0 && l.ID != ask.Lease {
		return
	}

	if more > 0 {
		s.charge(more)
	} else {
		s.TAT = s.after(s.TAT, more)
	}

	l.Debt = ask.Debt
}

// charge takes n tokens that were spent already, whether the bucket holds them
// or not: up to a burst below empty, so that no report blocks a key for long.
func (s *State) charge(n int64) {
	floor := s.after(s.after(rate.At(s.Now), s.Terms.Bucket.Burst), s.Terms.Bucket.Burst)
	s.TAT = s.TAT.Max(s.after(s.TAT, n).Min(floor))
}

// giveBack takes back what the holder struck from its balance.
func (s *State) giveBack(l *Lease, ask Ask) {
	if r := l.Granted - max(ask.RaiseTo, l.Spent); r > 0 {
		l.Granted -= r
		s.TAT = s.after(s.TAT, -r)
	}
}

// grant gives the takes and the needs, in order, each whole or not at all, and
// then leases up to the fair share of what is left.
func (s *State) grant(l *Lease, ask Ask) (taken uint64, refused bool) {
	b := s.Terms.Bucket
	avail := b.Avail(s.Now, s.TAT)
	left := avail
	refused = len(ask.Takes) > MaxTakes || len(ask.Needs) > MaxTakes

	for i, cost := range ask.Takes[:min(len(ask.Takes), MaxTakes)] {
		if cost < 0 || cost > left {
			refused = true

			continue
		}

		left -= cost
		taken |= 1 << i
	}

	for _, cost := range ask.Needs[:min(len(ask.Needs), MaxTakes)] {
		// What an answer that was lost has granted already is not granted again.
		cost = min(cost, max(0, ask.RaiseTo-l.Granted))
		if cost < 0 || cost > left {
			refused = true

			continue
		}

		left -= cost
		l.Granted += cost
	}

	leased := max(0, min(ask.RaiseTo-l.Granted, s.share(left)))
	l.Granted += leased
	s.TAT = b.Add(s.TAT.Max(rate.At(s.Now)), avail-left+leased)

	return taken, refused
}

// share is how much of avail one holder may lease. Alone it may have all. With
// others, each leaves a part for everybody and for one that comes new; once the
// bucket is scarce it leaves half, since they all wait (askAgain) while tokens
// collect, and what is left then serves nobody. In all, at most four fifths of
// the burst are leased, so that takes always find something.
func (s *State) share(avail int64) int64 {
	burst := s.Terms.Bucket.Burst

	if others := int64(len(s.Leases) - 1); others > 0 {
		if avail < burst/2 {
			avail = (avail + 1) / 2
		} else {
			avail /= others + 2
		}
	}

	return min(avail, burst*4/5-s.Outstanding())
}
