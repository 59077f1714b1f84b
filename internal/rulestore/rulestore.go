// Package rulestore keeps the rules, settings and overrides that people change while Leaseway runs, with who changed what and
// why, behind one small interface.
//
// Every change is one version, which only moves forward, and is applied whole or not at all:
//
//	Change ──Write──▶ version 8 ──Watch──▶ Head ──Load──▶ State, with a rule.Set ──▶ holders
//	                     │                   │
//	                  History             Overrides, looked up by key or listed
//
// The contract, which rulestoretest holds every store to: what Load gives is of one version and never half of a change. A row
// that somebody put in by hand and that is no rule is reported in State.Bad and left out; the others go on. A store that is out
// of reach answers with an *Error and changes nothing that was loaded before: decisions do not need it.
//
// The stores: sqlite (one file, nothing installed) and postgres (shared by any number of coordinators), both by the statements
// of relational. Neighbours are package rule below, which reads and checks the documents, and the server above.
package rulestore

import (
	"context"
	"iter"
)

// Store keeps rules. It is safe for concurrent use. Every error is an *Error, or that of the context.
type Store interface {
	// Load reads all rules and settings, of one version.
	Load(ctx context.Context) (*State, error)

	// Write makes one version of the whole change, or changes nothing. It waits for other writers as long as ctx allows. After
	// an error of code Unavailable the change may have been made: its version, or History, tells.
	Write(ctx context.Context, change *Change) (*Record, error)

	// Overrides yields the overrides that the query asks for, ordered by rule, then by an order of keys that stays the same.
	// An error of code Invalid is about a row that was put in by hand, and the next come after it; any other ends the list.
	// Overrides that have expired are not left out, except from a lookup of keys.
	Overrides(ctx context.Context, query Query) iter.Seq2[Override, error]

	// History reads records of what was done, the latest first.
	History(ctx context.Context, page Page) ([]Record, error)

	// Watch calls tell with the head of now, again whenever it has changed, and with an error once when the store cannot be
	// asked; then with the head as soon as it can. It blocks until ctx ends, and returns its error. tell is never called
	// twice at a time, nor with a version below the one before, but for this: when the versions go back, as after a backup was
	// restored, it is called with an error, and with the head once that has stood for a few seconds. The database may also be a
	// replica that lags, or one of several that a pooler takes turns with.
	Watch(ctx context.Context, tell func(Head, error)) error
}

// Head is how far the versions are.
type Head struct {
	// Rules is the version that last changed a rule or a setting, Overrides the one that last changed an override; 0 for none.
	Rules, Overrides uint64
}
