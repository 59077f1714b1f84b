// Package slots counts what is in flight: at most N requests of one key at a
// time, over all holders.
//
// A holder leases slots, as it leases tokens, and each request in flight
// occupies one for each token of its cost. State is the store's side, one for
// each (rule, key); Pool is what one holder has of it.
//
//	          ask: 3 are in flight here, one waits, and I want 2 ahead
//	Pool ────────────────────────────────────────────────────────────▶ State
//	idle, in flight                                     a Holding for each holder
//	     ◀────────────────────────────────────────────────────────────
//	          you have 5, for 10 s; others have 4
//
// The invariant: a holding is never smaller than what its holder may use. So it
// shrinks only when the holder says so, which it does after it has struck the
// slots from its own pool, and it ends only after the holder's own clock has
// ended it. All that is said are totals, in the order of seqs: a message that is
// lost, doubled, overtaken or late changes nothing that a later one does not set right.
//
//	nothing ──ask──▶ held ──ask, at the latest after Renew──▶ held
//	                  │  └──all given back──▶ empty: remembered for Linger
//	                  └──TTL and Guard without an ask──▶ nothing: whoever had it crashed, or cannot be reached
//
// What is in flight at a holder that lives is never taken from it, so N is
// passed in two cases, each by what is in flight there: when N is lowered, until
// enough have finished, and when a holder was cut off for longer than the TTL.
//
// The package is pure: the store calls Apply inside its own atomicity and with
// its own clock; the table, the other neighbour above, locks a Pool but for Take and Put.
package slots

import "slices"

// The times of a holding, in µs.
const (
	// TTL is how long a holding lives after an ask unless its rule says otherwise: 10 s.
	TTL = 10_000_000
	// Guard is added to the TTL on the store's side, whose clock may run faster than the holder's: 50 ms.
	Guard = 50_000
	// Linger is how long an empty holding is remembered, so that an ask that was overtaken finds that it was.
	Linger = 2_000_000
)

const (
	// MaxHoldings bounds the holders of one key.
	MaxHoldings = 4096
	// MaxNeeds bounds the requests that one ask tells of.
	MaxNeeds = 64
)

// State is what is in flight of one key, as the store knows it. The zero value is nothing.
type State struct {
	Holdings []Holding // in no order
	// Closed is until when (µs) nothing is given out but what is in flight already:
	// for a store that lost its data, as long as holders may use what they had before.
	Closed int64
	// Sum is N in thousandths at the instant At (µs), where the holders make it
	// up: it follows what they offer, and does not jump.
	Sum, At int64
}

// Holding is what one holder has.
type Holding struct {
	Holder  uint64 // incarnation
	Name    uint64 // hash of the holder's configured name, 0 for none
	Slots   int64
	Exp     int64  // µs of the store's time
	Seq     uint64 // of the last ask
	Version uint64 // of the rule that it last asked under
	Offer   int64  // what the holder adds to N, where the holders make it up
	Fate    Fate
}

// Fate says what became of a holding besides its asks.
type Fate uint8

const (
	// Own: nothing.
	Own Fate = iota
	// Displaced: a new incarnation of its holder's name came, so the holder is taken to have crashed.
	Displaced
	// Shared: it asked again after that, so two live holders share a name, and neither may displace.
	Shared
)

// Terms are what the rule says of the key.
type Terms struct {
	N       int64 // slots in all
	Share   int64 // 0, or what percentage of the sum of offers N is, instead of N
	TTL     int64 // of a holding, µs
	Version uint64
}

// Ask is one holder's message.
type Ask struct {
	Holder uint64
	Name   uint64
	Seq    uint64
	Busy   int64   // in flight now
	Needs  []int64 // slots of requests that wait, in order
	Want   int64   // slots that it wants in all, Busy and Needs included; what it has above is given back
	Offer  int64   // what it adds to N, under terms with a Share
}

// Answer is what the store says to an ask.
type Answer struct {
	Superseded bool  // a newer ask of the same holder was applied before; nothing else is said
	N          int64 // slots in all, as they are now
	Slots      int64 // that the holder has
	Others     int64 // that other holders have
	Holders    int64 // that have slots, the asker included
	Short      bool  // a request of Needs found no room
}

// Apply handles one ask at the store's time now.
func (s *State) Apply(now int64, terms Terms, ask Ask) Answer {
	s.Expire(now)

	i := s.find(ask.Holder)

	switch {
	case i >= 0 && ask.Seq < s.Holdings[i].Seq:
		return Answer{Superseded: true}
	case i >= 0 && ask.Seq == s.Holdings[i].Seq:
		terms.N = s.limit(now, terms)

		return s.answer(i, terms, ask)
	case i < 0 && len(s.Holdings) >= MaxHoldings:
		return Answer{N: s.limit(now, terms), Others: s.Total(), Holders: MaxHoldings, Short: true}
	case i < 0:
		i = s.open(ask)
	}

	h := &s.Holdings[i]
	if h.Fate == Displaced {
		s.share(h.Name)
	}

	h.Offer = ask.Offer
	terms.N = s.limit(now, terms)
	h.Slots = s.size(now, i, terms, ask)
	h.Seq, h.Name, h.Version = ask.Seq, ask.Name, terms.Version
	h.Exp = max(h.Exp, now+terms.TTL+Guard) // an answer that was lost does not shorten what its holder counts with

	if h.Slots == 0 && h.Offer == 0 && h.Fate == Own {
		h.Exp = now + Linger
	}

	return s.answer(i, terms, ask)
}

