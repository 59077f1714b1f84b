//go:build unix

package faults

import (
	"testing"

	"github.com/leaseway/leaseway"
)

// A limit belongs to the fleet: it is neither multiplied by its servers, nor divided away among them.
func TestLimitIsOfTheFleet(t *testing.T) {
	c := newCoordinator(t, `
rules:
  - {id: ten, keyBy: user, limit: 10, window: 60s}
  - {id: five, keyBy: user, limit: 5, window: 60s}
  - {id: seven, keyBy: user, limit: 7, window: 60s}
`)
	fleet := dial(t, 16, []string{c.grpc}, leaseway.WithDeadline(unhurried))

	sum := 0

	for _, l := range fleet[:3] { // each is sent the limit
		n, _ := times(t, l, 10, at{"ten", "ada"})
		sum += n
	}

	if sum != 10 {
		t.Errorf("three servers admitted %d of a limit of 10", sum)
	}

	sum = 0

	for _, l := range fleet { // more servers than tokens, each in its turn
		n, _ := times(t, l, 1, at{"five", "ada"})
		sum += n
	}

	if sum != 5 {
		t.Errorf("16 servers admitted %d of a limit of 5", sum)
	}

	// All live, and one is sent everything.
	if n, _ := times(t, fleet[3], 10, at{"seven", "bob"}); n != 7 {
		t.Errorf("the only server that is asked admitted %d of a limit of 7", n)
	}
}

// A coordinator that comes back knows nobody. If holders believed that, each would take itself for the only one, and
// when it goes again each would admit the share of all.
func TestNobodyTakesItselfForTheOnlyOne(t *testing.T) {
	const holders = 4

	c := newCoordinator(t, "rules: [{id: r, keyBy: user, limit: 100, window: 12h, afterLoss: full}]")
	fleet := dial(t, holders, []string{c.grpc})
	everyone := send(t, fleet, load{rule: "r", key: "busy"})
	allKnow(t, fleet, holders)

	for range 2 { // it comes back, and goes before it has heard of them all
		c.Kill()
		eventually(t, "all have noticed", func() bool { return degraded(fleet) })
		c.run(t)
		eventually(t, "one is well", func() bool { return !degraded(fleet) })
	}

	c.Kill()
	eventually(t, "all have noticed", func() bool { return degraded(fleet) })
	everyone.stop()

	sum := 0

	for _, l := range fleet {
		_, local := times(t, l, 100, at{"r", "ada"})
		sum += local
	}

	if sum != 80 {
		t.Errorf("without a coordinator %d holders admitted %d, want 80 of the limit of 100", holders, sum)
	}
}
