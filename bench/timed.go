package main

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"
)

// timedFor is how long one measurement takes.
const timedFor = 200 * time.Millisecond

// mayBeWrong is the part of the answers that may be others than expected: throttled answers with errors when several
// processors want one key at once.
const mayBeWrong = 0.1

// opened is an entrant that is ready. close ends what open began, and may be nil.
type opened struct {
	// worker makes what one processor does: n steps, of which it says how many came out in another way than expected.
	worker func() func(n int) (wrong int)
	close  func()
}

// processors are the GOMAXPROCS of a timed contest's columns.
func processors() []int { return []int{1, 2} }

// timed makes of c a contest in nanoseconds a step, on one processor and on two.
func timed(c contest) contest {
	c.allocs = true

	for _, n := range processors() {
		c.columns = append(c.columns, "ns, "+cpus(n))
	}

	for i := range c.entrants {
		e := &c.entrants[i]
		e.measure = func(column int) (sample, error) { return e.time(processors()[column]) }
	}

	return c
}

// time opens the entrant for one measurement, alone in a heap without the garbage of the last.
func (e *entrant) time(n int) (sample, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))

	o, err := e.open()
	if err != nil {
		return sample{}, err
	}

	if o.close != nil {
		defer o.close()
	}

	runtime.GC()

	workers := make([]func(n int) (wrong int), n)
	for i := range workers {
		workers[i] = o.worker()
	}

	s, wrong := slice(workers, timedFor)
	if math.IsNaN(s.value) {
		return sample{}, errors.New("the processors never ran at the same time; let the machine do less beside")
	}

	if wrong > mayBeWrong {
		return sample{}, fmt.Errorf("%.1f %% of the answers were not the expected ones", 100*wrong)
	}

	return s, nil
}

func cpus(n int) string {
	if n == 1 {
		return "1 processor"
	}

	return fmt.Sprintf("%d processors", n)
}

func hot() contest {
	return timed(contest{
		name: "hot", title: "One hot key", goal: 0.5,
		about: "All requests name the same key, which is looked up each time. Nothing is refused.",
		entrants: decisions(endless(), func(l limiter) func() func(n int) (wrong int) {
			return loop(func(int) bool { return l.take(hotKey) })
		}),
	})
}

func manyKeys() contest {
	return timed(contest{
		name: "keys", title: "100,000 keys", goal: 0.5,
		about: "Keys follow a Zipf distribution (exponent 1.1). All of them were seen before. Nothing is refused.",
		entrants: decisions(endless(), func(l limiter) func() func(n int) (wrong int) {
			zipf := newTraffic() // of this entrant alone: a million strings in the heap would slow the other contests
			zipf.visit(l)

			return loop(func(i int) bool { return l.take(zipf.key(i)) })
		}),
	})
}

func refusals() contest {
	return timed(contest{
		name: "refusals", title: "Refusals", goal: 0.5,
		about: "One key whose limit, 1 an hour, is used up: what a caller who runs wild costs.",
		entrants: decisions(exhausted(), func(l limiter) func() func(n int) (wrong int) {
			l.take(hotKey)

			return loop(func(int) bool { return !l.take(hotKey) })
		}),
	})
}

func middleware() contest {
	return timed(contest{
		name: "http", title: "net/http middleware", goal: 0.6,
		about: "A handler that does nothing, behind each library's own middleware, with all the header fields that it knows. " +
			"The key is in a header field of the request. Every response has a header map of its own, as in net/http.",
		entrants: middlewares(),
	})
}

func matching() contest {
	return timed(contest{
		name: "rules", title: "Matching rules",
		about:    "`Decide` when two rules apply to a request: one to its path, one to everything. Both must agree.",
		entrants: ruleSets(),
	})
}
