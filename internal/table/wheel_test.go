package table_test

import (
	"fmt"
	"testing"
)

// What an idle key took is free again: nothing goes on pointing to a key that has left.
func TestIdleKeysLeaveTheHeap(t *testing.T) {
	const keys = 20_000

	const doc = "rules: [{id: r, keyBy: user, limit: 100, window: 1m}]"

	_, empty := heapOf(t, doc, func(*rig) {})

	left, idle := heapOf(t, doc, func(r *rig) {
		for i := range keys {
			r.times(0, "r", fmt.Sprintf("user-%06d", i), 1)

			if i%100 == 0 {
				r.wait(10 * ms) // they come one by one, not all in one turn of the wheel
			}
		}

		r.wait(5 * sec)
	})

	if left.Keys != 0 {
		t.Fatalf("%d keys are still in the table", left.Keys)
	}

	if got := (idle - empty) / keys; got > 2 { // of 40 in use, see TestBytesAKey
		t.Errorf("%d bytes a key after all of them left", got)
	}
}
