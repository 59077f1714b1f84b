package rule

import "cmp"

// Match is a rule that a request is subject to.
type Match struct {
	Rule *Rule
	// Index is the rule's place in Set.Rules.
	Index int
}

func byIndex(a, b Match) int { return cmp.Compare(a.Index, b.Index) }
