//go:build unix

package faults

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

// One rule for each onUnavailable, one with a fallback of its own, one with a limit that is small for three holders.
const outageRules = `
rules:
  - {id: local, keyBy: user, limit: 600, window: 1s, burst: 300}
  - {id: small, keyBy: user, limit: 2, window: 1s}
  - {id: fixed, keyBy: user, limit: 600, window: 1s, fallback: {limit: 50, window: 1s}}
  - {id: open, keyBy: user, limit: 600, window: 1s, onUnavailable: allow}
  - {id: closed, keyBy: user, limit: 600, window: 1s, onUnavailable: deny}
`

// degraded reports whether none of a fleet has a coordinator.
func degraded(fleet []*leaseway.Limiter) bool {
	return !slices.ContainsFunc(fleet, func(l *leaseway.Limiter) bool { return !l.Degraded() })
}

// well reports whether all of a fleet have one.
func well(fleet []*leaseway.Limiter) bool {
	return !slices.ContainsFunc(fleet, (*leaseway.Limiter).Degraded)
}

// all knows waits until every holder knows how many there are.
func allKnow(t *testing.T, fleet []*leaseway.Limiter, live int64) {
	t.Helper()
	eventually(t, "every holder knows of the others", func() bool {
		return !slices.ContainsFunc(fleet, func(l *leaseway.Limiter) bool { return l.Stats().Live != live })
	})
}

// A coordinator that is killed: leases are spent to their end, then each rule's onUnavailable decides, within its
// bound; nobody waits; and when it is back the limit is as before.
func TestCoordinatorUnreachable(t *testing.T) {
	const holders = 3

	c := newCoordinator(t, outageRules)
	fleet := dial(t, holders, []string{c.grpc})
	clock := watchClock(t)

	loads := map[string]*traffic{}
	for _, rule := range []string{"local", "small", "fixed", "open", "closed"} {
		loads[rule] = send(t, fleet, load{rule: rule, key: "k"})
	}

	allKnow(t, fleet, holders)

	for _, tr := range loads {
		tr.more(t, 300)
	}

	c.Kill()
	eventually(t, "all have noticed", func() bool { return degraded(fleet) })
	loads["local"].sees(t, leaseway.OriginLocal, 300)
	loads["small"].sees(t, leaseway.OriginLocal, 300)
	loads["fixed"].sees(t, leaseway.OriginLocal, 300)
	loads["open"].sees(t, leaseway.OriginOpen, 300)
	loads["closed"].sees(t, leaseway.OriginClosed, 300)

	before := runtime.NumGoroutine()

	for _, tr := range loads {
		tr.more(t, 1_000)
	}

	if after := runtime.NumGoroutine(); after > before+holders*4 { // calls that look whether it is back
		t.Errorf("%d goroutines became %d in the outage", before, after)
	}

	if d := take(t, fleet[0], "closed", "k"); d.Allowed || d.Reason != leaseway.ReasonUnavailable || d.RetryAfter <= 0 {
		t.Errorf("a rule that fails closed answered %+v, want unavailable with a time to come back", d)
	}

	if d := take(t, fleet[0], "open", "k"); !d.Allowed || d.Origin != leaseway.OriginOpen {
		t.Errorf("a rule that fails open answered %+v", d)
	}

	c.run(t)
	eventually(t, "all are well", func() bool { return well(fleet) })
	loads["local"].sees(t, leaseway.OriginStore, 1)
	loads["local"].more(t, 300)

	// burst and rate of the rule; how much the local limits admit at once, and a second, all holders together.
	for rule, limit := range map[string][4]float64{
		"local":  {300, 600, 0.8 * 300, 0.8 * 600},
		"small":  {2, 2, holders, 0.8 * 2},
		"fixed":  {600, 600, holders * 50, holders * 50},
		"open":   {600, 600, 0, 0},
		"closed": {600, 600, 0, 0},
	} {
		tr := loads[rule]
		tr.stop()
		tr.punctual(t, clock)

		leased := tr.of(leaseway.OriginLease, leaseway.OriginStore)
		if over := excess(leased, limit[0], limit[1]); over > 0 {
			t.Errorf("%s: a window admitted %.1f above burst + rate × time", rule, over)
		}

		local := tr.of(leaseway.OriginLocal)
		if over := excess(local, limit[2], limit[3]); over > 0 {
			t.Errorf("%s: without a coordinator a window admitted %.1f above the holders' shares", rule, over)
		}

		if len(leased) == 0 || limit[2] > 0 && len(local) == 0 {
			t.Errorf("%s: %d were admitted with a coordinator and %d without", rule, len(leased), len(local))
		}
	}
}

// take makes one request for one token.
func take(t *testing.T, l *leaseway.Limiter, rule, key string) leaseway.Decision {
	t.Helper()

	r, err := l.Rule(rule)
	if err != nil {
		t.Fatal(err)
	}

	return r.Take(key)
}

// at is whose budget is spent.
type at struct{ rule, key string }

// times takes n times, one after the other, and returns how many passed with and without a coordinator.
func times(t *testing.T, l *leaseway.Limiter, n int, from at) (leased, local int) {
	t.Helper()

	for range n {
		switch d := take(t, l, from.rule, from.key); {
		case !d.Allowed:
		case d.Origin.Degraded():
			local++
		default:
			leased++
		}
	}

	return leased, local
}

// A server that starts while the coordinator is down has the last rules that it was told, and its share of the limit.
func TestServerStartsWithoutCoordinator(t *testing.T) {
	const holders = 4

	c := newCoordinator(t, "rules: [{id: r, keyBy: user, limit: 100, window: 1h}]")
	dir := t.TempDir()
	keeper := dial(t, 1, []string{c.grpc}, leaseway.WithStateDir(dir))[0]
	fleet := append(dial(t, holders-1, []string{c.grpc}), keeper)

	for i, l := range fleet {
		take(t, l, "r", string(rune('a'+i)))
	}

	eventually(t, "it knows of the others", func() bool { take(t, keeper, "r", "e"); return keeper.Stats().Live == holders })

	if err := keeper.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	c.Kill()

	again := dial(t, 1, []string{c.grpc}, leaseway.WithStateDir(dir))[0]
	if _, local := times(t, again, 100, at{"r", "k"}); local != 80/holders {
		t.Errorf("it admitted %d, want a %dth of 80", local, holders)
	}

	// Without a directory there is nothing to start with, and the error says what to do.
	began := time.Now()
	ctx, cancel := contextFor(200 * time.Millisecond)

	defer cancel()

	if _, err := leaseway.Dial(ctx, []string{c.grpc}); err == nil || time.Since(began) > patience {
		t.Errorf("a holder without rules started: %v, after %v", err, time.Since(began))
	}
}
