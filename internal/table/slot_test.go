package table_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// hold has holder i decide one request for n slots of key under rule r.
func (r *rig) hold(i int, key string, n int64) *table.SlotHit {
	r.t.Helper()

	h := &table.SlotHit{Rule: r.holders[i].Rule("r"), Key: key, Cost: n, Class: rule.ClassWrite}
	h.Take(r.t.Context())

	return h
}

// must has a request pass, or not.
func (r *rig) must(allowed bool, i int, what string) *table.SlotHit {
	r.t.Helper()

	h := r.hold(i, "k", 1)
	if got := h.Out.Kind == table.Allowed; got != allowed {
		r.t.Errorf("%s: holder %d: allowed is %v (%+v), want %v", what, i, got, h.Out, allowed)
	}

	return h
}

const fiveSlots = "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 5}]"

// Few slots over several holders are as exact as one counter.
func TestFewSlotsAreExactOverHolders(t *testing.T) {
	t.Parallel()

	r := newRig(t, 3, fiveSlots)

	var held []*table.SlotHit
	for i := range 5 {
		held = append(held, r.must(true, i%3, "of the first five"))
	}

	for i := range 3 {
		r.must(false, i, "a sixth")
	}

	held[0].Slot.Release()
	r.to(r.now + 10*ms) // a refusal is remembered for as long
	r.must(true, 2, "after one was over elsewhere")
	r.must(false, 0, "and no other")
}

// A slot that was given back here is at once the next request's, without a call.
func TestASlotGoesToTheNextInLineHere(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, fiveSlots)
	for range 5 {
		r.must(true, 0, "of the first five")
	}

	calls := r.holders[0].gate.calls.Load()
	for range 100 {
		r.must(false, 0, "a sixth")
	}

	if r.holders[0].gate.calls.Load() != calls {
		t.Errorf("all slots are here, and it took %d calls to say so", r.holders[0].gate.calls.Load()-calls)
	}
}

// A holder that falls silent loses its slots after the TTL; one that lives keeps them by itself.
func TestSlotsOfASilentHolderComeBack(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, fiveSlots)
	for range 5 {
		r.must(true, 0, "of the first five")
	}

	for range 60 {
		r.to(r.now + sec)
		r.must(false, 1, "while the other one lives")
	}

	r.holders[0].gate.err = errDown // it cannot say so any more
	lost := r.now

	for r.now < lost+6*sec { // at most 3 s since it last told
		r.must(false, 1, "before the TTL is over")
		r.to(r.now + sec)
	}

	r.to(lost + 11*sec)

	for range 5 {
		r.must(true, 1, "after the TTL")
	}
}

// What is in flight where a partition lasted longer than the TTL goes on; when it
// ends that counts, and nobody is admitted until there is room again.
func TestAfterAPartitionWhatIsInFlightCounts(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, fiveSlots)

	var cut []*table.SlotHit
	for range 4 {
		cut = append(cut, r.must(true, 0, "of the first four"))
	}

	r.holders[0].gate.err = errDown
	r.to(r.now + 15*sec)

	var other []*table.SlotHit
	for range 5 {
		other = append(other, r.must(true, 1, "after the TTL"))
	}

	r.holders[0].gate.err = nil
	r.to(r.now + sec)
	r.must(false, 0, "with nine in flight")

	for _, h := range other {
		h.Slot.Release()
	}

	r.to(r.now + sec)
	r.must(true, 1, "with four in flight")
	r.must(false, 1, "with five in flight")

	for _, h := range cut {
		h.Slot.Release()
	}

	r.to(r.now + sec)
	r.must(true, 0, "with one in flight")
}