const (
	// follow is how long N takes to follow the sum of offers most of the way, µs:
	// a server that comes or goes changes it little by little.
	follow = 5_000_000
	// Unlimited is N while nobody offers anything: what is not known bounds nothing.
	Unlimited = 1 << 40
	// MaxOffer bounds what one holder adds to N.
	MaxOffer = 1_000_000_000
)

// limit returns N at now, which under terms with a Share follows the offers.
func (s *State) limit(now int64, terms Terms) int64 {
	if terms.Share == 0 {
		return terms.N
	}

	var sum int64
	for i := range s.Holdings {
		sum += min(s.Holdings[i].Offer, MaxOffer)
	}

	aim := sum * terms.Share * 10 // thousandths of a percentage

	switch gone := max(0, now-s.At); {
	case s.Sum == 0 || gone >= follow:
		s.Sum, s.At = aim, now
	default:
		// A step that rounds to nothing waits until it does not: asks may come faster than that.
		if step := int64(float64(aim-s.Sum) * float64(gone) / follow); step != 0 || s.Sum == aim {
			s.Sum, s.At = s.Sum+step, now
		}
	}

	if off := aim - s.Sum; -1000 < off && off < 1000 {
		s.Sum = aim
	}

	if sum == 0 {
		return Unlimited
	}

	return max(1, s.Sum/1000)
}

// size returns how many slots holding i has after the ask.
func (s *State) size(now int64, i int, terms Terms, ask Ask) int64 {
	had := s.Holdings[i].Slots
	others := s.Total() - had
	room := terms.N - others // for this holder, what it has included

	if now < s.Closed {
		room = 0
	}

	// What is in flight stays, and what it may be using by now; the rest it gave back.
	kept := max(ask.Busy, min(had, ask.Want))
	used := ask.Busy

	for _, n := range ask.Needs[:min(len(ask.Needs), MaxNeeds)] {
		if n >= 0 && used+n <= room {
			used += n
		}
	}

	kept = max(kept, used)

	return kept + max(0, min(ask.Want-kept, s.ahead(i, room-kept), terms.N*4/5-others-kept))
}

// ahead is how much of left one holder may have without need: a part for each
// holder and one for who comes new. Beyond four fifths of N nothing is given
// ahead at all, so that a request elsewhere finds a slot.
func (s *State) ahead(i int, left int64) int64 {
	var others int64

	for j := range s.Holdings {
		if j != i && s.Holdings[j].Slots > 0 {
			others++
		}
	}

	if others == 0 {
		return left
	}

	return left / (others + 2)
}

// open makes a holding for a holder that has none. It displaces those of its
// name: a process that starts again cannot tell what it had in flight before.
func (s *State) open(ask Ask) int {
	fate := Own

	for j := range s.Holdings {
		h := &s.Holdings[j]
		if ask.Name == 0 || h.Name != ask.Name {
			continue
		}

		if h.Fate == Shared {
			fate = Shared
		} else {
			h.Slots, h.Offer, h.Fate = 0, 0, Displaced
		}
	}

	s.Holdings = append(s.Holdings, Holding{Holder: ask.Holder, Name: ask.Name, Fate: fate})

	return len(s.Holdings) - 1
}

// share notes that several live holders have one name.
func (s *State) share(name uint64) {
	for j := range s.Holdings {
		if s.Holdings[j].Name == name {
			s.Holdings[j].Fate = Shared
		}
	}
}

// answer says what holding i is.
func (s *State) answer(i int, terms Terms, ask Ask) Answer {
	a := Answer{N: terms.N, Slots: s.Holdings[i].Slots}

	for j := range s.Holdings {
		n := s.Holdings[j].Slots
		if j != i {
			a.Others += n
		}

		if n > 0 {
			a.Holders++
		}
	}

	used := ask.Busy
	for _, n := range ask.Needs {
		used += n
	}

	a.Short = a.Slots < used

	return a
}

// Total returns the slots that holders have.
func (s *State) Total() int64 {
	var n int64
	for i := range s.Holdings {
		n += s.Holdings[i].Slots
	}

	return n
}

// Expire drops the holdings whose time is over at now.
func (s *State) Expire(now int64) {
	s.Holdings = slices.DeleteFunc(s.Holdings, func(h Holding) bool { return h.Exp <= now })
}

// Shift moves all times by d µs, for a store whose clock stepped back.
func (s *State) Shift(d int64) {
	for i := range s.Holdings {
		s.Holdings[i].Exp += d
	}

	s.At += d
}

// Ends returns when the last holding ends if nobody asks again, µs; 0 without any.
func (s *State) Ends() int64 {
	var end int64
	for i := range s.Holdings {
		end = max(end, s.Holdings[i].Exp)
	}

	return end
}

func (s *State) find(holder uint64) int {
	return slices.IndexFunc(s.Holdings, func(h Holding) bool { return h.Holder == holder })
}
