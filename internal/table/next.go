package table

import "math"

// Next returns when the next appointment of the wheel is due, µs on the table's
// clock; ok is false while there is none. Whoever moves a virtual clock may jump
// there at once: nothing happens on the way.
func (t *Table) Next() (at int64, ok bool) {
	w := &t.wheel

	w.mu.Lock()
	defer w.mu.Unlock()

	for slot := w.at + 1; slot < w.at+wheelSlots; slot++ {
		for _, e := range w.slots[slot%wheelSlots] {
			if due := max(slot, w.dueSlot(e)) * slotWidth; int64(e.visit) == slot%wheelSlots && (!ok || due < at) {
				at, ok = due, true
			}
		}
	}

	if due, some := t.walks(); some && (!ok || due < at) {
		at, ok = due, true
	}

	if due := t.sweeps(); due != math.MaxInt64 && (!ok || due < at) {
		at, ok = due, true
	}

	if due, some := t.desk.due(); some && (!ok || due < at) {
		at, ok = due, true
	}

	return at, ok
}