// While no coordinator answers each holder admits its share, or what its rule says.
func TestSlotsInAnOutage(t *testing.T) {
	t.Parallel()

	for policy, want := range map[string]struct {
		allowed int
		kind    table.Kind
	}{"local": {4, table.TooMany}, "allow": {20, table.Allowed}, "deny": {0, table.Unavailable}} {
		r := newRig(t, 2, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 8, onUnavailable: "+policy+"}]")

		for i := range 2 { // they learn how many they are
			r.hold(i, "other", 1).Slot.Release()
			r.hold(0, "other", 1).Slot.Release()
		}

		for _, h := range r.holders {
			h.gate.err = errDown
		}

		var held []*table.SlotHit

		allowed := 0

		for range 20 {
			h := r.hold(0, "k", 1)
			held = append(held, h)

			if h.Out.Kind == table.Allowed {
				allowed++
			} else if h.Out.Kind != want.kind || h.Out.RetryAfter <= 0 {
				t.Errorf("%s: refused with %+v", policy, h.Out)
			}
		}

		if allowed != want.allowed {
			t.Errorf("%s: of 8 over 2 holders one admits %d, want %d", policy, allowed, want.allowed)
		}

		for _, h := range held {
			h.Slot.Release()
			h.Slot.Release()
		}

		if s := r.holders[0].SlotStats()[0]; s.InFlight != 0 {
			t.Errorf("%s: at the end %+v", policy, s)
		}
	}
}

// Of a large limit slots are kept ahead, so that few requests need a call; and
// when most are held, what lies idle elsewhere comes back.
func TestManySlotsAreLocal(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 1000}]")
	r.hold(1, "k", 1).Slot.Release()

	var held []*table.SlotHit
	for range 100 {
		held = append(held, r.must(true, 0, "of a hundred"))
	}

	r.to(r.now + sec)

	calls := r.holders[0].gate.calls.Load()

	for i := range 2000 {
		held[i%100].Slot.Release()
		held[i%100] = r.must(true, 0, "one ends, the next comes")
	}

	if n := r.holders[0].gate.calls.Load() - calls; n > 0 {
		t.Errorf("2000 requests at a steady 100 in flight took %d calls", n)
	}

	for len(held) < 1000 {
		held = append(held, r.must(true, len(held)%2, "up to the limit"))

		if len(held)%50 == 0 {
			r.to(r.now + sec)
		}
	}

	r.must(false, 0, "above it")
	r.must(false, 1, "above it")
}

// A new limit is in force at once for who comes, and soon for what was held ahead.
func TestALimitOfSlotsChanges(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, fiveSlots)

	var held []*table.SlotHit
	for range 5 {
		held = append(held, r.must(true, 0, "of the first five"))
	}

	r.apply("rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 7}]")
	r.to(r.now + 20*ms)
	r.must(true, 1, "a sixth of 7")
	r.apply("rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 3}]")
	r.to(r.now + 20*ms)
	r.must(false, 1, "with six in flight, of 3")

	for _, h := range held {
		h.Slot.Release()
	}

	r.to(r.now + 20*ms)
	r.must(true, 0, "with one in flight, of 3")
	r.must(true, 0, "with two in flight, of 3")
	r.must(false, 0, "with three in flight, of 3")
}

// Keys that nobody uses leave; a look occupies nothing.
func TestSlotKeysLeave(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, fiveSlots)

	for range 20 {
		h := &table.SlotHit{Rule: r.holders[0].Rule("r"), Key: "k", Cost: 1}
		h.Peek(t.Context())

		if h.Out.Kind != table.Allowed || h.Out.Remaining != 5 || !h.Slot.None() {
			t.Errorf("a look: %+v", h.Out)
		}
	}

	r.must(true, 0, "after twenty looks").Slot.Release()

	if n := r.holders[0].Stats().Keys; n != 1 {
		t.Errorf("%d keys are remembered, want 1", n)
	}

	r.to(r.now + 60*sec)

	if n := r.holders[0].Stats().Keys; n != 0 {
		t.Errorf("%d keys are remembered a minute after the last request, want none", n)
	}
}

// A panic or an outage in the middle of everything loses no slot.
func TestSlotsThroughFailures(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, fiveSlots)
	h := r.must(true, 0, "at first")

	r.holders[0].gate.broken = true
	r.to(r.now + 5*sec)
	r.hold(0, "k", 1).Slot.Release()
	h.Slot.Release()

	r.holders[0].gate.broken = false
	r.to(r.now + 5*sec)

	for range 5 {
		r.must(true, 0, "after the failure")
	}

	r.must(false, 0, "a sixth")
}

