package store

import "context"

// Numbers are what the coordinators of one store have agreed on: how the rules are numbered that one of them put in force last.
// What the texts say is theirs to know; that no key of a caller is in them as well.
type Numbers struct {
	Head  string // changes with each agreement; "" before the first
	Rules string // what is agreed of each rule
}

// Register keeps Numbers. Stores that several coordinators share have one, and forget it only with their ledgers.
type Register interface {
	// Numbers returns what was agreed last; nothing but Head if that is known already.
	Numbers(ctx context.Context, known string) (Numbers, error)

	// Renumber replaces what has the head before, "" for nothing, and reports whether it did: another coordinator may have been
	// faster. After an error it may have.
	Renumber(ctx context.Context, before string, now Numbers) (bool, error)
}
