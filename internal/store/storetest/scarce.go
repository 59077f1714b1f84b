package storetest

import (
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

// thousand is a bucket of a thousand tokens, of which as many come back in a second.
func thousand(t *testing.T) ledger.Terms {
	t.Helper()

	return terms(t, 1_000, time.Second, 500*time.Millisecond)
}

// eitherWay runs a test with the terms of its last ask: those of the asks before, and a newer version of them, for
// which a store may have another way. It has to answer alike.
func (r *rig) eitherWay(test func(way string, last ledger.Terms)) {
	test("as before", thousand(r.T))

	newer := thousand(r.T)
	newer.Version++

	test("under a newer version", newer)
}

// turnsLeaveAPart has a holder ask while eleven others wait for their turns, and one did not come for its own: that one is left a
// part for a quarter of what a turn takes to come: ten tokens' time for each holder.
func turnsLeaveAPart(r *rig) {
	r.needs(r.clock.virtual, "has a clock of its own, so turns cannot be met to the microsecond")

	const (
		others = 12
		turn   = 10 * others * time.Millisecond           // what all wait, and so when the first one's turn is
		pause  = turn / 2                                 // after which the others ask, so that their turns come later
		late   = 10 * (others + 1) * time.Millisecond / 4 // with one more
	)

	for after, want := range map[time.Duration]int64{late - time.Microsecond: 5, late: 10} {
		r.eitherWay(func(way string, last ledger.Terms) {
			key := store.Key{Rule: "r", Key: way + after.String()}

			crowd := make([]*holder, others)

			for i := range crowd {
				crowd[i] = r.holder(uint64(i+1), key, thousand(r.T))
				crowd[i].send(r.T, r.keeps(crowd[i]))
			}

			for i, h := range crowd {
				op := r.keeps(h)
				op.Ask.Takes = []int64{100, 1_000} // the second is refused
				if i == 0 {
					op.Ask.Takes[0] = 800
				}

				if a := h.send(r.T, op); i == 0 {
					if a.AskAgain != turn.Microseconds() {
						r.Fatalf("the first is to come again in %d µs, want %v", a.AskAgain, turn)
					}

					r.advance(pause)
				}
			}

			r.advance(turn - pause + after)

			// It leaves ten tokens to be leased, of which it wants all.
			h := r.holder(others+1, key, last)
			avail := last.Bucket.Avail(0, h.send(r.T, r.keeps(h)).Level)
			op := r.keeps(h)
			op.Ask.RaiseTo, op.Ask.Takes = 50, []int64{avail - 10}

			if a := h.send(r.T, op); a.Taken != 1 || a.Granted != want {
				r.Errorf("%s, %v after a turn that was not used: a lease of %d of 10, want %d (takes: %b)",
					way, after, a.Granted, want, a.Taken)
			}
		})
	}
}

// keeps is h's next ask, which keeps its lease though nothing is in it.
func (r *rig) keeps(h *holder) store.Op {
	op := h.op()
	op.Ask.Keep = true

	return op
}

// plentyIsNoScarcity has a holder ask beside another, so that some tokens are left: while that is a quarter of the bucket nobody waits
// for a turn, and while it is half a small lease lives long.
func plentyIsNoScarcity(r *rig) {
	r.needs(r.clock.virtual, "has a clock of its own, so that tokens come back meanwhile")

	for left, want := range map[int64]struct{ waits, long bool }{249: {waits: true}, 250: {}, 499: {}, 500: {long: true}} {
		r.eitherWay(func(way string, last ledger.Terms) {
			key := store.Key{Rule: "r", Key: way + string(rune(left))}
			other := r.holder(1, key, thousand(r.T))
			other.raise(r.T, 5)

			h := r.holder(2, key, thousand(r.T))
			h.send(r.T, r.keeps(h))
			h.terms = last

			op := r.keeps(h)
			op.Ask.Long, op.Ask.Takes = true, []int64{995 - left, 1_000}

			a := h.send(r.T, op)
			if waits, long := a.AskAgain > 0, a.TTL > last.TTL; waits != want.waits || long != want.long || a.Taken != 1 {
				r.Errorf("%s, %d of 1,000 are left: to wait %v, to live long %v, want %v, %v (takes: %b)",
					way, left, waits, long, want.waits, want.long, a.Taken)
			}
		})
	}
}