// Close gives back what is idle.
func TestCloseGivesSlotsBack(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 100}]")

	var held []*table.SlotHit
	for range 50 {
		held = append(held, r.must(true, 0, "of fifty"))
	}

	for _, h := range held {
		h.Slot.Release()
	}

	if err := r.holders[0].Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	for range 100 {
		r.must(true, 1, "after the other one left")
	}
}

// Holders that take, end and are cut off for a while at random never have more in
// flight than the limit, and in the end every slot is there.
func TestHoldersAtRandomNeverPassTheLimit(t *testing.T) {
	t.Parallel()

	for _, limit := range []int{1, 4, 40, 200} {
		for seed := range uint64(15) {
			atRandom(t, limit, seed)
		}
	}
}

func atRandom(t *testing.T, limit int, seed uint64) {
	t.Helper()

	const holders = 3

	random := rand.New(rand.NewPCG(seed, uint64(limit)))
	r := newRig(t, holders, fmt.Sprintf("rules: [{id: r, keyBy: user, algorithm: concurrency, limit: %d, onUnavailable: deny}]", limit))

	var (
		held [holders][]*table.SlotHit
		cut  [holders]int64 // until when
		back [holders]int64 // since when it is not
	)

	inFlight := 0

	for range 500 {
		i := random.IntN(holders)

		switch random.IntN(8) {
		case 0, 1, 2, 3:
			for range 1 + random.IntN(1+limit/5) {
				if h := r.hold(i, "k", 1); h.Out.Kind == table.Allowed {
					held[i] = append(held[i], h)
					inFlight++
				}
			}
		case 4, 5:
			for range min(len(held[i]), 1+random.IntN(1+limit/5)) {
				last := len(held[i]) - 1
				held[i][last].Slot.Release()
				held[i] = held[i][:last]
				inFlight--
			}
		case 6:
			r.wait(random.Int64N(400) * ms)
		case 7:
			// Shorter than the TTL, less the time since it last told; and never twice without time to tell.
			if cut[i] == 0 && r.now-back[i] > sec {
				r.holders[i].gate.err = errDown
				cut[i] = r.now + random.Int64N(6*sec)
			}
		}

		for i, until := range cut {
			if until != 0 && r.now >= until {
				r.holders[i].gate.err, cut[i], back[i] = nil, 0, r.now
			}
		}

		if inFlight > limit {
			t.Fatalf("seed %d: %d in flight of %d", seed, inFlight, limit)
		}
	}

	r.heal()

	for i := range held {
		for _, h := range held[i] {
			h.Slot.Release()
		}
	}

	r.wait(sec)

	for i := range holders { // who was cut off last finds out
		r.hold(i, "other", 1).Slot.Release()
	}

	r.wait(5 * sec)

	for n := range limit {
		if h := r.hold(0, "k", 1); h.Out.Kind != table.Allowed {
			for _, o := range r.holders {
				t.Logf("%+v", o.SlotStats())
			}

			t.Fatalf("seed %d: after all were over %d of %d are to be had: %+v", seed, n, limit, h.Out)
		}
	}

	r.must(false, 1, "above the limit")
}

// What was in flight when a rule ceased to bound it ends without anybody to tell, and leaves nothing here.
func TestSlotsThatNobodyIsToldOfLeave(t *testing.T) {
	r := newRig(t, 1, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 50}]")

	var slots []table.Slot

	for range 20 {
		hit := table.SlotHit{Rule: r.holders[0].Rule("r"), Key: "k", Cost: 1}
		hit.Take(t.Context())
		slots = append(slots, hit.Slot)
	}

	r.apply("rules: [{id: r, keyBy: user, limit: 50, window: 1s}]")
	r.wait(20 * sec) // longer than slots are held

	for _, s := range slots {
		s.Release()
	}

	r.wait(10 * sec)

	if s := r.holders[0].Stats(); s.Keys != 0 {
		t.Errorf("%d keys are left", s.Keys)
	}
}
