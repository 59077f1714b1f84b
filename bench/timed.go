package main

import (
	"fmt"
	"runtime"
	"testing"
)

// opened is an entrant that is ready. Its bench may run many times; close ends what open began, and may be nil.
type opened struct {
	bench func(b *testing.B)
	close func()
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

	m := testing.Benchmark(o.bench)
	if m.N == 0 {
		return sample{}, fmt.Errorf("%s: an answer was not the expected one", e.name)
	}

	return sample{value: float64(m.T.Nanoseconds()) / float64(m.N), allocs: m.AllocsPerOp()}, nil
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
		entrants: decisions(endless(), func(l limiter) func(*testing.B) {
			return loop(func(int) bool { return l.take(hotKey) })
		}),
	})
}

func manyKeys() contest {
	return timed(contest{
		name: "keys", title: "100,000 keys", goal: 0.5,
		about: "Keys follow a Zipf distribution (exponent 1.1). All of them were seen before. Nothing is refused.",
		entrants: decisions(endless(), func(l limiter) func(*testing.B) {
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
		entrants: decisions(exhausted(), func(l limiter) func(*testing.B) {
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
