package table

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// asleep is the tick while nobody asks: no lease was ever turned for it, so the
// next request looks at the real clock and wakes the coarse one.
const asleep = -1

const (
	tickEvery  = time.Millisecond
	sleepAfter = 1000 // ticks without a request
	ringSize   = 4096 // of slots for ticks that are over: the last two seconds
	ringShift  = 9    // of a tick, for its slot: two ticks begin 512 µs apart, see advance
	longTicks  = 16   // that are remembered however old they are
)

// Clock is the holder's time: µs on the process's monotonic clock, and a coarse
// tick beside it that the request path reads with one atomic load. It knows
// when each tick gave way to the next, so spending can be dated safely.
type Clock struct {
	tick atomic.Int64
	used atomic.Bool // a request turned since the last tick

	now     func() int64
	virtual bool
	driven  bool
	epoch   int64 // of a virtual clock: the time of day when it shows 0, µs since the Unix epoch

	toWall atomic.Int64 // from the time of a tick to the time of day, µs; 0 while nobody has looked

	mu    sync.Mutex // one tick ends at a time
	ring  [ringSize]brief
	long  [longTicks]past // the longest ticks that are over, so that one pause does not make all forgotten ticks as long
	worst atomic.Int64    // the longest of all others, µs
	wake  chan struct{}
}

// past is a tick that is over. Its end is valid if its begin is the same before and after it was read.
type past struct{ begin, end atomic.Int64 }

// note writes down a tick that is over.
func (p *past) note(begin, end int64) {
	p.begin.Store(asleep)
	p.end.Store(end)
	p.begin.Store(begin)
}

// of returns when tick was over, if it is the one that was noted; of none the end is not after its begin.
func (p *past) of(tick int64) (end int64, ok bool) {
	if p.begin.Load() != tick {
		return 0, false
	}

	end = p.end.Load()

	return end, end > tick && p.begin.Load() == tick
}

// length is how long it lasted, µs; under the clock's lock.
func (p *past) length() int64 { return p.end.Load() - p.begin.Load() }

// brief is a past tick of less than a second, in one word: when it began, less what is above 200 days, and how long it lasted, µs.
type brief struct{ bits atomic.Uint64 }

const lengthBits = 20

// note writes down a tick that is over; nothing of one that is too long.
func (b *brief) note(begin, end int64) {
	length := uint64(end - begin)
	if length >= 1<<lengthBits {
		length = 0
	}

	b.bits.Store(uint64(begin)<<lengthBits | length)
}

// of returns when tick was over, if it is the one that was noted.
func (b *brief) of(tick int64) (end int64, ok bool) {
	length := b.bits.Load() - uint64(tick)<<lengthBits

	return tick + int64(length), length > 0 && length < 1<<lengthBits
}

// NewClock returns the real clock. It ticks while Run runs.
func NewClock() *Clock {
	start := time.Now()
	c := &Clock{
		now:  func() int64 { return 1 + time.Since(start).Microseconds() },
		wake: make(chan struct{}, 1),
	}
	c.tick.Store(asleep)

	return c
}

// NewVirtualClock returns a clock that stands still until Set moves it.
func NewVirtualClock(now int64) *Clock {
	c := &Clock{virtual: true}
	c.now = c.tick.Load
	c.tick.Store(now)

	return c
}

// NewDrivenClock returns a clock that shows what now does, and ticks when Tick is
// called. Unlike a virtual one it is coarse, as the real one is.
func NewDrivenClock(now func() int64) *Clock {
	c := &Clock{now: now, driven: true, wake: make(chan struct{}, 1)}
	c.tick.Store(asleep)

	return c
}

// moved reports whether it is no real clock, but one that somebody moves.
func (c *Clock) moved() bool { return c.virtual || c.driven }

// Tick ends a tick that has lasted a millisecond, as Run does for the real clock.
func (c *Clock) Tick() {
	if now, tick := c.now(), c.tick.Load(); tick != asleep && now-tick >= int64(tickEvery/time.Microsecond) {
		c.advance(now)
	}
}

