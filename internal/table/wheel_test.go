package table_test

import (
	"fmt"
	"runtime"
	"testing"
)

// What an idle key took is free again: nothing goes on pointing to a key that has left.
func TestIdleKeysLeaveTheHeap(t *testing.T) {
	const keys = 20_000

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 100, window: 1m}]")
	before := heapInUse()

	for i := range keys {
		r.times(0, "r", fmt.Sprintf("user-%06d", i), 1)

		if i%100 == 0 {
			r.wait(10 * ms) // they come one by one, not all in one turn of the wheel
		}
	}

	busy := heapInUse() - before

	r.wait(5 * sec)

	if got := r.holders[0].Stats().Keys; got != 0 {
		t.Fatalf("%d keys are still in the table", got)
	}

	// The store keeps its records, and maps keep some room.
	if idle := heapInUse() - before; idle > busy/4 {
		t.Errorf("%d bytes a key in use, and %d after all of them left", busy/keys, idle/keys)
	}

	runtime.KeepAlive(r)
}

func heapInUse() int64 {
	for range 2 { // what pools let go of needs a second collection
		runtime.GC()
	}

	var m runtime.MemStats

	runtime.ReadMemStats(&m)

	return int64(m.HeapAlloc)
}
