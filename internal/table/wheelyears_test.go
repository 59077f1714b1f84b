package table

import (
	"math"
	"testing"
)

// However long a process runs, a key is visited when it is due, and not before: an appointment is kept in few bits.
func TestTheWheelTurnsForYears(t *testing.T) {
	t.Parallel()

	for _, begin := range []int64{0, 1<<31 - 50, 1 << 31, 1<<32 - 50, 1<<32 - 1, 1 << 32, 5<<32 + 3} {
		for _, in := range []int64{1, 2, wheelSlots - 1, wheelSlots, 10 * wheelSlots} {
			w := wheel{at: begin}
			e := &Entry{rest: &rest{}}

			w.add(e, (begin+in)*slotWidth)

			if got := w.visits(begin, 20*wheelSlots); len(got) != 1 || got[0] != in {
				t.Errorf("from slot %d on, what is due in %d slots is visited in %d", begin, in, got)
			}
		}
	}
}

// What is never due waits, and can be made sooner; what the table does not keep has no appointment to be made so.
func TestTheWheelMakesSooner(t *testing.T) {
	t.Parallel()

	for _, begin := range []int64{0, 1<<31 + 1, 1<<32 - 1, 1 << 33} {
		w := wheel{at: begin}
		e, stray := &Entry{rest: &rest{}}, &Entry{rest: &rest{stray: true}}

		w.add(e, math.MaxInt64)
		w.sooner(stray, (begin+1)*slotWidth)

		if got := w.visits(begin, 2*wheelSlots); len(got) != 0 {
			t.Errorf("from slot %d on, what is never due is visited in %d", begin, got)
		}

		begin += 2 * wheelSlots
		w.sooner(e, (begin+3)*slotWidth)
		w.sooner(e, (begin+5)*slotWidth)

		if got := w.visits(begin, 2*wheelSlots); len(got) != 1 || got[0] != 3 {
			t.Errorf("from slot %d on, what is due in 3 slots is visited in %d", begin, got)
		}
	}
}

// visits turns the wheel by so many slots, and returns after how many each visit came.
func (w *wheel) visits(begin, slots int64) (in []int64) {
	for s := range slots {
		for range w.due((begin + s) * slotWidth) {
			in = append(in, s)
		}
	}

	return in
}
