package ledger

import (
	"slices"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
)

// What follows is where the algorithms differ: a bucket has a level that
// drains, a window a count that starts anew, a log the times of everything.
// The State must have been brought to its Now: see roll.

// adopt goes over to newer terms, keeping what is used in tokens, and reports
// whether the terms that were offered are older than those it keeps.
func (s *State) adopt(terms Terms) (stale bool) {
	if terms.older(&s.Terms) {
		return true
	}

	old := s.Terms

	switch {
	case old.Bucket.Burst == 0:
		s.Terms = terms
	case !terms.counts(&old, s.Now):
		// Another way of counting begins with what was used under the last one.
		s.roll()
		s.Slots.Expire(s.Now)
		used := min(old.Bucket.Burst-s.Avail(), terms.Bucket.Burst)
		s.TAT, s.Window, s.Log, s.Old, s.Ahead = rate.Time{}, rate.Window{}, nil, nil, Ahead{}
		s.Slots = slots.State{}

		if terms.Algorithm == rate.Concurrency {
			s.Leases = s.Leases[:0] // tokens are no slots
		}

		s.Terms = terms
		s.roll()
		s.consume(used)
	case terms.bucket():
		s.TAT = terms.Bucket.Rebase(s.Now, s.TAT, old.Bucket)
		s.Terms = terms
	default:
		s.Terms = terms
	}

	return false
}

// roll brings windows and logs to the present. Leases end with their window. A
// fixed one is then forgotten; a sliding one goes on counting what was leased
// of it, but for what a final S says was not spent.
func (s *State) roll() {
	switch {
	case s.Terms.Algorithm.Windowed():
		w := s.Window.Roll(s.Terms.span(s.Now))
		if w.Start != s.Window.Start {
			s.Old = s.Old[:0]

			if s.Terms.Algorithm == rate.SlidingWindow && w.Prev > 0 {
				s.Old = append(s.Old, s.Leases...)
			}

			for i := range s.Old {
				s.Old[i].Exp, s.Old[i].Due = w.Start+s.Terms.TTL, 0
			}

			s.Leases = s.Leases[:0]
			s.Window = w
			s.begin(w.Start)
		}

		s.Window.Start, s.Window.Prev = w.Start, w.Prev
		s.Old = slices.DeleteFunc(s.Old, func(l Lease) bool { return l.Exp <= s.Now })
	case s.Terms.Algorithm == rate.SlidingLog:
		s.Log = s.Terms.log().Prune(s.Log, s.Now)
	}
}

// Avail returns how many tokens are to be had.
func (s *State) Avail() int64 {
	switch s.Terms.Algorithm {
	case rate.FixedWindow:
		return max(0, s.Terms.Bucket.Burst-s.Window.Used)
	case rate.SlidingWindow:
		return s.Terms.sliding().Avail(s.Window, s.Now-s.Window.Start)
	case rate.SlidingLog:
		return max(0, s.Terms.Bucket.Burst-s.Terms.log().Used(s.Log))
	case rate.Concurrency:
		return max(0, s.Terms.Bucket.Burst-s.Slots.Total())
	case rate.TokenBucket, rate.LeakyBucket:
	}

	return s.Terms.Bucket.Avail(s.Now, s.TAT)
}

// Wait returns the µs until n tokens are to be had if nothing more is used, -1 for never.
func (s *State) Wait(n int64) int64 {
	switch s.Terms.Algorithm {
	case rate.FixedWindow:
		if n > s.Terms.Bucket.Burst {
			return -1
		}

		if n <= s.Avail() {
			return 0
		}

		return s.Terms.span(s.Now).End - s.Now
	case rate.SlidingWindow:
		return s.Terms.sliding().Wait(s.Window, s.Now-s.Window.Start, n)
	case rate.SlidingLog:
		return s.Terms.log().Wait(s.Log, s.Now, n)
	case rate.Concurrency:
		return -1 // nobody knows when something finishes
	case rate.TokenBucket, rate.LeakyBucket:
	}

	return s.Terms.Bucket.Wait(s.Now, s.TAT, n)
}

// consume takes n tokens that are there.
func (s *State) consume(n int64) {
	switch {
	case s.Terms.bucket():
		s.TAT = s.Terms.Bucket.Add(s.TAT.Max(rate.At(s.Now)), n)
	case s.Terms.Algorithm == rate.SlidingLog:
		if n > 0 {
			s.Log = s.Terms.log().Add(s.Log, s.Now, n)
		}
	case s.Terms.Algorithm == rate.Concurrency: // who had nothing in flight has nothing now
	default:
		s.Window.Used += n
	}
}

// charge takes n tokens that were spent already, whether they are there or not:
// up to a capacity below empty, so that no report blocks a key for long.
func (s *State) charge(n int64) {
	burst := s.Terms.Bucket.Burst

	if s.Terms.bucket() {
		floor := s.after(s.after(rate.At(s.Now), burst), burst)
		s.TAT = s.TAT.Max(s.after(s.TAT, n).Min(floor))

		return
	}

	s.consume(max(0, min(n, 2*burst-s.used())))
}

// used returns the tokens in use, which can be more than the capacity after a
// change of the rule: of a bucket no more than one above it is told.
func (s *State) used() int64 {
	switch b := s.Terms.Bucket; {
	case s.Terms.Algorithm == rate.SlidingLog:
		return s.Terms.log().Used(s.Log)
	case !s.Terms.bucket():
		return s.Window.Used
	case b.Add(rate.At(s.Now), b.Burst).Less(s.TAT):
		return b.Burst + 1
	default:
		return b.Burst - b.Avail(s.Now, s.TAT)
	}
}

// credit gives n tokens back.
func (s *State) credit(n int64) {
	switch {
	case s.Terms.bucket():
		s.TAT = s.after(s.TAT, -n)
	case s.Terms.Algorithm == rate.SlidingLog:
		s.Log = s.Terms.log().Remove(s.Log, n)
	default:
		s.Window.Used = max(0, s.Window.Used-n)
	}
}

// lift raises a bucket's level to the n tokens that occupy it at the instant
// at. A window counts leased tokens as used until it ends, so nothing can refill under them.
func (s *State) lift(at, n int64) {
	if s.Terms.bucket() {
		s.TAT = s.TAT.Max(s.after(rate.At(at), n))
	} else {
		s.Window.Used = max(s.Window.Used, n)
	}
}

// after returns t moved by the time of n tokens, for n of any size.
func (s *State) after(t rate.Time, n int64) rate.Time {
	return s.Terms.Bucket.Add(t, max(-s.Terms.Bucket.Burst, min(n, s.Terms.Bucket.Burst)))
}
