package main

import (
	"fmt"
	"io"
	"slices"
)

// result is what the rounds of one contest gave.
type result struct {
	contest contest
	rows    []row
}

// row is one entrant's measurements, by column and by round.
type row struct {
	entrant entrant
	values  [][]float64
	allocs  int64
}

// median returns the middle of the rounds of a column.
func (r *row) median(column int) float64 { return median(r.values[column]) }

// measure runs every contest, round by round. Each round begins with another
// entrant, so that none always runs in the wake of the same one.
func measure(all []contest, rounds int, progress io.Writer) ([]result, error) {
	results := make([]result, len(all))

	for i, c := range all {
		results[i] = result{contest: c, rows: make([]row, len(c.entrants))}

		for j, e := range c.entrants {
			results[i].rows[j] = row{entrant: e, values: make([][]float64, len(c.columns))}
		}
	}

	for round := range rounds {
		for i := range results {
			r := &results[i]
			if r.contest.rounds > 0 && round >= r.contest.rounds {
				continue
			}

			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, rounds, r.contest.title)

			if err := r.round(round); err != nil {
				return nil, err
			}
		}
	}

	return results, nil
}

// round measures each entrant once.
func (r *result) round(round int) error {
	for column := range r.contest.columns {
		for j := range r.rows {
			row := &r.rows[(j+round)%len(r.rows)]

			s, err := row.entrant.measure(column)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", r.contest.title, row.entrant.name, err)
			}

			row.values[column] = append(row.values[column], s.value)
			row.allocs = max(row.allocs, s.allocs)
		}
	}

	return nil
}

// best returns the peer with the least value of a column; ok is false for none.
func (r *result) best(column int) (least *row, ok bool) {
	for j := range r.rows {
		candidate := &r.rows[j]
		if candidate.entrant.side == peer && (!ok || candidate.median(column) < least.median(column)) {
			least, ok = candidate, true
		}
	}

	return least, ok
}

// ratio returns the median, over the rounds, of the value of a in parts of b's in the same round.
func ratio(a, b *row, column int) float64 {
	parts := make([]float64, len(a.values[column]))
	for round := range parts {
		parts[round] = a.values[column][round] / b.values[column][round]
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
