package ledger

import (
	"slices"

	"github.com/leaseway/leaseway/internal/rate"
)

// Ahead is what was leased of a fixed window that has not begun. Holders of a
// busy key ask for it before the present one ends, each a little earlier or
// later than the others, so that they need not all ask in the moment in which
// the window turns. What a sliding window may lease depends on how the present
// one ends, so it has none.
type Ahead struct {
	Start  int64 // of the window; 0: nothing is leased ahead
	Used   int64
	Leases []Lease
}

// ahead answers an ask for the window after the present one: its leases are
// valid from that window's start, which the holder counts from when it hears of it.
func (s *State) ahead(ask Ask) Answer {
	a := Answer{Seq: ask.Seq, Ahead: true, Terms: s.Terms, Window: s.window(), Holders: 1}
	a.TTL = min(s.Terms.TTL, s.Terms.After())

	if s.Terms.Algorithm != rate.FixedWindow {
		return a
	}

	if next := s.Terms.span(s.Now).End; s.Ahead.Start != next {
		// A clock that stepped back takes the count with it.
		s.Ahead.Start = next
	}

	i := slices.IndexFunc(s.Ahead.Leases, func(l Lease) bool { return l.Holder == ask.Holder })

	switch {
	case i < 0:
		i = s.openAhead(ask)
	case ask.Seq < s.Ahead.Leases[i].Seq:
		return Answer{Status: Superseded, Seq: ask.Seq, Ahead: true}
	case ask.Seq > s.Ahead.Leases[i].Seq:
		// It did not hear of that lease, or used it already, after a clock that stepped back: it is taken as spent.
		s.Ahead.Leases = slices.Delete(s.Ahead.Leases, i, i+1)
		i = s.openAhead(ask)
	}

	l := &s.Ahead.Leases[i]
	a.Lease, a.Granted, a.Holders = l.ID, l.Granted, int64(len(s.Ahead.Leases))

	return a
}

// openAhead leases a fair share of what is left of the next window.
func (s *State) openAhead(ask Ask) int {
	burst := s.Terms.Bucket.Burst
	avail := max(0, burst-s.Ahead.Used)

	// Everyone who holds a lease of this window may want one of the next.
	share := burst * 4 / 5 / max(int64(len(s.Leases)), int64(len(s.Ahead.Leases))+1)
	leased := max(0, min(ask.RaiseTo, share, avail, burst*4/5-s.Ahead.Used))

	s.Ahead.Used += leased
	s.Ahead.Leases = append(s.Ahead.Leases, Lease{
		Holder: ask.Holder, ID: leaseID(s.Now, ask.Seq), Granted: leased, Seq: ask.Seq, Debt: ask.DebtAcked, Version: s.Terms.Version,
	})

	return len(s.Ahead.Leases) - 1
}

// giveBackAhead takes back what a holder that has nothing else strikes from its
// lease of the next window, unless that was asked about later.
func (s *State) giveBackAhead(ask Ask) {
	i := slices.IndexFunc(s.Ahead.Leases, func(l Lease) bool { return l.Holder == ask.Holder && l.ID == ask.Lease })
	if i < 0 || ask.Seq <= s.Ahead.Leases[i].Seq {
		return
	}

	l := &s.Ahead.Leases[i]
	l.Seq = ask.Seq
	r := max(0, l.Granted-ask.RaiseTo)
	l.Granted -= r
	s.Ahead.Used -= r

	if l.Granted == 0 {
		s.Ahead.Leases = slices.Delete(s.Ahead.Leases, i, i+1)
	}
}

// begin makes what was leased ahead the leases of the window that begins.
func (s *State) begin(start int64) {
	if s.Ahead.Start == start {
		s.Window.Used = s.Ahead.Used
		s.Leases = append(s.Leases, s.Ahead.Leases...)

		for i := range s.Leases {
			s.Leases[i].Exp = start + s.Terms.TTL + Guard
		}
	}

	if s.Ahead.Start <= start {
		s.Ahead = Ahead{Leases: s.Ahead.Leases[:0]}
	}
}
