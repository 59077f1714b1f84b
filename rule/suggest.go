package rule

import (
	"slices"
	"strings"
)

// contains says whether w is one of the words.
func contains(words []string, w string) bool { return slices.Contains(words, w) }

// suggest says which of the known words was probably meant, else all of them.
func suggest(got string, known []string) string {
	if best := nearest(got, known); best != "" {
		return "did you mean " + best + "?"
	}
	return "known: " + strings.Join(known, ", ")
}

// nearest gives the known word that was probably meant, or none. Two slips are many in a short word: who writes
// mode: on must not be told to write off. Of two words that are as near, the one that only lacks its end was meant: of is off.
func nearest(got string, known []string) string {
	got = plain(got)
	best, distance := "", min(3, len(got)/2+1)
	for _, k := range known {
		d := editDistance(got, plain(k))
		switch nearer := d < distance; {
		case d >= len(k):
		case nearer, d == distance && best != "" && strings.HasPrefix(plain(k), got):
			best, distance = k, d
		}
	}
	return best
}

// plain drops what differs between ways to write a name: key_by, key-by, KeyBy.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// editDistance counts the characters to insert, drop or replace to turn a into b (Levenshtein). A long word is no slip of
// any known one: its distance is its length.
func editDistance(a, b string) int {
	if len(a) > 2*len(b)+3 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
