package memory

import "math/bits"

// A table finds records by their id: open addressing with linear probing in one
// array without pointers, so that the garbage collector has nothing to look at.
// The place of an id is a fraction of the array, which lets it grow by a
// quarter at a time: between 64 and 80 % of it are used, 40 to 50 bytes a record.
type table struct {
	slots []record
	used  int
}

const minSlots = 16

// find returns where id is, or where it would be, and whether it is there.
func (t *table) find(id keyID) (int, bool) {
	if len(t.slots) == 0 {
		return 0, false
	}

	for i := t.home(id); ; i = t.next(i) {
		switch r := &t.slots[i]; {
		case r.empty():
			return i, false
		case r.id == id:
			return i, true
		}
	}
}

// insert adds a record whose id is not in the table.
func (t *table) insert(r record) {
	if (t.used+1)*5 > len(t.slots)*4 {
		t.resize(max(minSlots, len(t.slots)*5/4))
	}

	i, _ := t.find(r.id)
	t.slots[i] = r
	t.used++
}

// remove empties slot i and moves later records up, so that none is cut off from its home.
func (t *table) remove(i int) {
	for j := t.next(i); !t.slots[j].empty(); j = t.next(j) {
		if t.between(i, t.home(t.slots[j].id), j) {
			continue
		}

		t.slots[i] = t.slots[j]
		i = j
	}

	t.slots[i] = record{}
	t.used--
}

// trim gives memory back when less than two fifths of it are used.
func (t *table) trim() {
	switch {
	case t.used == 0:
		t.slots = nil
	case len(t.slots) > minSlots && t.used*5 < len(t.slots)*2:
		t.resize(max(minSlots, t.used*3/2))
	}
}

func (t *table) resize(n int) {
	old := t.slots
	t.slots = make([]record, n)

	for i := range old {
		if !old[i].empty() {
			j, _ := t.find(old[i].id)
			t.slots[j] = old[i]
		}
	}
}

func (t *table) home(id keyID) int {
	place, _ := bits.Mul64(id.hi, uint64(len(t.slots)))

	return int(place)
}

func (t *table) next(i int) int {
	if i+1 < len(t.slots) {
		return i + 1
	}

	return 0
}

// between reports whether home lies after gap and not after j, going round:
// then the record at j would be out of reach in the gap.
func (t *table) between(gap, home, j int) bool {
	if gap <= j {
		return gap < home && home <= j
	}

	return gap < home || home <= j
}
