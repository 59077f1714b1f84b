package ledger

import (
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
)

// fullAgain is how long a holder that found every slot taken waits before it
// asks again, µs: slots come back when requests end, which nobody can foresee.
const fullAgain = 10_000

// inFlight applies an ask under a rule that bounds what is in flight: package slots does the counting.
func (s *State) inFlight(ask Ask, stale bool) Answer {
	a := Answer{Stale: stale, Seq: ask.Seq, Terms: s.Terms, TTL: s.Terms.TTL}

	if !ask.Slots || s.Terms.Algorithm != rate.Concurrency {
		// The rule has changed between slots and tokens, and the holder is yet to
		// hear of it: one is not counted as the other.
		a.Short, a.AskAgain = true, fullAgain

		return a
	}

	terms := slots.Terms{N: s.Terms.Bucket.Burst, TTL: s.Terms.TTL, Version: s.Terms.Version, Share: s.Terms.Share}
	got := s.Slots.Apply(s.Now, terms, slots.Ask{
		Holder: ask.Holder, Name: ask.Name, Seq: ask.Seq, Busy: ask.Spent, Needs: ask.Needs, Want: ask.RaiseTo, Offer: ask.Offer,
	})

	if got.Superseded {
		return Answer{Status: Superseded, Seq: ask.Seq}
	}

	a.Terms.Bucket.Burst = got.N // as it is now
	a.Granted, a.Spent = got.Slots, ask.Spent
	a.Others, a.Holders, a.Short = got.Others, got.Holders, got.Short

	if a.Short {
		a.AskAgain = fullAgain
	}

	return a
}
