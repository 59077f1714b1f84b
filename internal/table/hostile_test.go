package table_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// hostile are a few servers that are asked, and cut off, and given back to, in any order, while the rule changes under them.
type hostile struct {
	*rig

	random  *rand.Rand
	changes bool // of the rule
	paid    []owedBy
	flying  []table.Slot
}

type owedBy struct {
	holder int
	charge table.Charge
}

var (
	hostileRules = []string{
		"limit: 100, window: 10s",
		"limit: 1000, window: 10s",
		"limit: 10, window: 10s",
		"limit: 100, window: 10s, algorithm: fixed_window",
		"limit: 100, window: 1s, algorithm: fixed_window",
		"limit: 100, window: 10s, algorithm: sliding_window",
		"limit: 20, window: 10s, algorithm: sliding_log",
		"limit: 20, window: 10s, algorithm: leaky_bucket",
		"limit: 100, window: 10s, mode: shadow",
		"limit: 100, window: 10s, onUnavailable: allow",
		"limit: 100, window: 10s, onUnavailable: deny",
		"limit: 100, window: 10s, fallback: {limit: 5, window: 1s}",
		"limit: 5, algorithm: concurrency",
		"limit: 2000, algorithm: concurrency",
		"", // there is none
	}
	lastRules = []struct {
		of    string
		limit int
	}{
		{"limit: 100, window: 10s", 100},
		{"limit: 1000, window: 10s", 1000},
		{"limit: 100, window: 10s, algorithm: fixed_window", 100},
		{"limit: 100, window: 10s, algorithm: sliding_window", 100},
		{"limit: 20, window: 10s, algorithm: sliding_log", 20},
		{"limit: 20, window: 10s, algorithm: leaky_bucket", 20},
	}
	hostileKeys = []string{"a", "b", "c", "", "d", "e"}
)

func hostileDoc(of string) string {
	doc := "rules: [{id: other, keyBy: user, missing: shared, limit: 200, window: 10s}"
	if of != "" {
		doc += ", {id: r, keyBy: user, missing: shared, " + of + "}"
	}

	return doc + "]"
}

func (h *hostile) key() string { return hostileKeys[h.random.IntN(len(hostileKeys))] }

// step does one thing, whatever it is.
func (h *hostile) step() {
	at := h.random.IntN(len(h.holders))
	one := h.holders[at]

	switch h.random.IntN(20) {
	case 0, 1:
		spans := []int64{0, ms, 20 * ms, 300 * ms, 700 * ms, 2500 * ms, 12 * sec}
		h.wait(spans[h.random.IntN(len(spans))])
	case 2:
		if h.changes {
			h.change(hostileDoc(hostileRules[h.random.IntN(len(hostileRules))]))
		}
	case 3:
		one.gate.err = nil
		if h.random.IntN(2) == 0 {
			one.gate.err = errDown
		}
	case 4, 5, 6, 7:
		h.refund()
	case 8, 9:
		if one.Rule("r") != nil && !one.Rule("r").BoundsInFlight() {
			for _, hit := range h.takeAll(at, h.key(), 1+h.random.Int64N(12), "r", "other") {
				h.look(at, &hit.Out)
			}
		}
	case 10:
		if one.Rule("r") != nil && !one.Rule("r").BoundsInFlight() {
			out := h.peek(at, "r", h.key())
			h.look(at, &out)
		}
	default:
		if one.Rule("r") == nil {
			return
		}

		key, cost := h.key(), 1+h.random.Int64N(5)

		for range 1 + h.random.IntN(30) {
			if one.Rule("r").BoundsInFlight() {
				h.fly(at, key)

				continue
			}

			out := h.take(at, "r", key, cost)
			h.look(at, &out)
		}
	}
}

