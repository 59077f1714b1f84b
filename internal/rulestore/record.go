package rulestore

import (
	"encoding/json"
	"math"
	"time"
)

// Record is what somebody did: a version, or something that only the audit has to know.
type Record struct {
	// Seq numbers the records, from 1 on.
	Seq uint64
	// Version is what came of it; 0 when nothing that is stored was changed.
	Version uint64
	// At is when, by the clock of the process that wrote it, to the microsecond.
	At time.Time

	Author, Reason, Action, Target string

	// Overrides is how many of them the change set or deleted.
	Overrides int64
	// Differences are what the version changed of rules and settings, and of overrides when they were few.
	Differences []Difference
}

// Difference is one thing as it was before a version and as it was after.
type Difference struct {
	// Place is RulePlace, SettingPlace or Override.Place.
	Place string
	// Before and After are documents; nil for none.
	Before, After json.RawMessage
}

// MaxDifferences is up to how many overrides in one change each have a Difference.
const MaxDifferences = 1000

// Page says which records to read.
type Page struct {
	// Before restricts to records with a smaller Seq; 0 starts with the latest.
	Before uint64
	// Limit is how many at most, from 1 to MaxPage; 0 is MaxPage.
	Limit int
	// Version restricts to the record of one version; 0 for all.
	Version uint64
	// Place restricts to versions that changed this; empty for all.
	Place string
	// Versions leaves out records without one.
	Versions bool
}

// MaxPage is how many records History reads at most.
const MaxPage = 1000

// Check bounds the page. The error is an *Error.
func (p *Page) Check() error {
	switch {
	case p.Limit < 0 || p.Limit > MaxPage:
		return invalid("limit", "write a number from 1 to 1000", "%d is out of bounds", p.Limit)
	case p.Before > math.MaxInt64:
		return invalid("before", "write a number that a page names", "%d is out of bounds", p.Before)
	case p.Version > math.MaxInt64:
		return invalid("version", "write one that there is", "%d is out of bounds", p.Version)
	case !isText(p.Place):
		return invalid("place", "name a rule or setting", "%.40q is no text", p.Place)
	}
	return nil
}
