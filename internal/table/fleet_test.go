package table_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// enter has holder i's fleet shedder decide n requests of a class, and returns the slots of those that passed.
func (r *rig) enter(i, n int, class rule.Class) (slots []table.Slot, verdict table.Verdict) {
	r.t.Helper()

	for range n {
		slot, v := r.holders[i].Fleet().Enter(r.t.Context(), class, false, 0)
		verdict = v

		if v == table.Entered {
			slots = append(slots, slot)
		}
	}

	return slots, verdict
}

func (r *rig) wantEntered(want, i, n int, class rule.Class) []table.Slot {
	r.t.Helper()

	slots, _ := r.enter(i, n, class)
	if len(slots) != want {
		r.t.Errorf("holder %d: %d of %d requests of class %v entered, want %d", i, len(slots), n, class, want)
	}

	return slots
}

const fleetOfTen = "rules: []\nshedders: {fleet: {capacity: 10}}"

// A fifth is kept for critical requests, over all servers; these are never refused, and count.
func TestTheFleetKeepsAReserve(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, fleetOfTen)
	reads := r.wantEntered(5, 0, 5, rule.ClassRead)
	r.wantEntered(3, 1, 5, rule.ClassWrite)
	critical := r.wantEntered(4, 1, 4, rule.ClassCritical)

	if s := r.holders[1].Fleet().Stats(); s.InFlight != 7 || s.Refused[rule.ClassWrite] != 2 {
		t.Errorf("after 3 writes and 4 critical ones: %+v", s)
	}

	r.to(r.now + 10*ms)

	// With 12 in flight no room comes of one read that ends.
	reads[0].Release()
	r.to(r.now + 10*ms)
	r.wantEntered(0, 0, 1, rule.ClassRead)

	for _, s := range critical {
		s.Release()
		s.Release()
	}

	r.to(r.now + 10*ms)
	r.wantEntered(1, 0, 5, rule.ClassTest)
}

// A shadow counts, and a shedder that is taken away forgets nothing that ends later.
func TestTheFleetShedderComesAndGoes(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: []\nshedders: {fleet: {capacity: 10, mode: shadow}}")

	slots, verdict := r.enter(0, 12, rule.ClassRead)
	if s := r.holders[0].Fleet().Stats(); len(slots) != 8 || verdict != table.Watching || s.Shadowed[rule.ClassRead] != 4 {
		t.Errorf("12 reads under a shadow of 8: %d, %v, %+v", len(slots), verdict, s)
	}

	r.apply("rules: []")

	if r.holders[0].Fleet().On() {
		t.Error("the shedder is still there")
	}

	for _, s := range slots {
		s.Release()
	}

	r.apply(fleetOfTen)
	r.to(r.now + 11*sec)
	r.wantEntered(8, 0, 20, rule.ClassRead)
}

// Without a coordinator nothing is shed, and what is in flight counts afterwards.
func TestTheFleetShedderFailsOpen(t *testing.T) {
	t.Parallel()

	r := newRig(t, 2, fleetOfTen)
	r.wantEntered(1, 0, 1, rule.ClassRead)
	r.cut()
	slots := r.wantEntered(50, 0, 50, rule.ClassRead)
	r.heal()
	r.to(r.now + sec)
	r.wantEntered(0, 1, 1, rule.ClassRead)

	for _, s := range slots {
		s.Release()
	}

	r.to(r.now + sec)
	r.wantEntered(1, 1, 1, rule.ClassRead)
}

// The capacity is what live servers announce, and follows when one comes or goes, without a jump.
func TestTheFleetsCapacityFollowsItsServers(t *testing.T) {
	t.Parallel()

	r := newRig(t, 0, "rules: []\nshedders: {fleet: {}}")
	r.add(table.Config{Workers: 100})
	r.to(r.now + sec)
	r.wantEntered(80, 0, 200, rule.ClassRead)

	capacity := func() int64 { return r.holders[0].Fleet().Stats().Capacity }
	if capacity() != 100 {
		t.Errorf("the capacity of one server of 100 workers is %d", capacity())
	}

	r.add(table.Config{Workers: 300})

	last := capacity()
	for range 60 {
		r.to(r.now + sec)

		if now := capacity(); now < last || now-last > 200 {
			t.Errorf("the capacity goes from %d to %d in a second", last, now)
		} else {
			last = now
		}
	}

	if last != 400 {
		t.Errorf("the capacity of servers of 100 and 300 workers is %d", last)
	}

	r.holders[1].gate.err = errDown // it crashes

	for range 60 {
		r.to(r.now + sec)

		if now := capacity(); now > last || last-now > 200 {
			t.Errorf("the capacity goes from %d to %d in a second", last, now)
		} else {
			last = now
		}
	}

	if last != 100 {
		t.Errorf("the capacity after a crash is %d, want 100", last)
	}
}

// A server that stops takes its workers along at once, whether or not it had requests in flight: nobody waits for the end of a
// heartbeat.
func TestAServerThatStopsOffersNothing(t *testing.T) {
	t.Parallel()

	for _, requests := range []int{0, 5} {
		r := newRig(t, 0, "rules: []\nshedders: {fleet: {}}")
		r.add(table.Config{Workers: 100})
		r.add(table.Config{Workers: 100})
		r.to(r.now + 30*sec)

		for _, s := range r.wantEntered(requests, 1, requests, rule.ClassRead) {
			s.Release()
		}

		if err := r.holders[1].Close(t.Context()); err != nil {
			t.Fatal(err)
		}

		r.to(r.now + 9*sec)

		if n := r.holders[0].Fleet().Stats().Capacity; n > 125 {
			t.Errorf("9 s after one of two servers of 100 workers stopped, the capacity is %d", n)
		}
	}
}

// While no server announces anything nothing is shed.
func TestAFleetOfUnknownCapacityShedsNothing(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: []\nshedders: {fleet: {}}")
	r.wantEntered(5000, 0, 5000, rule.ClassTest)
}

// A kill switch has it decide nothing.
func TestTheFleetShedderIsSwitchedOff(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: []\nshedders: {fleet: {capacity: 10}}\nswitches: {limiters: {fleet: off}}")
	r.wantEntered(50, 0, 50, rule.ClassRead)
}
