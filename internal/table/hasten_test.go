package table_test

import (
	"context"
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/table"
)

const alikeRules = `rules:
  - {id: a, keyBy: user, limit: 10000, window: 1s}
  - {id: b, keyBy: user, limit: 10000, window: 1s}
`

// longLeases has holder 0 lease a key of both rules for long.
func (r *rig) longLeases() {
	r.t.Helper()

	for range 200 {
		r.times(0, "a", "k", 1)
		r.steadily("b", "k", 1)
	}

	r.wait(sec)

	if asks := r.steadily("a", "k", 2) + r.steadily("b", "k", 2); asks != 0 {
		r.t.Fatalf("%d asks about 4 requests: the leases are not long", asks)
	}
}

// What is leased for long of the rules that are named, or of all, is asked about with the next requests.
func TestChangedOverridesHastenLongLeases(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		named []string
		a, b  bool
	}{
		"one":     {[]string{"a"}, true, false},
		"another": {[]string{"no such rule", "b"}, false, true},
		"no such": {[]string{"no such rule"}, false, false},
		"all":     {nil, true, true},
	} {
		r := newRig(t, 1, alikeRules)
		r.longLeases()
		r.holders[0].Overridden(c.named)

		if asks := r.steadily("a", "k", 2); (asks > 0) != c.a {
			t.Errorf("%s: %d asks about a", name, asks)
		}

		if asks := r.steadily("b", "k", 2); (asks > 0) != c.b {
			t.Errorf("%s: %d asks about b", name, asks)
		}
	}
}

// For two seconds nothing is leased for long then, since another coordinator may not have heard of the change. Later it is.
func TestAfterAChangeNothingIsLeasedForLongForAWhile(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, alikeRules)
	r.longLeases()
	r.holders[0].Overridden(nil)

	if asks := r.steadily("a", "k", 40); asks < 4 || asks > 20 {
		t.Errorf("%d asks about 40 requests in two seconds: want as many as without long leases", asks)
	}

	r.steadily("a", "k", 200)

	if asks := r.steadily("a", "k", 200); asks > 3 {
		t.Errorf("%d asks in ten seconds: no lease is long any more", asks)
	}
}

// crossing is a Source whose answers come after word of a change that its coordinator had not heard of.
type crossing struct {
	table.Source

	holder *table.Table
	armed  bool
}

func (c *crossing) Acquire(ctx context.Context, b *ledger.Batch) (*ledger.Answers, error) {
	answers, err := c.Source.Acquire(ctx, b)
	if c.armed && len(b.Asks) > 0 && b.Asks[0].Ask.Long {
		c.armed = false
		c.holder.Overridden(nil)
	}

	return answers, err
}

// An answer that was on its way when something changed may be long, and is not relied on.
func TestALongLeaseOnItsWayIsHastened(t *testing.T) {
	t.Parallel()

	r := newRig(t, 1, alikeRules)
	source := &crossing{Source: r.holders[0].gate.Source, holder: r.holders[0].Table}
	r.holders[0].gate.Source = source
	r.longLeases()

	source.armed = true
	for source.armed {
		r.steadily("a", "k", 1)
	}

	if asks := r.steadily("a", "k", 2); asks == 0 {
		t.Error("no ask: the lease that came is believed to last")
	}
}
