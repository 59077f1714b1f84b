package rulestore

import (
	"context"
	"time"
)

// Note is what one process lets the others of its store know about now, such as which holders it hears of.
type Note struct {
	// From names the process that wrote it.
	From string
	// Age is how old it is, by the clock of the database, so that nobody's clock has to agree with another's.
	Age time.Duration
	// Body is what it says, as whoever wrote it and whoever reads it agree.
	Body []byte
}

// The bounds of notes. They keep a fleet from filling the store.
const (
	// MaxNote is the size of a note, in bytes.
	MaxNote = 1 << 20
	// MaxNotes is how many Notes returns at most, the latest.
	MaxNotes = 100
	// NoteTTL is how long a note is worth reading; later it is taken down.
	NoteTTL = 15 * time.Second
)

// Board is where processes that share a store leave notes for each other: one of each, soon forgotten, and part of no version. It
// is safe for concurrent use, and its errors are those of Store.
type Board interface {
	// Pin puts up a note in the place of the last one from the same process; an empty body takes that down.
	Pin(ctx context.Context, from string, body []byte) error

	// Notes returns the notes that are not older than NoteTTL, ordered by From, and the head, of one moment.
	Notes(ctx context.Context) ([]Note, Head, error)
}

// CheckNote bounds a note. The error is an *Error.
func CheckNote(from string, body []byte) error {
	if err := checkText("from", from, true); err != nil {
		return err
	}
	if len(body) > MaxNote {
		return invalid("body", "write less", "the note has %d bytes, which is more than %d", len(body), MaxNote)
	}
	return nil
}