// change puts rules in force at the coordinator, and at some of the servers, which the others hear of later, or never.
func (h *hostile) change(doc string) {
	set, err := rule.Parse("rules.yaml", []byte(doc))
	if err != nil {
		h.t.Fatal(err)
	}

	if _, err := h.book.Apply(set); err != nil {
		h.t.Fatal(err)
	}

	for _, one := range h.holders {
		if h.random.IntN(2) == 0 {
			if err := one.SetRules(h.book.Current()); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

// fly takes a slot, and ends some other request.
func (h *hostile) fly(at int, key string) {
	hit := table.SlotHit{Rule: h.holders[at].Rule("r"), Key: key, Cost: 1}
	hit.Take(context.Background())
	h.look(at, &hit.Out)

	if h.flying = append(h.flying, hit.Slot); h.random.IntN(2) == 0 {
		h.land(h.random.IntN(len(h.flying)))
	}
}

func (h *hostile) land(i int) {
	h.flying[i].Release()

	if h.random.IntN(4) > 0 {
		h.flying = append(h.flying[:i], h.flying[i+1:]...)
	}
}

// refund gives back what somebody paid, be it long ago, or given back before.
func (h *hostile) refund() {
	for range min(len(h.paid), 1+h.random.IntN(3)) {
		i := h.random.IntN(len(h.paid))
		h.holders[h.paid[i].holder].Refund(h.paid[i].charge)

		if h.random.IntN(4) > 0 {
			h.paid = append(h.paid[:i], h.paid[i+1:]...)
		}
	}
}

// look judges an answer, and keeps some charges.
func (h *hostile) look(at int, out *table.Outcome) {
	h.t.Helper()

	if out.Remaining < 0 || out.Reset < 0 || out.RetryAfter < 0 || !h.changes && out.Remaining > out.Burst ||
		out.Kind == table.OverLimit && out.RetryAfter == 0 {
		h.t.Errorf("%+v", out)
	}

	if !out.Charge.None() && h.random.IntN(4) == 0 {
		h.paid = append(h.paid, owedBy{at, out.Charge})
	}
}

// Whatever happened, when it is over nothing is left of it: no key, no lease, no call, and each caller has the whole limit, once.
func TestNothingIsLeftOfWhatever(t *testing.T) {
	t.Parallel()

	for seed := range uint64(80) {
		afterWhatever(t, seed)
	}
}

func afterWhatever(t *testing.T, seed uint64) {
	t.Helper()

	random := rand.New(rand.NewPCG(seed, 7))
	last := lastRules[random.IntN(len(lastRules))]
	h := &hostile{rig: newRig(t, 0, hostileDoc(last.of)), random: random, changes: seed%2 == 0}

	for range 1 + random.IntN(3) {
		h.add(table.Config{MaxKeys: []int64{0, 3, 1}[random.IntN(3)], Random: random.Int64N})
	}

	for range 20 + random.IntN(150) {
		h.step()
	}

	for len(h.flying) > 0 {
		h.land(h.random.IntN(len(h.flying)))
	}

	h.heal()
	h.apply(hostileDoc(last.of))

	for range 3 { // somebody finds out
		for at := range h.holders {
			h.take(at, "r", "probe", 1)
		}

		h.wait(2 * sec)
	}

	h.wait(60 * sec)

	if h.changes { // what was used under a larger limit drains by the lower one
		h.wait(1500 * sec)
	}

	for at, one := range h.holders {
		if s := one.Stats(); s.Keys != 0 || s.Leases != 0 || s.Panics != 0 {
			t.Errorf("seed %d: holder %d has %+v", seed, at, s)
		}

		calls := one.gate.calls.Load()
		h.wait(10 * sec)

		if more := one.gate.calls.Load() - calls; more > 0 {
			t.Errorf("seed %d: holder %d makes %d calls about nothing", seed, at, more)
		}
	}

	for _, key := range hostileKeys {
		if n := h.times(random.IntN(len(h.holders)), "r", key, 3*last.limit); n != last.limit {
			t.Errorf("seed %d, %d holders, %s: %d passed of key %q at last", seed, len(h.holders), last.of, n, key)
		}
	}

	for _, one := range h.holders {
		_ = one.Close(context.Background())
	}
}
