package table

import (
	"math"
	"slices"
	"sync"
)

const (
	slotWidth  = 10_000 // µs
	wheelSlots = 128
	idleAfter  = 2_000_000 // µs without a request after which a key may leave
	busyAgain  = 20_000    // µs until a key with a flight under way is looked at again
	oweAgain   = 100_000   // µs between two tries to report debt
	keepSpokes = 16        // appointments for which a slot keeps its memory when it was turned
)

// wheel visits every entry when something is due for it: the renewal of its
// lease, debt to report, or leaving. Times beyond one turn are met with a visit on the way.
type wheel struct {
	mu     sync.Mutex
	slots  [wheelSlots][]*Entry // an appointment is void if its entry has another one by now
	spokes int                  // appointments in all slots
	at     int64                // the slot turned last; it falls behind while there is nothing to turn for
	stir   chan struct{}        // there is something again; the desk has the same
}

// add makes an appointment for e, in place of any other.
func (w *wheel) add(e *Entry, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.put(e, at)
}

func (w *wheel) put(e *Entry, at int64) {
	slot := max(w.at+1, min(at/slotWidth, w.at+math.MaxInt32)) // after the longest time that can be told there is another look
	e.due = uint32(slot)
	slot = min(slot, w.at+wheelSlots-1)
	e.visit = uint8(slot % wheelSlots)
	w.slots[e.visit] = append(w.slots[e.visit], e)
	w.spokes++

	if w.spokes == 1 {
		signal(w.stir)
	}
}

// dueSlot returns the slot in which e, which has an appointment, is to be visited; under the lock.
func (w *wheel) dueSlot(e *Entry) int64 { return w.at + int64(int32(e.due-uint32(w.at))) }

// sooner makes e's appointment earlier if at is; 0 is never. One that the table does not keep has none.
func (w *wheel) sooner(e *Entry, at int64) {
	if at == 0 || e.stray {
		return
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	if w.dueSlot(e) > max(w.at+1, at/slotWidth) {
		w.put(e, at)
	}
}

// due takes the entries whose time has come.
func (w *wheel) due(now int64) []*Entry {
	w.mu.Lock()
	defer w.mu.Unlock()

	to := now / slotWidth
	from := max(w.at+1, to-wheelSlots+1)

	var entries []*Entry

	for s := from; s <= to; s++ {
		i := s % wheelSlots
		for _, e := range w.slots[i] {
			if int64(e.visit) == i {
				entries = append(entries, e)
			}
		}

		w.spokes -= len(w.slots[i])

		if used := len(w.slots[i]); used*4 < cap(w.slots[i]) || used > keepSpokes {
			w.slots[i] = nil
		} else {
			clear(w.slots[i]) // else it would keep entries that leave the table
			w.slots[i] = w.slots[i][:0]
		}
	}

	w.at = max(w.at, to)

	// An appointment turns away stands where the wheel could take it.
	return slices.DeleteFunc(entries, func(e *Entry) bool {
		slot := w.dueSlot(e)

		late := slot > to
		if late {
			w.put(e, slot*slotWidth)
		}

		return late
	})
}

// idle reports whether nothing is ever due, unless a request comes.
func (t *Table) idle() bool {
	t.wheel.mu.Lock()
	defer t.wheel.mu.Unlock()

	_, some := t.desk.due()

	return t.wheel.spokes == 0 && !some && t.traces.Load() == 0
}

// Advance does what is due at now. Run calls it; with a virtual clock the caller does.
func (t *Table) Advance(now int64) {
	t.advanceSlots(now)
	t.sweep(now)

	if t.clock.virtual {
		t.walkAll(now)
	}

	due := t.wheel.due(now)

	defer func() { // there are some left after a bug: nobody else would ever look after them
		for i, e := range due {
			if i == 0 {
				t.wheel.add(e, now+idleAfter) // which met it, and must not hold up the others again
			} else {
				t.wheel.add(e, now+busyAgain)
			}
		}
	}()

	for ; len(due) > 0; due = due[1:] {
		t.visit(due[0], now)
	}
}

// visit does what is due for e at now.
func (t *Table) visit(e *Entry, now int64) {
	again, ask := e.check(now)
	if again == 0 {
		return
	}

	t.wheel.add(e, again)

	if ask {
		t.enqueue(e, false)
	}
}

// check returns when e should be visited again, 0 if it left the table, and whether it should ask now.
func (e *Entry) check(now int64) (again int64, ask bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.gone {
		return 0, false
	}

	if until := e.Until(); until != 0 && now >= until {
		e.turn(now) // ends the lease
	}

	begins := e.Begins()
	if begins != 0 && now >= begins {
		e.turn(now) // begins the next

		begins = 0
	}

	e.fold()

	if e.mute() {
		e.refresh()
	}

	refresh, look := e.renewal(now)
	early, ahead := e.WantsAhead(int64(e.lead) << leadShift)
	_, flying := e.Asked()
	_, denied := e.Denied(now, 1)

	switch {
	case flying || len(e.waits()) > 0:
		return now + busyAgain, false
	case (refresh != 0 || e.Owes()) && e.mute():
		e.Forget()

		return now + busyAgain, false
	case now < e.Again() && (ahead || refresh != 0 || e.Owes()): // a dead store node with many keys is not asked for each at every visit
		return e.Again(), false
	case ahead && now >= early && !e.leaving():
		e.ahead = true

		return now + busyAgain, true
	case ahead && early < refresh && now < refresh && !e.leaving():
		return sooner(early, look), false
	case refresh != 0 && now < refresh && !e.leaving():
		return sooner(sooner(refresh, begins), look), false
	case refresh != 0 || e.Owes():
		if down, probe := e.rule().table.out.ask(now); down && !probe {
			return now + oweAgain, false
		}

		return now + busyAgain, true
	case e.leaving():
	case begins != 0:
		return begins, false
	case denied && now < e.unused(now, idleAfter): // so that whoever runs wild is refused by what is at hand
		return min(e.AskAgain(), e.unused(now, idleAfter)), false
	case now < e.unused(now, restAfter):
		return e.unused(now, restAfter), false
	case e.leaveTrace(now):
	case denied:
		return e.AskAgain(), false
	case now < e.unused(now, idleAfter):
		return e.unused(now, idleAfter), false
	}

	e.leave()

	return 0, false
}

// renewal returns when e's lease is to be renewed, at once if it is looked at and found idle, and when to look at it next.
func (e *Entry) renewal(now int64) (refresh, look int64) {
	if e.Look(now) {
		return now, 0
	}

	return e.Refresh(), e.LookAt()
}

// sooner returns the earlier of a and b, of which b may be 0 for never.
func sooner(a, b int64) int64 {
	if b == 0 {
		return a
	}

	return min(a, b)
}

// leave takes e out of the table; under its lock.
func (e *Entry) leave() {
	e.gone = true

	if e.rule().keys.remove(&e.name) {
		e.rule().table.keys.Add(-1)
	}
}