// Set moves a virtual clock.
func (c *Clock) Set(now int64) { c.tick.Store(now) }

// SetEpoch says which time of day it is when a virtual clock shows 0, µs since
// the Unix epoch, which is the default. Before its first use.
func (c *Clock) SetEpoch(at int64) { c.epoch = at }

// Wall returns the time of day, µs since the Unix epoch.
func (c *Clock) Wall() int64 {
	if c.virtual {
		return c.epoch + c.now()
	}

	return time.Now().UnixMicro()
}

// TickWall returns the time of day at the present tick, µs since the Unix epoch,
// in which coarse answers count. It costs two loads while the clock ticks.
func (c *Clock) TickWall() int64 {
	if tick, to := c.tick.Load(), c.toWall.Load(); tick != asleep && to != 0 {
		return tick + to
	}

	return c.Wall()
}

// Now reads the real clock, µs.
func (c *Clock) Now() int64 { return c.now() }

// Run ticks until ctx ends, and sleeps while nobody asks.
func (c *Clock) Run(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()

	idle := 0

	for {
		select {
		case <-ctx.Done():
			c.advance(asleep)

			return
		case <-ticker.C:
			c.advance(c.now())
		case <-c.wake:
			ticker.Reset(tickEvery)
		}

		idle++

		if c.used.Swap(false) {
			idle = 0
		} else if idle > sleepAfter && c.tick.Load() != asleep {
			c.advance(asleep)
			ticker.Stop()

			idle = 0
		}
	}
}

// Turn returns the tick to spend under, bringing a stopped or late clock up to now.
func (c *Clock) Turn(now int64) int64 {
	if c.virtual {
		return now
	}

	tick := c.tick.Load()
	for tick == asleep || now-tick > int64(tickEvery/time.Microsecond) {
		c.advance(now)

		tick = c.tick.Load() // asleep once more, if Run has just gone to sleep
	}

	if !c.used.Swap(true) {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}

	return tick
}

// advance ends the present tick at the real now, unless it has only just begun: its slot is that of no other.
func (c *Clock) advance(tick int64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	now, old := c.now(), c.tick.Load()
	if tick != asleep {
		if old != asleep && tick-old < 1<<ringShift {
			return
		}

		tick = now

		if !c.driven { // each tick, so that a step of the system's clock is seen at once
			c.toWall.Store(time.Now().UnixMicro() - now)
		}
	}

	if old != asleep {
		c.ring[old>>ringShift%ringSize].note(old, now)
		c.keepLong(old, now)
	}

	c.tick.Store(tick)
}

// keepLong keeps a tick that is over if it is one of the longest, and counts the one that has to go, or the tick itself, among
// all others; under the lock.
func (c *Clock) keepLong(begin, end int64) {
	least := &c.long[0]
	for i := range c.long {
		if p := &c.long[i]; p.length() < least.length() {
			least = p
		}
	}

	if end-begin <= least.length() {
		c.worst.Store(max(c.worst.Load(), end-begin))

		return
	}

	c.worst.Store(max(c.worst.Load(), least.length()))
	least.note(begin, end)
}

// After returns the instant by which every request that saw tick had spent:
// when the next tick began. For a tick that is not remembered it is the worst case, which is never later than now.
func (c *Clock) After(tick int64) int64 {
	if c.virtual {
		return tick
	}

	if c.tick.Load() == tick {
		return c.now()
	}

	if end, ok := c.ring[tick>>ringShift%ringSize].of(tick); ok {
		return end
	}

	for i := range c.long {
		if end, ok := c.long[i].of(tick); ok {
			return end
		}
	}

	return min(tick+c.worst.Load(), c.now())
}

// coarse returns by how much a tick is late as a rule, µs.
func (c *Clock) coarse() int64 {
	if c.virtual {
		return 0
	}

	return int64(tickEvery / time.Microsecond)
}

// trusted reports whether tick, as a request has just read it, will do without a
// look at the real clock: others have looked at it within this tick.
func (c *Clock) trusted(tick int64) bool { return tick != asleep && c.used.Load() && !c.virtual }
