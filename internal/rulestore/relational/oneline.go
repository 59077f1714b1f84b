package relational

import (
	"slices"
	"strings"
)

// OneLine is err in one line, for logs and answers, and in which nothing is said twice: a driver that tries an address with TLS
// and without it has a line for each try, mostly the same. An error of one line is itself.
func OneLine(err error) error {
	if err == nil || !strings.Contains(err.Error(), "\n") {
		return err
	}
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "; ")
	return &lineError{error: err, text: strings.ReplaceAll(text, ":; ", ": ")}
}

// lineError is an error with another text.
type lineError struct {
	error

	text string
}

// Error is the text.
func (e *lineError) Error() string { return e.text }

// Unwrap gives the error as it was.
func (e *lineError) Unwrap() error { return e.error }
