package main

import "time"

// side says what an entrant is compared as.
type side int

const (
	peer  side = iota // what ours is measured against: limiters of other projects, mostly
	ours              // Leaseway
	floor             // no limiter at all: what the least of one would cost
)

// entrant is one row of a contest's table.
type entrant struct {
	name string
	side side
	// measure fills one field of one round: that of the contest's column with this index.
	measure func(column int) (sample, error)
	// open is what a timed contest measures, outside of which it makes the limiter ready; nil in the others.
	open func() (opened, error)
}

// sample is one measurement, in the contest's unit.
type sample struct {
	value  float64
	allocs int64 // a step; of timed contests alone
}

// contest is what entrants are measured at, beside each other: one table of the page.
type contest struct {
	name  string // for -tables
	title string
	about string
	// columns are headings, unit included.
	columns []string
	// allocs adds a column of allocations.
	allocs bool
	// goal is the part of the best peer's value that Leaseway means to need at most; 0 for none.
	goal float64
	// against names that peer, in general; "" is the fastest other.
	against string
	// rounds bounds how often it is measured, if what it measures hardly varies; 0 is as often as the rest.
	rounds int
	// entrants is empty where something is missing, which needs names.
	entrants []entrant
	needs    string
}

// quota is a limit as every library can be told it.
type quota struct {
	limit  int
	window time.Duration
}

// endless never runs out at any speed that a benchmark reaches, and exhausted always has.
func endless() quota   { return quota{limit: 1_000_000_000, window: time.Second} }
func exhausted() quota { return quota{limit: 1, window: time.Hour} }

// contests are all of them; a fleet is measured for as long as fleet.
func contests(fleet time.Duration) []contest {
	return []contest{
		hot(), manyKeys(), refusals(), middleware(), matching(), memory(), crowd(), grants(), grantsOverRedis(), storeCalls(),
		rls(), rlsPeer(), fleets(fleet), proxies(), checks(),
	}
}
