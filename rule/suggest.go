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
	if best == "" && contains(known, ourWord(got)) {
		return ourWord(got)
	}
	return best
}

// ourWord is what is called otherwise by other limiters, in what they call it; "" if nothing is.
func ourWord(theirs string) string {
	switch theirs {
	case "onoutage", "onerror", "onfailure", "ondown", "failopen", "failclosed", "failuremode", "failuremodedeny":
		return "onUnavailable"
	case "rate", "max", "quota", "rps", "requests", "count", "average":
		return limitKey
	case "period", "per", "interval", "every", "unit", "duration":
		return windowKey
	case "alg", "type", "strategy", "policy", "kind":
		return "algorithm"
	case "key", "keys", "by", "source":
		return "keyBy"
	case "path", "paths", "match", "route", "routes", "endpoint":
		return "scope"
	case "name":
		return "id"
	case "weight", "hits":
		return "cost"
	case "percent", "percentage", "canary":
		return "rollout"
	case "enabled", "disabled", "enforced":
		return "mode"
	case "dryrun", "monitor", "observe", "report", "logonly", "shadowmode":
		return "shadow"
	case "on", "active":
		return "enforce"
	case "open":
		return "allow"
	case "close", "closed":
		return "deny"
	default:
		return ""
	}
}

// plain drops what differs between ways to write a name: key_by, key-by, KeyBy.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// editDistance counts the characters to insert, drop, replace or swap with the next to turn a into b (optimal string
// alignment). A long word is no slip of any known one: its distance is its length.
func editDistance(a, b string) int {
	if len(a) > 2*len(b)+3 {
		return len(a)
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
