package table_test

import (
	"testing"
)

// Debt of a rule that is gone can be told to nobody: it is not asked about for ever.
func TestDebtOfARetiredRule(t *testing.T) {
	t.Parallel()

	const other = "{id: other, limit: 5, window: 1s}"

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 100, window: 1s}, "+other+"]")
	r.times(0, "r", "k", 20)
	r.cut()
	r.wait(2 * sec)
	r.times(0, "r", "k", 20)
	r.apply("rules: [" + other + "]")
	r.heal()
	r.wait(10 * sec)

	calls := r.holders[0].gate.calls.Load()
	r.wait(10 * sec)

	if n := r.holders[0].gate.calls.Load() - calls; n > 0 {
		t.Errorf("%d calls within 10 s about a rule that nobody has", n)
	}
}

// A lease of a rule that is gone is not offered back again and again.
func TestALeaseOfARetiredRule(t *testing.T) {
	t.Parallel()

	const other = "{id: other, limit: 5, window: 1s}"

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 10000, window: 1s}, "+other+"]")

	for range 50 {
		r.wait(5 * ms)
		r.take(0, "r", "k", 1)
	}

	calls := r.holders[0].gate.calls.Load()

	r.apply("rules: [" + other + "]")
	r.wait(sec)

	if n := r.holders[0].gate.calls.Load() - calls; n > 2 {
		t.Errorf("%d calls about a lease of a rule that nobody has", n)
	}
}
