package memory

import (
	"sync"
	"time"
)

// steady returns a clock that never steps back and begins at floor or later,
// floor being the last instant that earlier data knows. The store's time leaves
// the store only as differences, so it may stay ahead of the system's: after a
// step back nothing is pinned and nothing waits for the old time.
func steady(read func() int64, floor int64) func() int64 {
	if read == nil {
		return anchored(floor)
	}

	var (
		mu   sync.Mutex
		last = floor
		lead int64 // ahead of read by the sum of its steps back
	)

	return func() int64 {
		mu.Lock()
		defer mu.Unlock()

		t := read() + lead
		if t < last {
			lead += last - t
			t = last
		}

		last = t

		return t
	}
}

// anchored returns the default clock: the system's at this moment, then
// whatever monotonic time adds.
func anchored(floor int64) func() int64 {
	began := time.Now()
	base := max(began.UnixMicro(), floor)

	return func() int64 { return base + time.Since(began).Microseconds() }
}
