package holder

import (
	"math"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// Trace is what is worth to be remembered of a Lease at rest, in a fraction of its
// size: of how much demand there was, and how its budget stood. Nothing depends on
// it but how well the next request is served: who loses it begins anew.
type Trace struct {
	Terms *ledger.Terms // as last heard
	At    int64         // when the last ask was sent that was answered, µs; never 0

	// What the answer said: of a bucket when it is full, µs and a fraction, and what others lease; of a window when it
	// ends, by how much that is late, and what was used of it and, of a sliding one, of the one before.
	when int64
	part uint32
	used uint32
	last uint32 // of all others how long after At more is denied: see spell

	rate    float32 // of demand: tokens a µs, to three digits
	cost    uint8   // of a request, at most
	holders uint8   // at most

	Note uint32 // the caller's
}

// Trace returns what is to be remembered of the lease; ok is false while something of
// it is at stake: tokens, debt, an ask, a window, demand that was refused and may not be any more. Under the lock.
func (l *Lease) Trace(now int64) (t Trace, ok bool) {
	denied := max(0, l.AskAgain()-l.heard.at)
	if now >= l.AskAgain() {
		denied = 0
	}

	if !l.Known() || l.Holds() || l.Owes() || l.sent() != nil || l.owed().next != nil || l.owed().credit || l.owed().debt != 0 {
		return t, false
	}

	if d := l.denial.Load(); denied == 0 && d != nil && d.unmet != 0 {
		return t, false
	}

	if l.balance.Load() != 0 || l.reserved.Load() != 0 {
		return t, false
	}

	h, d := &l.heard, &l.demand
	t = Trace{
		Terms: h.terms(), At: h.at, rate: rough(d.rate), last: spell(denied),
		cost: uint8(min(d.cost, math.MaxUint8)), holders: uint8(min(d.holders, math.MaxUint8)),
	}

	switch w := h.counted(); h.terms().Algorithm {
	case rate.TokenBucket, rate.LeakyBucket:
		t.when = h.tat.Micros
		ok = t.keep(h.tat.Frac, l.mark.others)
	case rate.FixedWindow:
		t.when = w.end
		ok = t.keep(w.late, w.used)
	case rate.SlidingWindow:
		t.when, t.last = w.end, uint32(w.prev)
		ok = t.keep(w.late, w.used) && denied == 0 && int64(t.last) == w.prev
	case rate.SlidingLog, rate.Concurrency:
	}

	return t, ok
}

// keep takes in numbers, unless they are too large: then nothing is remembered.
func (t *Trace) keep(part, used int64) (ok bool) {
	t.part, t.used = uint32(part), uint32(used)

	return int64(t.part) == part && int64(t.used) == used
}

// Longer spells than half an hour are told in units of 2^spellShift µs, rounded down: then the ledger is asked a little sooner.
const (
	spellLong  = 1 << 31
	spellShift = 12
)

// spell returns a span of µs, at most three months of it, in 32 bits.
func spell(span int64) uint32 {
	if span < spellLong {
		return uint32(span)
	}

	return uint32(spellLong + min(spellLong-1, span>>spellShift))
}

// Until returns until when more is denied, µs: 0 if it is not.
func (t *Trace) Until() int64 { return until(t.At, t.last, t.Terms) }

// until returns when a spell is over that is denied from the instant at on; 0 if nothing is.
func until(at int64, last uint32, terms *ledger.Terms) int64 {
	switch span := int64(last); {
	case span == 0 || terms.Algorithm == rate.SlidingWindow:
		return 0
	case span < spellLong:
		return at + span
	default:
		return at + (span-spellLong)<<spellShift
	}
}

// Resume has a lease that is new go on where one was that left t. Under the lock.
func (l *Lease) Resume(t *Trace) {
	l.demand = demand{rate: t.rate, cost: float32(t.cost), holders: uint32(t.holders)}
	l.heard.under, l.heard.at = t.Terms, t.At

	if h := &l.heard; h.bucket() {
		h.tat, l.mark.others = rate.Time{Micros: t.when, Frac: int64(t.part)}, int64(t.used)
	} else {
		w := &window{used: int64(t.used), end: t.when, late: int64(t.part), asked: t.At}
		if t.Terms.Algorithm == rate.SlidingWindow {
			w.prev = int64(t.last)
		}

		h.window.Store(w)
	}

	if until := t.Until(); until != 0 {
		d := l.deny()
		d.over.Store(l.spare())
		d.ask.Store(until)
		d.till.Store(until)
	}
}
