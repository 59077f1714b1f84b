package ledger

import (
	"math"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
)

// What follows is for stores, which keep many ledgers and forget those that say nothing.

// Begin makes s the ledger of a key whose past was lost at the instant loss
// (µs), under terms: empty then, or for a window as far used as it had gone. A
// store calls it for a key that it does not know once it has lost data; a key
// that is merely new is the zero State.
func (s *State) Begin(terms Terms, loss int64) {
	*s = State{Terms: terms, Now: loss, Leases: s.Leases[:0]}
	s.roll()

	if terms.Algorithm == rate.Concurrency {
		s.Slots.Closed = loss + terms.TTL + slots.Guard
	}

	used := terms.Bucket.Burst
	if terms.Algorithm.Windowed() {
		span := terms.span(loss)
		gone := float64(loss-span.Start) / float64(span.End-span.Start)
		used = int64(math.Ceil(gone * float64(used)))
	}

	s.consume(used)
}

// Expire moves the ledger to now without an ask: leases whose time is over are
// forfeited, windows that are over forgotten. A store calls it before it judges
// by Idle what it may forget.
func (s *State) Expire(now int64) {
	s.observe(now)
	s.forfeit()
	s.roll()
	s.Slots.Expire(now)
}

// Idle reports whether at now the ledger says no more than a missing one would:
// nothing is used, and nobody holds anything.
func (s *State) Idle(now int64) bool {
	return len(s.Leases)+len(s.Ahead.Leases) == 0 && s.Ahead.Used == 0 && s.Clear() <= now
}

// Clear returns when nothing will be used any more if nothing else is spent, µs.
func (s *State) Clear() int64 {
	switch s.Terms.Algorithm {
	case rate.FixedWindow:
		if s.Window.Used == 0 {
			return s.Window.Start
		}

		return s.Terms.span(s.Window.Start).End
	case rate.SlidingWindow:
		return s.Window.Start + s.Terms.sliding().Clear(s.Window, 0)
	case rate.SlidingLog:
		return s.Now + s.Terms.log().Clear(s.Log, s.Now)
	case rate.Concurrency:
		return s.Slots.Ends()
	case rate.TokenBucket, rate.LeakyBucket:
	}

	if s.TAT.Frac > 0 {
		return s.TAT.Micros + 1
	}

	return s.TAT.Micros
}

// Pack returns the ledger in two numbers besides its terms, if it has no leases
// and can be said so: a bucket always, a window unless the one before it counts
// or something of the one after it is spent.
func (s *State) Pack() (t rate.Time, ok bool) {
	switch {
	case len(s.Leases)+len(s.Old)+len(s.Ahead.Leases) > 0 || s.Ahead.Used > 0:
		return t, false
	case s.Terms.bucket():
		return s.TAT, true
	case s.Terms.Algorithm.Windowed() && s.Window.Prev == 0:
		return rate.Time{Micros: s.Window.Start, Frac: s.Window.Used}, true
	}

	return t, false
}

// Unpack makes s, whose terms are set, what Pack returned.
func (s *State) Unpack(t rate.Time) {
	if s.Terms.bucket() {
		s.TAT = t
	} else {
		s.Window = rate.Window{Start: t.Micros, Used: t.Frac}
	}
}

// Refilled returns the instant (µs) at which the tokens that are to be had now
// were complete, so that the two say of a bucket what a count and the time of its
// last refill would: of a full one when it filled, of a window when it began, of
// one that is below empty now. 0 for a log and for slots, which do not refill.
func (s *State) Refilled() int64 {
	b := s.Terms.Bucket

	switch {
	case s.Terms.Algorithm.Windowed():
		return s.Terms.span(s.Now).Start
	case !s.Terms.bucket() || b.Burst == 0:
		return 0
	}

	at := b.Add(s.TAT, s.Avail()-b.Burst) // the level had room for so many from then on
	if at.Frac > 0 {
		at.Micros++
	}

	return min(at.Micros, s.Now)
}
