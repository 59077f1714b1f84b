package table_test

import (
	"strconv"
	"testing"

	"github.com/leaseway/leaseway/internal/table"
)

// strangers sends a request of each of n keys that the table has no room for, and returns how many passed.
func (r *rig) strangers(n int) (passed int) {
	for i := range n {
		passed += r.times(0, "r", "stranger"+strconv.Itoa(i), 1)
	}

	return passed
}

// What keys that found the table full were admitted in an outage is nobody's debt: least of all that of requests without a
// key, whose shared budget is of the empty one.
func TestTheDebtOfUnknownKeysIsNobodys(t *testing.T) {
	t.Parallel()

	r := newRig(t, 0, "rules: [{id: r, keyBy: user, missing: shared, limit: 10, window: 1h}]")
	r.add(table.Config{MaxKeys: 1})
	r.take(0, "r", "kept", 1)
	r.cut()
	r.take(0, "r", "kept", 10)

	if n := r.strangers(100); n != 8 {
		t.Errorf("%d strangers passed in the outage, where four fifths of 10 are their share", n)
	}

	if out := r.peek(0, "r", "another"); out.Kind != table.OverLimit {
		t.Errorf("a look after that: %+v", out)
	}

	r.heal()

	for range 100 { // one of them finds out
		r.wait(10 * ms)
		r.strangers(1)
	}

	if n := r.times(0, "r", "", 20); n != 10 {
		t.Errorf("%d of 10 passed without a key, of which none had come before", n)
	}
}

// A limit that changes while no coordinator answers changes what each server admits alone, of keys that it knows and of others.
func TestALimitThatChangesInAnOutage(t *testing.T) {
	t.Parallel()

	r := newRig(t, 0, "rules: [{id: r, keyBy: user, limit: 1000, window: 1h}]")
	r.add(table.Config{MaxKeys: 1})
	r.take(0, "r", "kept", 1)
	r.wait(sec)
	r.cut()

	want := func(of string, got, want int) {
		t.Helper()

		if got != want {
			t.Errorf("%s: %d passed, want %d", of, got, want)
		}
	}

	r.times(0, "r", "kept", 100)
	want("strangers", r.strangers(100), 100)

	r.apply("rules: [{id: r, keyBy: user, limit: 10, window: 1h}]")
	want("lowered", r.times(0, "r", "kept", 100), 0)
	want("lowered, strangers", r.strangers(100), 0)

	r.apply("rules: [{id: r, keyBy: user, limit: 100, window: 1h}]")
	want("raised", r.times(0, "r", "kept", 100), 80-8)
	want("raised, strangers", r.strangers(100), 80-8)

	r.apply("rules: [{id: r, keyBy: user, limit: 100, window: 1h, fallback: {limit: 90, window: 1h}}]")
	want("a fallback of its own", r.times(0, "r", "kept", 100), 90-80)

	r.heal()
	r.wait(10 * sec)

	// What is owed of it all is more than there is.
	want("afterwards", r.times(0, "r", "kept", 200), 0)
}

// Nothing that is given back, and no pause, makes an answer tell of more than the limit.
func TestNoMoreThanTheLimitRemains(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 1000, window: 10s}]")

	for _, pause := range []int64{ms, 30 * ms, 200 * ms} {
		var charges []table.Charge

		for range 200 {
			out := r.take(0, "r", "k", 1)
			charges = append(charges, out.Charge)

			if out.Remaining >= 1000 {
				t.Fatalf("one of 1,000 was taken: %+v", out)
			}
		}

		for _, c := range charges {
			r.holders[0].Refund(c)
		}

		r.wait(pause)
	}
}
