package ledger

import (
	"slices"

	"github.com/leaseway/leaseway/internal/rate"
)

// What follows is how the ledger hears what became of a lease that has ended. A
// bucket does without: what was left of it counts as spent, and refills. In a
// window it would be lost until that ends, which can be a year.

const (
	// finalWithin is for how long a final S is waited for after a lease was found to have ended in its window, µs: ten minutes.
	finalWithin = 600_000_000
	// finalMost bounds the leases that are waited for so.
	finalMost = 64
)

// await remembers a lease whose time was over in its window until its final S is
// told. Its Due says so: it is 0 of those that ended with the window before.
func (s *State) await(l Lease) {
	if !s.Terms.Algorithm.Windowed() || l.Granted == 0 || len(s.Old) >= finalMost {
		return
	}

	l.Exp, l.Due = s.Now+finalWithin, s.Now
	s.Old = append(s.Old, l)
}

// final takes in how much was spent of a lease that has ended: with the window
// before, or in the present one, in which the ledger may not have noticed yet.
func (s *State) final(ask Ask) {
	named := func(l Lease) bool { return l.Holder == ask.Holder && l.ID == ask.Ended }

	switch {
	case ask.Ended == 0 || !s.Terms.Algorithm.Windowed():
	case slices.ContainsFunc(s.Leases, named):
		i := slices.IndexFunc(s.Leases, named)
		s.correct(s.Leases[i].Granted - max(s.Leases[i].Spent, ask.EndedSpent))
		s.Leases = slices.Delete(s.Leases, i, i+1)
	case slices.ContainsFunc(s.Old, named):
		i := slices.IndexFunc(s.Old, named)
		left := s.Old[i].Granted - max(s.Old[i].Spent, ask.EndedSpent)

		if s.Terms.Algorithm == rate.SlidingWindow && s.Old[i].Due == 0 {
			s.Window.Prev = max(0, s.Window.Prev-max(0, left))
		} else {
			s.correct(left)
		}

		s.Old = slices.Delete(s.Old, i, i+1)
	}
}

// correct takes what was left of a lease that has ended out of the count of the
// present window. What is below 0 was spent over what was granted, as a store that lost a grant can hear, and is charged.
func (s *State) correct(left int64) {
	if left < 0 {
		s.charge(-left)
	} else {
		s.credit(left)
	}
}
