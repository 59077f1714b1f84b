package main

import (
	"testing"
	"time"
)

// side says what an entrant is compared as.
type side int

const (
	peer  side = iota // a limiter of another project
	ours              // Leaseway
	floor             // no limiter at all: what the least of one would cost
)

// entrant is one limiter in one contest.
type entrant struct {
	name string
	side side
	// open makes the limiter ready, outside of what is measured.
	open func() (opened, error)
}

// opened is an entrant that is ready. Its bench may run many times; close ends what open began, and may be nil.
type opened struct {
	bench func(b *testing.B)
	close func()
}

// contest is what entrants are measured at, beside each other.
type contest struct {
	title string
	about string
	cpus  []int // GOMAXPROCS of each measurement
	// goal is the part of the best peer's time that Leaseway means to need at most; 0 for none.
	goal     float64
	entrants []entrant
}

// quota is a limit as every library can be told it.
type quota struct {
	limit  int
	window time.Duration
}

// endless never runs out at any speed that a benchmark reaches, and exhausted always has.
func endless() quota   { return quota{limit: 1_000_000_000, window: time.Second} }
func exhausted() quota { return quota{limit: 1, window: time.Hour} }

func contests() []contest {
	return []contest{
		{
			title: "One hot key", goal: 0.5, cpus: []int{1, 2},
			about: "All requests name the same key, which is looked up each time. Nothing is refused.",
			entrants: decisions(endless(), func(l limiter) func(*testing.B) {
				return loop(func(int) bool { return l.take(hotKey) })
			}),
		},
		{
			title: "100,000 keys", goal: 0.5, cpus: []int{1, 2},
			about: "Keys follow a Zipf distribution (exponent 1.1). All of them were seen before. Nothing is refused.",
			entrants: decisions(endless(), func(l limiter) func(*testing.B) {
				zipf := newTraffic() // of this entrant alone: a million strings in the heap would slow the other contests
				zipf.visit(l)

				return loop(func(i int) bool { return l.take(zipf.key(i)) })
			}),
		},
		{
			title: "Refusals", goal: 0.5, cpus: []int{1, 2},
			about: "One key whose limit, 1 an hour, is used up: what a caller who runs wild costs.",
			entrants: decisions(exhausted(), func(l limiter) func(*testing.B) {
				l.take(hotKey)

				return loop(func(int) bool { return !l.take(hotKey) })
			}),
		},
		{
			title: "net/http middleware", goal: 0.6, cpus: []int{1, 2},
			about: "A handler that does nothing, behind each library's own middleware, with all the header fields that it knows. " +
				"The key is in a header field of the request. Every response has a header map of its own, as in net/http.",
			entrants: middlewares(),
		},
		{
			title: "Matching rules", cpus: []int{1, 2},
			about:    "`Decide` when two rules apply to a request: one to its path, one to everything. Both must agree.",
			entrants: matching(),
		},
	}
}
