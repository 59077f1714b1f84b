package storetest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
	"github.com/leaseway/leaseway/internal/store"
)

// inFlight are terms of n requests in flight, whose holders live for ttl without an ask.
func inFlight(n int64, ttl time.Duration) ledger.Terms {
	return ledger.Terms{
		Algorithm: rate.Concurrency, Bucket: rate.Bucket{P: 1, Q: 1, Burst: n}, Version: 1, TTL: ttl.Microseconds(),
	}
}

// occupy asks for slots so that need more than busy are held, and returns the answer.
func (h *holder) occupy(r *rig, busy int64, needs ...int64) ledger.Answer {
	r.Helper()

	op := h.op()
	op.Ask = ledger.Ask{Holder: h.id, Seq: h.seq, Slots: true, Spent: busy, Needs: needs, RaiseTo: busy}

	for _, n := range needs {
		op.Ask.RaiseTo += n
	}

	return apply(r.T, r.store, op)[0]
}

// slotsOfACrash lets a holder vanish with all slots: another one gets them after
// the TTL and the guard, and not before.
func slotsOfACrash(r *rig) {
	const ttl = 50 * time.Millisecond

	key := store.Key{Rule: "r", Key: "k"}
	dead, other := r.holder(1, key, inFlight(5, ttl)), r.holder(2, key, inFlight(5, ttl))

	if a := dead.occupy(r, 0, 2, 3); a.Granted != 5 || a.Short {
		r.Fatalf("a lone holder that needs 5 slots of 5: %+v", a)
	}

	if a := other.occupy(r, 0, 1); a.Granted != 0 || !a.Short || a.Others != 5 || a.AskAgain <= 0 {
		r.Errorf("all 5 slots are held elsewhere, and one that needs 1 hears %+v", a)
	}

	if r.clock.virtual {
		r.advance(ttl + slots.Guard*time.Microsecond - time.Microsecond)

		if a := other.occupy(r, 0, 1); a.Granted != 0 {
			r.Errorf("a microsecond before they end the slots were given away: %+v", a)
		}
	}

	r.advance(ttl + slots.Guard*time.Microsecond)

	if a := other.occupy(r, 0, 1, 4); a.Granted != 5 {
		r.Errorf("after the slots' end one that needs 5 hears %+v", a)
	}
}

// slotsBetweenRules has a rule change from tokens to slots: neither counts as the other.
func slotsBetweenRules(r *rig) {
	key := store.Key{Rule: "r", Key: "k"}
	old := r.holder(1, key, still(r.T, 10))
	old.raise(r.T, 8)

	next := inFlight(3, time.Hour)
	next.Version = 2

	h := r.holder(2, key, next)
	if a := h.occupy(r, 0, 3); a.Granted != 3 {
		r.Errorf("8 tokens were leased, the rule now has 3 slots, and one that needs 3 hears %+v", a)
	}

	if a := old.send(r.T, old.op()); a.Granted != 0 || !a.Stale || a.Terms != next {
		r.Errorf("an ask for tokens of a rule that has slots: %+v, want none, and the new terms", a)
	}

	if a := h.occupy(r, 3, 1); a.Granted != 3 || !a.Short {
		r.Errorf("3 slots of 3 in flight, and one more is needed: %+v", a)
	}
}

// manySlots has a crowd take and give back slots at random; no two of them may
// hold what there is once. When all is over a last holder finds every slot.
func manySlots(r *rig) {
	const n, rounds = 20, 300

	key := store.Key{Rule: "r", Key: "k"}
	held := make(chan struct{}, n) // what is in flight, counted by a plain channel

	got := r.together(func(i int) int64 {
		h := r.holder(uint64(i+1), key, inFlight(n, time.Hour))
		random := rand.New(rand.NewPCG(2, uint64(i)))

		var sum int64

		for range rounds {
			needs := []int64{1, 1, 1}[:random.IntN(4)]
			has := h.occupy(r, 0, needs...).Granted
			sum += has

			for range has {
				select {
				case held <- struct{}{}:
				default:
					r.Errorf("more than %d in flight", n)
				}
			}

			for range has {
				<-held
			}
		}

		h.occupy(r, 0)

		return sum
	})

	if a := r.holder(crowd+1, key, inFlight(n, time.Hour)).occupy(r, 0, n); a.Granted != n || got == 0 {
		r.Errorf("the crowd had %d slots in all, and after it %d of %d are to be had", got, a.Granted, n)
	}
}

// slotsOverARestart holds slots while a store stops and starts.
func slotsOverARestart(r *rig) {
	r.needs(r.backend.Keeps, keepsNothing)

	key := store.Key{Rule: "r", Key: "k"}
	h, other := r.holder(1, key, inFlight(5, time.Hour)), r.holder(2, key, inFlight(5, time.Hour))
	h.occupy(r, 0, 4)

	r.close()
	r.open()

	h.store, other.store = r.store, r.store

	if a := other.occupy(r, 0, 1, 1); a.Granted != 1 || a.Others != 4 {
		r.Errorf("4 of 5 slots were held before the restart, and one that needs 2 hears %+v", a)
	}

	h.seq--

	if a := h.occupy(r, 0, 4); a.Granted != 4 {
		r.Errorf("the ask of before, again after the restart: %+v, want its 4 slots", a)
	}
}

// slotsAfterALoss crashes the store: nothing new is given out until what holders may still use has ended.
func slotsAfterALoss(r *rig) {
	r.needs(r.backend.Crash != nil, cannotCrash)
	r.needs(r.clock.virtual, "has a clock of its own")

	const ttl = 10 * time.Second

	key := store.Key{Rule: "r", Key: "k"}
	h, other := r.holder(1, key, inFlight(5, ttl)), r.holder(2, key, inFlight(5, ttl))
	h.occupy(r, 0, 4)

	r.backend.Crash(r.T, r.store)
	r.open()

	h.store, other.store = r.store, r.store

	if a := other.occupy(r, 0, 1); a.Granted != 0 || !a.Short {
		r.Errorf("right after the loss one that needs a slot hears %+v, want none", a)
	}

	if a := h.occupy(r, 4); a.Granted != 4 {
		r.Errorf("one that lives and has 4 in flight hears %+v, want these", a)
	}

	r.advance(ttl + slots.Guard*time.Microsecond)
	h.occupy(r, 2)

	if a := other.occupy(r, 0, 1, 1, 1, 1); a.Granted != 3 {
		r.Errorf("a TTL after the loss, with 2 of 5 in flight, one that needs 4 hears %+v, want 3", a)
	}

	full := inFlight(5, ttl)
	full.Whole = true

	if a := r.holder(3, store.Key{Rule: "r", Key: "k2"}, full).occupy(r, 0, 5); a.Granted != 5 {
		r.Errorf("a rule that is whole after a loss gave %+v, want all 5 slots", a)
	}
}

// badSlots offers terms that no ledger can have.
func badSlots(r *rig) {
	h := r.holder(1, store.Key{Rule: "r", Key: "k"}, inFlight(0, time.Hour))
	results := make([]store.Result, 1)
	r.store.Apply(context.Background(), []store.Op{h.op()}, results)

	if results[0].Err == nil {
		r.Error("terms of no slots were taken")
	}
}
