//go:build unix

package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

const partialRules = `
rules:
  - {id: r, keyBy: user, limit: 1000, window: 1s, burst: 1000}
  - {id: closed, keyBy: user, limit: 1000, window: 1s, onUnavailable: deny}
`

// A store that does not answer for some keys: they are decided as their rules say, at once, and all others as ever;
// the coordinator says it once, and not for each request.
func TestStoreUnreachable(t *testing.T) {
	w := newWorkshop(t, partialRules, 1)
	fleet := dial(t, 2, w.addresses)
	clock := watchClock(t)
	prefix := "bad"

	bad := send(t, fleet, load{rule: "r", key: "bad"})
	closed := send(t, fleet, load{rule: "closed", key: "bad"})
	good := send(t, fleet, load{rule: "r", key: "good"})

	for _, tr := range []*traffic{bad, closed, good} {
		tr.more(t, 200)
	}

	began := time.Now()

	w.store.broken.Store(&prefix)
	bad.sees(t, leaseway.OriginLocal, 1_000)
	closed.sees(t, leaseway.OriginClosed, 1_000)
	good.sees(t, leaseway.OriginLease, 100)

	// A late call, which a busy machine brings about, makes an outage of all that passes; one node must not.
	eventually(t, "all but the node is well", func() bool { return well(fleet) })

	empty := "none of these"
	w.store.broken.Store(&empty)
	bad.sees(t, leaseway.OriginLease, 100)
	closed.sees(t, leaseway.OriginLease, 100)

	for _, tr := range []*traffic{bad, closed, good} {
		tr.stop()
		tr.punctual(t, clock)

		if over := excess(tr.of(leaseway.OriginLease, leaseway.OriginStore), 1_000, 1_000); over > 0 {
			t.Errorf("a window admitted %.1f above burst + rate × time", over)
		}
	}

	if n := strings.Count(w.log.String(), errNode.Error()); n == 0 || n > 3+saidAgain(began) {
		t.Errorf("the log says it %d times, want about once", n)
	}
}

// With one of two coordinators gone the other one is asked, and decisions go on as before.
func TestSomeCoordinatorsUnreachable(t *testing.T) {
	w := newWorkshop(t, partialRules, 2)
	ways := []*link{newLink(t, w.addresses[0]), newLink(t, w.addresses[1])}
	fleet := dial(t, 4, []string{ways[0].Listen, ways[1].Listen})
	clock := watchClock(t)
	tr := send(t, fleet, load{rule: "r", key: "k"})
	tr.more(t, 1_000)

	for _, way := range ways {
		eventually(t, "all are well", func() bool { return well(fleet) })
		way.Stop()
		tr.more(t, 3_000)
		eventually(t, "all use the other one", func() bool { return well(fleet) })

		before := tr.asked[leaseway.OriginLocal].Load()

		tr.more(t, 3_000)

		// On a busy machine a call can be late, whoever is called.
		if n := tr.asked[leaseway.OriginLocal].Load() - before; n > 300 && clock.allowance() < deadline {
			t.Errorf("%d of 3,000 decisions were made without a coordinator, though one was there", n)
		}

		way.up()
	}

	// Slow is as good as gone: past a few late calls the other one is asked.
	eventually(t, "all are well", func() bool { return well(fleet) })
	ways[0].poison("latency", `{"latency": 500}`)
	tr.more(t, 3_000)
	eventually(t, "all use the other one", func() bool { return well(fleet) })
	ways[0].cure()
	tr.stop()
	tr.punctual(t, clock)

	if over := excess(tr.of(leaseway.OriginLease, leaseway.OriginStore), 1_000, 1_000); over > 0 {
		t.Errorf("a window admitted %.1f above burst + rate × time", over)
	}
}

// A bug in the coordinator is an outage to its holders, counted and logged now and then, and over when it is.
func TestBugInTheLimiter(t *testing.T) {
	w := newWorkshop(t, partialRules, 1)
	fleet := dial(t, 2, w.addresses)
	clock := watchClock(t)
	tr := send(t, fleet, load{rule: "r", key: "k"})
	closed := send(t, fleet, load{rule: "closed", key: "k"})

	tr.more(t, 200)

	began := time.Now()

	w.store.panics.Store(true)
	tr.sees(t, leaseway.OriginLocal, 500)
	closed.sees(t, leaseway.OriginClosed, 500)
	w.store.panics.Store(false)
	tr.sees(t, leaseway.OriginLease, 100)
	closed.sees(t, leaseway.OriginLease, 100)

	for _, tr := range []*traffic{tr, closed} {
		tr.stop()
		tr.punctual(t, clock)
	}

	if n := strings.Count(w.log.String(), "a bug in the store"); n == 0 || n > 5+saidAgain(began) {
		t.Errorf("the log says it %d times, want now and then", n)
	}
}

// saidAgain is how often what goes on has been logged again since it began: every ten seconds.
func saidAgain(began time.Time) int { return int(time.Since(began) / (10 * time.Second)) }

// Rules that go bad, or away, leave the last good ones in force, and the log says where and why.
func TestRulesGoBad(t *testing.T) {
	c := newCoordinator(t, "rules: [{id: r, keyBy: user, limit: 10, window: 12h, lease: {ttl: 1m}}]", "--log-format", "json")
	l := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))[0]
	good := l.Rules().Version

	write(t, c.path("rules.yaml"), "rules:\n  - {id: r, keyBy: user, limit: 1000, window: 12h}\n  - {id: s, limit: -1, window: fortnight}\n")
	eventually(t, "the log says where and why", func() bool {
		return slices.ContainsFunc(c.said("error"), func(s string) bool { return strings.Contains(s, "rules.yaml:3:") && strings.Contains(s, "fortnight") })
	})

	if n, _ := times(t, l, 20, at{"r", "ada"}); n != 10 || l.Rules().Version != good {
		t.Errorf("%d passed under version %d, want 10 under %d", n, l.Rules().Version, good)
	}

	write(t, c.path("rules.yaml"), "rules: [{id: r, keyBy: user, limit: 20, window: 12h, lease: {ttl: 1m}}]")

	began := time.Now()

	eventually(t, "the next good ones are in force", func() bool { return l.Rules().Version > good })
	t.Logf("good rules were in force after %v", time.Since(began))

	if n, _ := times(t, l, 20, at{"r", "ada"}); n != 10 {
		t.Errorf("%d more passed when 10 became 20, want 10", n)
	}
}
