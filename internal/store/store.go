// Package store keeps the ledgers of all keys, behind one small interface.
//
// The contract of atomicity, which storetest holds every store to: Apply
// handles each op as if it were alone on its ledger. Between reading a ledger
// and writing it back nothing else touches that ledger, and time is the store's
// own and read inside. Ops of one call are independent: one that fails or is
// slow does not undo or delay what another did, and their order means nothing
// unless they name the same key, which then are handled in order. An op whose
// result is an error may or may not have been applied; sending it again with the
// same seq is safe, and only then.
//
// The stores: memory (one process, nothing installed) and redis (shared by any
// number of coordinators). Their neighbour above is the coordinator.
package store

import (
	"context"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

// Store keeps ledgers. It is safe for concurrent use.
type Store interface {
	// ID identifies the data, not the process: it survives a graceful restart
	// and changes when the data was lost. Never 0.
	ID() uint64

	// Apply applies ops[i] and puts what came of it into results[i]. Both have the same length.
	Apply(ctx context.Context, ops []Op, results []Result)

	// Beat notes that the holder incarnations live for another ttl, and returns
	// how many incarnations live in all.
	Beat(ctx context.Context, holders []uint64, ttl time.Duration) (live int64, err error)

	// Close stops the store; a store that can keeps its data for the next start.
	Close(ctx context.Context) error
}

// Key names a ledger. Any bytes and any length, none of them special.
type Key struct {
	Rule string
	Key  string
}

// Op is one ask to one ledger, under the terms that the coordinator found for it.
type Op struct {
	Key   Key
	Terms ledger.Terms
	Ask   ledger.Ask
}

// Result is the ledger's answer, or why there is none.
type Result struct {
	Answer ledger.Answer
	Err    error
}

// Lender is a Store in whose process tables may have ledgers whole, instead of
// tokens of them. What Apply promises holds for a ledger that is lent as well:
// each op takes it back first.
type Lender interface {
	// Now returns the store's time, µs, which never steps back.
	Now() int64

	// Lend lends a ledger to to, which begins with its TAT, Terms and Full, and takes it back before from
	// any other that has it. ok is false if it has to be leased: see ledger.State.Lend.
	Lend(loan *Loan, to ledger.Borrower) (ok bool)

	// Return takes back a ledger from of; nothing happens if it does not have it.
	Return(key Key, of ledger.Borrower)
}

// Loan is a ledger to be lent, under the terms that the coordinator found for it.
type Loan struct {
	Key   Key
	Terms ledger.Terms
	MostQ int64 // the largest Q of a bucket that the borrower can count with
}
