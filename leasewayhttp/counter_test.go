package leasewayhttp

import (
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// counter is one budget counted in one place, by any algorithm: what a server without leases would have.
type counter struct {
	algorithm rule.Algorithm
	limit     int64
	length    int64 // of a window, µs
	bucket    rate.Bucket
	tat       rate.Time
	window    rate.Window
	log       []rate.Admission
}

func newCounter(r *rule.Rule, q rule.Quota) *counter {
	c := &counter{algorithm: r.Algorithm, limit: q.Limit, length: q.Window.Microseconds()}
	c.bucket, _ = rate.NewBucket(q.Limit, q.Window.Microseconds(), q.Burst)
	return c
}

func (c *counter) sliding() rate.Sliding { return rate.Sliding{Limit: c.limit, Length: c.length} }
func (c *counter) ofLog() rate.Log       { return rate.Log{Limit: c.limit, Length: c.length} }

func (c *counter) avail(now int64) int64 {
	c.window = c.window.Roll(rate.Aligned(now, c.length))
	c.log = c.ofLog().Prune(c.log, now)
	switch c.algorithm {
	case rule.FixedWindow:
		return max(0, c.limit-c.window.Used)
	case rule.SlidingWindow:
		return c.sliding().Avail(c.window, now-c.window.Start)
	case rule.SlidingLog:
		return c.limit - c.ofLog().Used(c.log)
	default:
		return c.bucket.Avail(now, c.tat)
	}
}

// take takes a token that is there, and returns how long its request is to be held, µs.
func (c *counter) take(now int64) (delay int64) {
	c.window.Used++
	c.log = c.ofLog().Add(c.log, now, 1)
	if c.algorithm == rule.LeakyBucket {
		delay = c.bucket.Full(now, c.tat)
	}
	c.tat, _ = c.bucket.Take(now, c.tat, 1)
	return delay
}

// wait is how long until a token is there, µs.
func (c *counter) wait(now int64) int64 {
	switch c.algorithm {
	case rule.FixedWindow:
		return rate.Aligned(now, c.length).End - now
	case rule.SlidingWindow:
		return c.sliding().Wait(c.window, now-c.window.Start, 1)
	case rule.SlidingLog:
		return c.ofLog().Wait(c.log, now, 1)
	default:
		return c.bucket.Wait(now, c.tat, 1)
	}
}

// reset is how long until the bucket is full, the window ends or the log is empty, µs.
func (c *counter) reset(now int64) int64 {
	switch c.algorithm {
	case rule.FixedWindow, rule.SlidingWindow:
		return rate.Aligned(now, c.length).End - now
	case rule.SlidingLog:
		return c.ofLog().Clear(c.log, now)
	default:
		return c.bucket.Full(now, c.tat)
	}
}
