//go:build unix

package faults

import (
	"syscall"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

// unhurried is a deadline that a busy machine does not miss, where a test is not about deadlines.
const unhurried = 5 * time.Second

// A holder that is held up for longer than its leases live, while another one gets what they were: it spends what it
// had, for it cannot know, until it looks at the clock. That is at most 64 tokens, each time.
func TestHolderPausedPastItsLease(t *testing.T) {
	const (
		rate, burst = 20_000, 20_000
		pauses      = 3
		blind       = 64
	)

	c := newCoordinator(t, "rules: [{id: r, keyBy: user, limit: 20000, window: 1s}]")
	began := time.Now()
	paused := newRemote(t, c.grpc, unhurried)
	other := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))[0]
	leased, local := 0, 0

	for range pauses {
		const many = 3_000_000 // more than can pass until it is stopped

		paused.ask(t, many)
		leased += passUntil(t, other, 2_000) // both are at it
		paused.Signal(syscall.SIGSTOP)

		stopped := time.Now()
		for time.Since(stopped) < 700*time.Millisecond { // its leases end after 500 ms, and 50 ms
			leased += passUntil(t, other, 1_000)
		}

		paused.Signal(syscall.SIGCONT)

		all, theirs := paused.taken(t)
		leased, local = leased+theirs, local+all-theirs
	}

	bound := burst + rate*time.Since(began).Seconds()
	t.Logf("%d admitted, %d of them without a coordinator, of %.0f at most", leased+local, local, bound)

	if float64(leased) > bound+blind*pauses {
		t.Errorf("%d were admitted, of %.0f at most, and %d tokens spent blindly at each of %d pauses", leased, bound, blind, pauses)
	}

	if float64(leased) < bound/2 {
		t.Errorf("only %d were admitted of %.0f: the bound was never in danger", leased, bound)
	}

	if s := other.Stats(); s.Failed > 0 {
		t.Errorf("the other one lost calls: %+v", s)
	}
}

// passUntil makes n requests, and returns how many passed.
func passUntil(t *testing.T, l *leaseway.Limiter, n int) int {
	t.Helper()

	leased, _ := times(t, l, n, at{"r", "k"})

	return leased
}

// What a holder had that is killed counts as spent, and after its lifetime the others have all of the limit.
func TestHolderKilled(t *testing.T) {
	const rate, burst = 2_000, 2_000

	c := newCoordinator(t, "rules: [{id: r, keyBy: user, limit: 2000, window: 1s}]")
	doomed := newRemote(t, c.grpc, unhurried)
	other := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))
	tr := send(t, other, load{rule: "r", key: "k", goroutines: 4})

	doomed.ask(t, 100_000_000)
	tr.more(t, 2_000)
	doomed.Kill()

	killed := time.Since(tr.began)
	over := killed + 600*time.Millisecond // the leases have ended
	until := over + 2*time.Second

	eventually(t, "two more seconds are over", func() bool { return time.Since(tr.began) > until })
	tr.stop()

	all := tr.of(leaseway.OriginLease, leaseway.OriginStore)
	if most := excess(all, burst, rate); most > 0 {
		t.Errorf("a window admitted %.1f above burst + rate × time", most)
	}

	after := 0

	for _, a := range all {
		if a.before > over && a.after < until {
			after++
		}
	}

	if want := int(0.95 * rate * 2); after < want {
		t.Errorf("%d were admitted in two seconds after the leases ended, want %d", after, want)
	}
}
