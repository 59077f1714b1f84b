// Package load measures how busy a process is: how many requests its workers are
// at, how long they waited, and how much of the processor time that it may use it
// does use.
//
//	Begin, Waited, End ──▶ Meter ──┐
//	cgroup, /proc ─────────▶ CPU ──┼──▶ one number for each since it was last read
//	a function ─────────▶ Watched ─┘
//
// It draws no conclusion: internal/shed does, and the SDK brings the two together.
package load

import (
	"math"
	"sync"
)

// Meter knows how many requests are under way. It is safe for concurrent use; the
// zero Meter has seen none. Times are µs on any one clock.
type Meter struct {
	mu     sync.Mutex
	busy   int64
	at     int64 // of the last change
	from   int64 // of the last Read
	sum    int64 // of busy × time since then
	began  int64 // requests since then
	waited int64 // how long they waited, together
	turns  int64 // requests since then that waited after they had begun
	inside int64 // how long those waited, together
}

// Begin notes that a request begins at now, having waited for its turn.
func (m *Meter) Begin(now, waited int64) {
	m.mu.Lock()
	m.advance(now)

	m.busy++
	m.began++
	m.waited += max(0, waited)
	m.mu.Unlock()
}

// Waited notes that a request which began has waited since for its turn, such as for a worker.
func (m *Meter) Waited(waited int64) {
	m.mu.Lock()
	m.turns++
	m.inside += max(0, waited)
	m.mu.Unlock()
}

// End notes that a request that began is over at now.
func (m *Meter) End(now int64) {
	m.mu.Lock()
	m.advance(now)

	m.busy = max(0, m.busy-1)
	m.mu.Unlock()
}

// advance counts the time until now. Two callers may come in another order than they read the clock.
func (m *Meter) advance(now int64) {
	if now > m.at {
		m.sum += m.busy * (now - m.at)
		m.at = now
	}
}

// Reading is what a Meter saw since it was last read.
type Reading struct {
	Busy float64 // requests under way at once, on average
	// Wait is what a request waited, µs, on average: before it began, and after that for its turn. It is NaN if requests are under
	// way and none of them began or had its turn.
	Wait float64
}

// Read returns what came since the last Read, and begins anew.
func (m *Meter) Read(now int64) Reading {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.advance(now)

	r := Reading{Busy: float64(m.busy)}
	if passed := m.at - m.from; passed > 0 {
		r.Busy = float64(m.sum) / float64(passed)
	}

	switch {
	case m.began > 0 || m.turns > 0:
		r.Wait = float64(m.waited)/float64(max(1, m.began)) + float64(m.inside)/float64(max(1, m.turns))
	case m.busy > 0:
		r.Wait = math.NaN()
	}

	m.from, m.sum, m.began, m.waited, m.turns, m.inside = m.at, 0, 0, 0, 0, 0

	return r
}
