// Package spelling guesses which name somebody meant who wrote another one. The command line asks it about commands and flags,
// the server about settings, cases of a rule set and imports about their fields; package rule, which stands below, asks nobody.
package spelling

import "strings"

// Closest is the name that got was most likely meant to be, or "" when none is near: a third of the letters may differ, and
// one of two. Where none is that near, it is the only name that begins with got.
func Closest(got string, names []string) string {
	best, least := "", max(len(got), 3)/3+1
	if len(got) < 2 {
		return ""
	}

	for _, name := range names {
		if d := editDistance(strings.ToLower(got), strings.ToLower(name)); d < least {
			best, least = name, d
		}
	}

	if best == "" {
		return only(got, names)
	}

	return best
}

// only is the one name that begins with start, or "" when there is none, or several.
func only(start string, names []string) string {
	found := ""

	for _, name := range names {
		if !strings.HasPrefix(name, strings.ToLower(start)) {
			continue
		}

		if found != "" {
			return ""
		}

		found = name
	}

	return found
}

// editDistance is how many bytes to insert, remove, replace, or swap with the next: the optimal string alignment distance.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64 // nobody meant that
	}

	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}

	for i := range len(a) {
		row[0] = i + 1

		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}

			row[j+1] = min(replace, row[j]+1, last[j+1]+1)

			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}

		before, last, row = last, row, before
	}

	return last[len(b)]
}
