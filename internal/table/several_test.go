package table_test

import (
	"context"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// takeAll asks holder h for n tokens of key under every rule named, and returns what each said.
func (r *rig) takeAll(h int, key string, n int64, ids ...string) []table.Hit {
	hits := make([]table.Hit, len(ids))
	for i, id := range ids {
		hits[i] = table.Hit{Rule: r.holders[h].Rule(id), Key: key, Cost: n}
	}

	r.holders[h].TakeAll(context.Background(), hits)

	return hits
}

const twoRules = "rules: [{id: a, keyBy: user, limit: 1000, window: 1s}, {id: b, keyBy: user, limit: 1000, window: 1s}]"

// Requests under several rules, and those that only look, find out as well that a coordinator answers again.
func TestAnyRequestEndsAnOutage(t *testing.T) {
	for name, ask := range map[string]func(r *rig){
		"several rules": func(r *rig) { r.takeAll(0, "k", 1, "a", "b") },
		"a look":        func(r *rig) { r.peek(0, "a", "k") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, twoRules)
			step := func(d int64) {
				for end := r.now + d; r.now < end; {
					r.wait(ms)
					ask(r)
				}
			}

			step(100 * ms)
			r.cut()
			r.take(0, "a", "fresh", 1)
			step(sec)

			if !r.holders[0].Stats().Down {
				t.Fatal("the outage was not noticed")
			}

			r.heal()
			step(500 * ms)

			if r.holders[0].Stats().Down {
				t.Error("the outage goes on though every call would succeed")
			}
		})
	}
}

// A cost that is more than is left beside the leases is refused, not asked for again and again.
func TestACostAboveWhatIsLeftIsAnswered(t *testing.T) {
	r := newRig(t, 2, "rules: [{id: a, keyBy: user, limit: 1000, window: 10s, algorithm: fixed_window}, {id: b, keyBy: user, limit: 2000, window: 10s}]")

	for range 30 {
		r.take(0, "a", "k", 1)
		r.take(1, "a", "k", 1)
		r.wait(10 * ms)
	}

	calls := r.holders[1].gate.calls.Load()

	if out := r.take(1, "a", "k", 930); out.Kind != table.OverLimit || out.RetryAfter <= 0 {
		t.Errorf("930 of 1,000 with 60 spent and 44 leased: %+v", out)
	}

	if hits := r.takeAll(1, "k", 930, "a", "b"); hits[0].Out.Kind != table.OverLimit {
		t.Errorf("under two rules: %+v", hits[0].Out)
	}

	if n := r.holders[1].gate.calls.Load() - calls; n > 20 {
		t.Errorf("%d calls for two requests", n)
	}
}

// A refund that comes when the key is long forgotten is credited all the same.
func TestARefundAfterTheKeyLeft(t *testing.T) {
	for name, key := range map[string]string{"short": "k", "a digest stands for it": strings.Repeat("k", rule.MaxKey+1)} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 100, window: 1h}]")
			out := r.take(0, "a", key, 100)
			r.wait(10 * sec)

			if _, ok := r.holders[0].Rule("a").Key(rule.Compact(key)); ok {
				t.Fatal("the key is still there: wait longer")
			}

			r.holders[0].Refund(out.Charge)

			if out := r.take(0, "a", key, 100); out.Kind != table.Allowed {
				t.Errorf("100 were refunded and are not to be had: %+v", out)
			}
		})
	}
}

// A refund does not make an admission unhappen, whatever its cost.
func TestARefundedRequestStaysCounted(t *testing.T) {
	r := newRig(t, 1, twoRules)

	for range 100 {
		r.take(0, "a", "k", 1)
		r.wait(5 * ms)
	}

	before := r.holders[0].Stats().Rules[0].Allowed[table.FromLease]
	out := r.take(0, "a", "k", 10)

	if out.Origin != table.FromLease {
		t.Fatalf("it was not paid from the lease: %+v", out)
	}

	r.holders[0].Refund(out.Charge)

	if after := r.holders[0].Stats().Rules[0].Allowed[table.FromLease]; after != before+1 {
		t.Errorf("%d admitted before, %d after one more and its refund", before, after)
	}
}

// After Close nobody waits for a coordinator, although it took the leases back.
func TestAfterCloseItIsAnOutage(t *testing.T) {
	r := newRig(t, 1, twoRules)

	for range 50 {
		r.take(0, "a", "k", 1)
		r.wait(2 * ms)
	}

	if err := r.holders[0].Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	calls := r.holders[0].gate.calls.Load()

	if out := r.take(0, "a", "k", 1); out.Origin != table.FromLocal || !r.holders[0].Stats().Down {
		t.Errorf("a request after Close: %+v", out)
	}

	if n := r.holders[0].gate.calls.Load() - calls; n > 0 {
		t.Errorf("it made %d calls", n)
	}
}

// mute is a source whose stores answer for no key, though the calls succeed.
type mute struct {
	table.Source

	asks *int // keys that were asked about; nil to count none
}

func (m mute) Acquire(ctx context.Context, b *ledger.Batch) (*ledger.Answers, error) {
	if m.asks != nil {
		*m.asks += len(b.Asks)
	}

	answers, err := m.Source.Acquire(ctx, b)
	for i := range answers.Keys {
		answers.Keys[i] = ledger.KeyAnswer{Code: ledger.KeyUnavailable}
	}

	return answers, err
}

// Keys that find the table full share one local limit, also when only their own store is out of reach.
func TestAFullTableFailsToOneLocalLimit(t *testing.T) {
	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 10, window: 1h}]")
	h := r.holders[0]
	h.Table = table.New(mute{Source: r.coord}, table.Config{Clock: h.clock, Inline: true, MaxKeys: 1})

	if err := h.SetRules(r.book.Current()); err != nil {
		t.Fatal(err)
	}

	r.take(0, "a", "the one that is kept", 1)

	if n := r.times(0, "a", "k", 50); n != 8 {
		t.Errorf("%d admitted, where four fifths of 10 are the holder's share", n)
	}
}

// A key whose store does not answer is asked about no more often than it waits, although its lease is due and debt is owed.
func TestAKeyWithoutItsStoreIsSeldomAskedAbout(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, "rules: [{id: a, keyBy: user, limit: 1000, window: 1s}]")
	h, asks := r.holders[0], 0

	for range 200 {
		r.take(0, "a", "k", 1)
		r.wait(2 * ms)
	}

	h.gate.Source = mute{Source: r.coord, asks: &asks}

	for range 1000 { // the first of them spend what is leased
		r.take(0, "a", "k", 1)
		r.wait(2 * ms)
	}

	// Half of 50 ms at least are between two asks, where every visit of its lease, each 20 ms, would be one.
	if asks < 10 || asks > 80 {
		t.Errorf("%d asks in 2 s", asks)
	}
}
