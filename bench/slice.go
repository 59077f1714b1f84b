package main

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sliceTime = 30 * time.Microsecond
	// apart is how far from each other the workers may begin a slice.
	apart = sliceTime / 10
	// leastSlices is how many slices a measurement needs, mostTries how often the time may be extended to get them.
	leastSlices = 100
	mostTries   = 20
	// trimmed is the part of the slices that is left out: the slowest tenth.
	trimmed = 10
)

// slice measures what a step of the workers costs, in parallel: ns between one step's end and the next one's, and
// allocations. wrong is the part of the steps that came out in another way than expected.
//
// Whatever else runs on the machine interrupts a process for milliseconds at a time. So the steps are measured in slices
// of some tens of microseconds. Those that the workers did not begin at the same time, since one of them had no
// processor, are left out, and of the rest the slowest tenth: those are the interrupted ones, and more. The mean of what
// remains has in it what the steps cause themselves, such as most of the work of the garbage collector.
func slice(workers []func(n int) (wrong int), least time.Duration) (s sample, wrong float64) {
	t := &team{workers: workers, steps: calibrate(workers[0]), began: time.Now()}

	var (
		before, after runtime.MemStats
		times         []time.Duration
		done          int
	)

	runtime.ReadMemStats(&before)

	for try := 0; try == 0 || try < mostTries && len(times) < leastSlices; try++ {
		together, all := t.run(least)
		times = append(times, together...)
		done += all * len(workers) * t.steps
	}

	runtime.ReadMemStats(&after)

	// Rounded down, since what runs beside the steps allocates now and then.
	s.allocs = int64(after.Mallocs-before.Mallocs) / int64(done)
	s.value = trimmedMean(times) / float64(len(workers)*t.steps)

	return s, float64(t.wrong.Load()) / float64(done)
}

// trimmedMean is the mean of all but the slowest tenth, ns; NaN of none.
func trimmedMean(times []time.Duration) float64 {
	slices.Sort(times)
	kept := times[:len(times)-len(times)/trimmed]

	sum := time.Duration(0)
	for _, t := range kept {
		sum += t
	}

	return float64(sum.Nanoseconds()) / float64(len(kept))
}

// calibrate finds how many steps fill a slice.
func calibrate(work func(n int) (wrong int)) int {
	for n := 16; ; n *= 2 {
		least := time.Hour

		for range 5 { // the first ones may find cold caches, and any may be interrupted
			began := time.Now()
			work(n)

			least = min(least, time.Since(began))
		}

		if least >= sliceTime/2 {
			return n
		}
	}
}

// team has all workers begin each slice together.
type team struct {
	workers []func(n int) (wrong int)
	steps   int
	began   time.Time

	arrived atomic.Int64
	last    atomic.Int64 // the round that is not run any more; 0 as long as nobody knows
	wrong   atomic.Int64
}

// span is when a worker began and ended a slice, since the team began.
type span struct{ from, to time.Duration }

// run returns how long those slices took that all workers began together, and how many there were in all.
func (t *team) run(least time.Duration) (together []time.Duration, all int) {
	var (
		working sync.WaitGroup
		spans   = make([][]span, len(t.workers))
	)

	t.arrived.Store(0)
	t.last.Store(0)

	for i := range t.workers {
		working.Go(func() { spans[i] = t.work(i, time.Now().Add(least)) })
	}

	working.Wait()

	for k := range spans[0] {
		first, latest, end := spans[0][k].from, spans[0][k].from, spans[0][k].to
		for i := range spans {
			s := spans[i][k]
			first, latest, end = min(first, s.from), max(latest, s.from), max(end, s.to)
		}

		if latest-first <= apart {
			together = append(together, end-first)
		}
	}

	return together, len(spans[0])
}

// work is one worker's part. The first says when it is over.
func (t *team) work(i int, end time.Time) []span {
	n := int64(len(t.workers))
	spans := make([]span, 0, 1<<14)

	for round := int64(1); ; round++ {
		if i == 0 && len(spans) > 0 && time.Now().After(end) {
			t.last.Store(round)
		}

		// Nobody sleeps here, nor lets others run: to come back would take longer than a slice.
		t.arrived.Add(1)

		for here := false; !here; {
			here = t.arrived.Load() >= round*n
		}

		// Not merely whether it is over: the first may be a round ahead of who is late to look.
		if t.last.Load() == round {
			return spans
		}

		from := time.Since(t.began)
		wrong := t.workers[i](t.steps)
		spans = append(spans, span{from, time.Since(t.began)})

		t.wrong.Add(int64(wrong))
	}
}
