package memory

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// The table against a map. Few different homes make long runs, which wrap
// around the end of the array and close up again.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tab table

		twin := map[keyID]uint64{}
		ids := rapid.Custom(func(t *rapid.T) keyID {
			return keyID{
				hi: rapid.SampledFrom([]uint64{0, 1 << 62, 1<<64 - 1, 1<<64 - 1<<60, 1<<63 + 1<<59}).Draw(t, "hi"),
				lo: rapid.Uint64Range(0, 30).Draw(t, "lo"),
			}
		})

		for step := range rapid.IntRange(1, 300).Draw(t, "steps") {
			id := ids.Draw(t, "id")
			slot, found := tab.find(id)

			if _, want := twin[id]; found != want {
				t.Fatalf("step %d: find(%v) is %v, want %v", step, id, found, want)
			}

			switch rapid.IntRange(0, 4).Draw(t, "do") {
			case 0, 1, 2:
				if !found {
					tab.insert(record{id: id, when: uint64(step), rest: 1})
					twin[id] = uint64(step)
				}
			case 3:
				if found {
					tab.remove(slot)
					delete(twin, id)
				}
			default:
				tab.trim()
			}

			if tab.used != len(twin) {
				t.Fatalf("step %d: %d records, want %d", step, tab.used, len(twin))
			}
		}

		for id, when := range twin {
			if slot, found := tab.find(id); !found || tab.slots[slot].when != when {
				t.Fatalf("%v is lost or is another's", id)
			}
		}
	})
}

func TestTableGivesMemoryBack(t *testing.T) {
	var tab table

	for i := range uint64(10_000) {
		tab.insert(record{id: keyID{hi: i * 0x9e3779b97f4a7c15}, rest: 1})
	}

	if n := len(tab.slots); n > 10_000*100/64 {
		t.Errorf("10,000 records have %d slots, more than at 64 %%", n)
	}

	for i := range uint64(9_990) {
		slot, _ := tab.find(keyID{hi: i * 0x9e3779b97f4a7c15})
		tab.remove(slot)
	}

	tab.trim()

	if len(tab.slots) > minSlots {
		t.Errorf("10 records have %d slots, want %d", len(tab.slots), minSlots)
	}
}

func TestRecordKeepsTheInstant(t *testing.T) {
	if size := unsafe.Sizeof(record{}); size != 32 {
		t.Errorf("a record has %d bytes, want 32", size)
	}

	rapid.Check(t, func(t *rapid.T) {
		tat := rate.Time{
			Micros: rapid.Int64Range(-maxTAT, maxTAT).Draw(t, "micros"),
			Frac:   rapid.Int64Range(0, rate.MaxLimit-1).Draw(t, "frac"),
		}
		ref := rapid.Uint32Range(1, heldRef-1).Draw(t, "ref")

		r := restRecord(keyID{1, 2}, tat, ref)
		if r.tat() != tat || r.ref() != ref || r.held() || r.empty() {
			t.Fatalf("%v with %d came back as %v with %d", tat, ref, r.tat(), r.ref())
		}
	})

	for _, micros := range []int64{1<<63 - 1, -1 << 63} {
		if r := restRecord(keyID{}, rate.At(micros), 1); (r.tat().Micros > 0) != (micros > 0) {
			t.Errorf("%d µs came back as %d", micros, r.tat().Micros)
		}
	}
}

func TestTermsAreKeptWhileInUse(t *testing.T) {
	table := newTermsTable()
	terms := func(version int) ledger.Terms { return ledger.Terms{Version: uint64(version)} }

	refs := map[uint32]int{}

	for v := range 3 * termsPageSize {
		refs[table.acquire(terms(v))] = v
	}

	if again := table.acquire(terms(7)); refs[again] != 7 {
		t.Errorf("terms 7 got another reference, %d", again)
	}

	for ref, v := range refs {
		if got := *table.at(ref); got != terms(v) || ref == 0 || ref == heldRef {
			t.Errorf("reference %d is to %+v, want version %d", ref, got, v)
		}

		table.release(ref)
	}

	if n := table.len(); n != 1 {
		t.Errorf("%d terms are in use, want 1", n)
	}

	before := len(table.count)
	table.acquire(terms(-1))

	if len(table.count) != before {
		t.Error("a free reference was not used again")
	}
}
