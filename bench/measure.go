package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
)

// result is what the rounds of one contest gave.
type result struct {
	contest contest
	rows    []row
}

// row is one entrant's measurements, by number of processors and by round.
type row struct {
	entrant entrant
	nanos   [][]float64
	allocs  int64
}

// median returns the middle of the rounds on the i-th number of processors, ns.
func (r *row) median(i int) float64 { return median(r.nanos[i]) }

// measure runs every contest, round by round. Each round begins with another
// entrant, so that none always runs in the wake of the same one.
func measure(all []contest, rounds int, progress io.Writer) ([]result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))

	results := make([]result, len(all))

	for i, c := range all {
		results[i] = result{contest: c, rows: make([]row, len(c.entrants))}

		for j, e := range c.entrants {
			results[i].rows[j] = row{entrant: e, nanos: make([][]float64, len(c.cpus))}
		}
	}

	for round := range rounds {
		for _, r := range results {
			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, rounds, r.contest.title)

			for cpu, n := range r.contest.cpus {
				runtime.GOMAXPROCS(n)

				for j := range r.rows {
					if err := r.rows[(j+round)%len(r.rows)].measure(cpu); err != nil {
						return nil, err
					}
				}
			}
		}
	}

	return results, nil
}

// measure opens the entrant for one measurement, alone in a heap without the garbage of the last.
func (r *row) measure(cpu int) error {
	o, err := r.entrant.open()
	if err != nil {
		return err
	}

	if o.close != nil {
		defer o.close()
	}

	runtime.GC()

	m := testing.Benchmark(o.bench)
	if m.N == 0 {
		return fmt.Errorf("%s: an answer was not the expected one", r.entrant.name)
	}

	r.nanos[cpu] = append(r.nanos[cpu], float64(m.T.Nanoseconds())/float64(m.N))
	r.allocs = max(r.allocs, m.AllocsPerOp())

	return nil
}

// best returns the fastest of the other projects on the i-th number of processors; ok is false for none.
func (r result) best(i int) (fastest *row, ok bool) {
	for j := range r.rows {
		candidate := &r.rows[j]
		if candidate.entrant.side == peer && (!ok || candidate.median(i) < fastest.median(i)) {
			fastest, ok = candidate, true
		}
	}

	return fastest, ok
}

// ratio returns the median, over the rounds, of the time of a in parts of b's in the same round.
func ratio(a, b *row, i int) float64 {
	parts := make([]float64, len(a.nanos[i]))
	for round := range parts {
		parts[round] = a.nanos[i][round] / b.nanos[i][round]
	}

	return median(parts)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))

	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}

	return (sorted[half-1] + sorted[half]) / 2
}
