package rpc

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// perHolder is the time in which a coordinator has room for one holder that
	// comes back, with its rules, its leases and half the processor for others.
	perHolder = 400 * time.Microsecond
	// perFailure is the time for one holder whose calls go on failing. Whoever comes too late for an answer has cost
	// as much as one who got it, so when that is most of them only far fewer calls let anybody through.
	perFailure = 2 * perHolder
	// maxSpread is the time that a fleet of any size spreads over.
	maxSpread = 4 * time.Second
)

// crowd is how many holders there are, as the last answer had it. When a
// coordinator comes back they all want to call it, and nobody but they
// themselves can keep that apart: each waits a random part of a time that grows with
// their number. In a fleet of hundreds it is too short to notice.
type crowd struct{ live atomic.Int64 }

// arrive returns how long a holder waits before it calls a coordinator that has come back: a part of least, or of more.
func (c *crowd) arrive(least time.Duration) time.Duration { return rand.N(c.spread(least, perHolder)) }

// large reports whether the holders need more than helloSpread to come back.
func (c *crowd) large() bool { return c.spread(0, perHolder) > helloSpread }

// pauses returns the first and the longest pause between two calls that fail.
func (c *crowd) pauses() pauses {
	return pauses{first: c.spread(minBackoff, perHolder/4), longest: c.spread(maxBackoff, perFailure)}
}

// pauses bound a backoff that doubles.
type pauses struct{ first, longest time.Duration }

func (c *crowd) spread(least, each time.Duration) time.Duration {
	return max(least, min(maxSpread, time.Duration(min(c.live.Load(), int64(maxSpread/each)+1))*each))
}
