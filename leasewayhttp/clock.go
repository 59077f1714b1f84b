package leasewayhttp

import (
	"sync/atomic"
	"time"
)

// lookEvery is how long a step of the system's clock may go unnoticed.
const lookEvery = time.Second

// wallClock tells the time of day for half the price of time.Now, which reads two clocks each time: it reads only the
// monotonic one, and the system's once a second. The zero value is ready.
type wallClock struct {
	seen atomic.Pointer[instant]
}

// instant is one reading of both clocks.
type instant struct {
	mono time.Time
	unix int64 // ns since the Unix epoch
}

// now is the time of day, ns since the Unix epoch.
func (c *wallClock) now() int64 {
	if seen := c.seen.Load(); seen != nil {
		if since := time.Since(seen.mono); since < lookEvery {
			return seen.unix + int64(since)
		}
	}
	now := time.Now()
	c.seen.Store(&instant{mono: now, unix: now.UnixNano()})
	return now.UnixNano()
}
