package proctest

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what should come soon, on a machine that has other things to do.
const Patience = 20 * time.Second

const pollEvery = 2 * time.Millisecond

// Eventually waits until a condition holds, and fails the test with what was missing.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()

	if !Within(Patience, holds) {
		t.Fatalf("after %v still not: %s", Patience, what)
	}
}

// Within reports whether a condition comes to hold in time.
func Within(d time.Duration, holds func() bool) bool {
	deadline := time.NewTimer(d)
	defer deadline.Stop()

	poll := time.NewTicker(pollEvery)
	defer poll.Stop()

	for !holds() {
		select {
		case <-deadline.C:
			return false
		case <-poll.C:
		}
	}

	return true
}
