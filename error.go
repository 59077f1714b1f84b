package leaseway

import "fmt"

// Code classifies an Error. The set is closed.
type Code string

// The codes.
const (
	// CodeInvalid: an argument or option cannot be used as given.
	CodeInvalid Code = "invalid"
	// CodeUnknownRule: no rule has that id.
	CodeUnknownRule Code = "unknown_rule"
	// CodeUnavailable: no coordinator could be reached.
	CodeUnavailable Code = "unavailable"
	// CodeClosed: the Limiter was closed.
	CodeClosed Code = "closed"
)

// Error is what the SDK's functions return when they fail. A refused request is
// not an error but a Decision.
type Error struct {
	Code    Code
	Message string // what happened, with the values that matter
	Hint    string // what to do about it
	Err     error  // the cause, if any
}

// Error returns the message, the cause and the hint.
func (e *Error) Error() string {
	s := "leaseway: " + e.Message
	if e.Err != nil {
		s = fmt.Sprintf("%s: %v", s, e.Err)
	}

	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}

	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an *Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)

	return ok && t.Code == e.Code && t.Message == ""
}
