package server

import "strings"

// closest is the name that got was most likely meant to be, or "" when none is near: a third of the letters may differ.
func closest(got string, names []string) string {
	best, least := "", len(got)/3+1

	for _, name := range names {
		if d := editDistance(strings.ToLower(got), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}

	return best
}

// editDistance is the Levenshtein distance: how many bytes to insert, remove or replace.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64 // nobody meant that
	}

	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}

	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1

		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}

			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}

	return row[len(b)]
}
