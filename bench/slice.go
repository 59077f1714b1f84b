package main

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	sliceTime  = 30 * time.Microsecond
	leastSlice = 100 // slices of one measurement, however long they take
	// trimmed is the part of the slices that is left out: the slowest tenth.
	trimmed = 10
)

// slice measures what a step of the workers costs, in parallel: ns between one step's end and the next one's, and
// allocations. wrong is the part of the steps that came out in another way than expected.
//
// Whatever else runs on the machine interrupts a process for milliseconds at a time. So the steps are measured in slices
// of some tens of microseconds, all workers beginning each together, and the slowest tenth of the slices is left out:
// those are the interrupted ones, and more. The mean of the rest has in it what the steps cause themselves, such as
// most of the work of the garbage collector.
func slice(workers []func(n int) (wrong int), least time.Duration) (s sample, wrong float64) {
	steps := calibrate(workers[0])

	var (
		before, after runtime.MemStats
		team          = &team{workers: workers, steps: steps}
	)

	runtime.ReadMemStats(&before)

	slowest := team.run(least)

	runtime.ReadMemStats(&after)

	slices.Sort(slowest)
	kept := slowest[:len(slowest)-len(slowest)/trimmed]

	sum := time.Duration(0)
	for _, t := range kept {
		sum += t
	}

	each := len(workers) * steps
	s.value = float64(sum.Nanoseconds()) / float64(len(kept)*each)
	// Rounded down, since what runs beside the steps allocates now and then.
	s.allocs = int64(after.Mallocs-before.Mallocs) / int64(len(slowest)*each)

	return s, float64(team.wrong.Load()) / float64(len(slowest)*each)
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

	arrived atomic.Int64
	last    atomic.Int64 // the round that is not run any more; 0 as long as nobody knows
	wrong   atomic.Int64
}

// run returns the time of the slowest worker in each slice.
func (t *team) run(least time.Duration) []time.Duration {
	var (
		all   sync.WaitGroup
		times = make([][]time.Duration, len(t.workers))
	)

	for i := range t.workers {
		all.Go(func() { times[i] = t.work(i, time.Now().Add(least)) })
	}

	all.Wait()

	slowest := times[0]
	for _, other := range times[1:] {
		for k := range slowest {
			slowest[k] = max(slowest[k], other[k])
		}
	}

	return slowest
}

// work is one worker's part. The first says when it is over.
func (t *team) work(i int, end time.Time) []time.Duration {
	n := int64(len(t.workers))
	times := make([]time.Duration, 0, 1<<14)

	for round := int64(1); ; round++ {
		if i == 0 && (len(times) >= leastSlice && time.Now().After(end)) {
			t.last.Store(round)
		}

		// Nobody sleeps here: to be woken would take longer than a slice.
		for t.arrived.Add(1); t.arrived.Load() < round*n; {
			runtime.Gosched()
		}

		// Not merely whether it is over: the first may be a round ahead of who is late to look.
		if t.last.Load() == round {
			return times
		}

		began := time.Now()
		wrong := t.workers[i](t.steps)
		times = append(times, time.Since(began))

		t.wrong.Add(int64(wrong))
	}
}
