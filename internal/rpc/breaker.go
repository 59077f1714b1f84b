package rpc

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// breakAfter is how many failures in a row open a breaker.
	breakAfter = 3
	// minBackoff and maxBackoff bound the time until the next probe, which doubles
	// with each that fails; see crowd for fleets of more than some hundred.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 500 * time.Millisecond
)

// breaker keeps calls away from a replica that does not answer. Time is an
// argument, since an instant of the caller's clock, and nothing runs in the background.
//
//	closed ──3 failures──▶ open ──backoff over──▶ probing (one call) ──success──▶ closed
//	                        ▲                          │
//	                        └───failure, backoff × 2───┘
//
// The zero value is closed. A probe that never reports is followed by another one
// a backoff later, so no call has to be waited for.
type breaker struct {
	until   atomic.Int64 // ns: when the next probe may go; 0: closed
	rest    atomic.Int64 // ns: until then the replica asked to be left alone, which is no failure
	fails   atomic.Int64 // in a row, while closed
	mu      sync.Mutex
	backoff time.Duration // under mu
}

// open reports whether the breaker is not closed, whether or not a probe is due.
func (b *breaker) open() bool { return b.until.Load() != 0 }

// refuses reports whether a call at now would not be let through. It changes nothing.
func (b *breaker) refuses(now time.Duration) bool {
	return int64(now) < max(b.until.Load(), b.rest.Load())
}

// enter asks to make a call at now. A probe is the one call that decides whether an open breaker closes.
func (b *breaker) enter(now time.Duration) (ok, probe bool) {
	until := b.until.Load()

	switch {
	case int64(now) < max(until, b.rest.Load()):
		return false, false
	case until == 0:
		return true, false
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	// The next caller finds this one's probe in flight, until it had its time.
	won := b.until.CompareAndSwap(until, int64(now+b.backoff))

	return won, won
}

// spare lets no call through until at.
func (b *breaker) spare(at time.Duration) {
	for {
		rest := b.rest.Load()
		if int64(at) <= rest || b.rest.CompareAndSwap(rest, int64(at)) {
			return
		}
	}
}

// hasten lets the probe of an open breaker go at the instant at, if it would have to wait longer. The replica is
// there again: if that probe fails, pauses grow anew, after one of first.
func (b *breaker) hasten(at, first time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.until.Load() > int64(at) {
		b.until.Store(max(1, int64(at)))
	}

	b.backoff = min(b.backoff, first)
}

// succeed closes the breaker, and reports whether it was open.
func (b *breaker) succeed() (closed bool) {
	if b.fails.Load() != 0 {
		b.fails.Store(0)
	}

	if b.until.Load() == 0 {
		return false
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	b.backoff = 0

	return b.until.Swap(0) != 0
}

// fail notes a failure, and reports whether it opened the breaker. A call that
// was let through before the breaker opened does not lengthen the backoff: many end together.
func (b *breaker) fail(now time.Duration, probe bool, p pauses) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()

	open := b.until.Load() != 0
	if open != probe || !open && b.fails.Add(1) < breakAfter {
		return false
	}

	b.fails.Store(0)
	b.backoff = min(p.longest, max(p.first, 2*b.backoff))
	b.until.Store(max(1, int64(now+jittered(b.backoff))))

	return !probe
}
