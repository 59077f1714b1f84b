//go:build unix

package faults

import (
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

const recoveryRules = "rules: [{id: r, keyBy: user, limit: 100000, window: 1s}]"

// backWithin is two lifetimes of a lease.
const backWithin = time.Second

// A coordinator that is gone for a while is used again soon after it can be, by
// all, and not by all at once. What is measured begins when its port listens.
func TestHoldersAreBackSoon(t *testing.T) {
	const holders, times = 10, 20

	c := newCoordinator(t, recoveryRules)
	way := newLink(t, c.grpc)
	fleet := dial(t, holders, []string{way.Listen})
	send(t, fleet, load{rule: "r", key: "k", forget: true})
	clock := watchClock(t)

	var all []time.Duration

	for range times {
		eventually(t, "all are well", func() bool { return !slices.ContainsFunc(fleet, (*leaseway.Limiter).Degraded) })
		way.Stop()
		eventually(t, "all have noticed", func() bool {
			return !slices.ContainsFunc(fleet, func(l *leaseway.Limiter) bool { return !l.Degraded() })
		})

		// Gone for so long that pauses have grown, and for another time each time.
		over := time.Now().Add(50*time.Millisecond + rand.N(300*time.Millisecond))
		within(time.Until(over)+time.Second, func() bool { return time.Now().After(over) })
		way.up()

		all = append(all, backAfter(t, fleet)...)
	}

	slices.Sort(all)

	worst := all[len(all)-1]
	t.Logf("%d holders, %d times: half were back after %v, nine of ten after %v, the last after %v; timers were late by up to %v",
		holders, times, all[len(all)/2], all[len(all)*9/10], worst, time.Duration(clock.worst.Load()))

	if worst > backWithin+clock.allowance() {
		t.Errorf("a holder was back after %v, want %v", worst, backWithin)
	}

	if spread := all[len(all)*9/10] - all[len(all)/10]; spread < 50*time.Millisecond {
		t.Errorf("eight of ten are back within %v: a large fleet would be a herd", spread)
	}
}

// backAfter returns when each holder of a fleet is well again, from now.
func backAfter(t *testing.T, fleet []*leaseway.Limiter) []time.Duration {
	t.Helper()

	began := time.Now()
	took := make([]time.Duration, len(fleet))

	var all sync.WaitGroup

	for i, l := range fleet {
		all.Go(func() {
			within(patience, func() bool { return !l.Degraded() })

			took[i] = time.Since(began)
		})
	}

	all.Wait()

	return took
}

// The same for a coordinator that is killed and started again.
func TestHoldersAreBackSoonAfterACrash(t *testing.T) {
	const holders, times = 5, 4

	c := newCoordinator(t, recoveryRules)
	fleet := dial(t, holders, []string{c.grpc})
	send(t, fleet, load{rule: "r", key: "k", forget: true})
	clock := watchClock(t)

	var all []time.Duration

	for range times {
		c.Kill()
		eventually(t, "all have noticed", func() bool {
			return !slices.ContainsFunc(fleet, func(l *leaseway.Limiter) bool { return !l.Degraded() })
		})
		c.run(t)

		all = append(all, backAfter(t, fleet)...)
	}

	slices.Sort(all)
	t.Logf("half were back after %v, the last after %v", all[len(all)/2], all[len(all)-1])

	if worst := all[len(all)-1]; worst > backWithin+clock.allowance() {
		t.Errorf("a holder was back after %v, want %v", worst, backWithin)
	}

	// One that is only held up need not even be connected to again.
	c.Signal(syscall.SIGSTOP)
	eventually(t, "all have noticed", func() bool {
		return !slices.ContainsFunc(fleet, func(l *leaseway.Limiter) bool { return !l.Degraded() })
	})
	c.Signal(syscall.SIGCONT)

	if took := slices.Max(backAfter(t, fleet)); took > backWithin+clock.allowance() {
		t.Errorf("after a pause of the coordinator the last holder was back after %v, want %v", took, backWithin)
	}
}
