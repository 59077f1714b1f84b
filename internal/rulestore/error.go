package rulestore

import (
	"errors"
	"fmt"
)

// Code says what kind of failure an *Error is.
type Code uint8

const (
	// Invalid is a change that no store would take.
	Invalid Code = iota + 1
	// Conflict is a change to something that is not as the condition of the change says.
	Conflict
	// Busy is a change whose time ended while other writers had their turn.
	Busy
	// ReadOnly is a change to a store that takes none.
	ReadOnly
	// Full is a change for which there is no room.
	Full
	// Unavailable is a store that cannot be reached, or failed.
	Unavailable
)

// ErrOlder is the cause of an error that a watcher is told of a store whose versions went back.
var ErrOlder = errors.New("an older state was restored, or the database lags")

// Error says why the store did not do what it was asked to.
type Error struct {
	Code Code
	// Place is what is concerned, such as "rules search-per-key"; empty for the store as a whole.
	Place string
	// Message says what is wrong, Fix what to do about it.
	Message, Fix string
	// Err is the cause; it may be nil.
	Err error
}

// Error is "place: message: cause (fix)".
func (e *Error) Error() string {
	text := e.Message
	if e.Place != "" {
		text = e.Place + ": " + text
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Fix != "" {
		text += " (" + e.Fix + ")"
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf is the code of the first *Error in the chain of err, 0 when there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// invalid is an error of code Invalid about a place.
func invalid(place, fix, format string, args ...any) *Error {
	return &Error{Code: Invalid, Place: place, Message: fmt.Sprintf(format, args...), Fix: fix}
}
