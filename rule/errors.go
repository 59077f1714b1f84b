package rule

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Error is one thing that is wrong with a document.
type Error struct {
	// File is the name that Parse was given.
	File string
	// Line and Column start at 1; Column counts characters. Both are 0 when the document as a whole is meant.
	Line, Column int
	// Field is the place in the document, such as "rules[2].limit"; empty for the document itself.
	Field string
	// Message says what is wrong, Fix what to write instead.
	Message, Fix string
	// Source is the line of the document, cut to what fits a screen.
	Source string

	caret int // characters before the caret
}

// Error is "file:line:column: field: message (fix)", then the line and a caret under the place.
func (e *Error) Error() string { return e.text("") }

// text is the error, or the warning, with its kind before the field.
func (e *Error) text(kind string) string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	b.WriteString(": " + kind)
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Message)
	if e.Fix != "" {
		b.WriteString(" (" + e.Fix + ")")
	}
	if e.Source != "" {
		fmt.Fprintf(&b, "\n  %s\n  %s^", e.Source, strings.Repeat(" ", e.caret))
	}
	return b.String()
}

// Errors is everything that is wrong with a document, in the order of the places.
type Errors []*Error

// Error lists all errors, one after the other.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single errors, for errors.As.
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i := range e {
		list[i] = e[i]
	}
	return list
}

// inOrder sorts by place; what was found first stays first at the same place.
func (e Errors) inOrder() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
}

// sourceWidth is how many characters of a line an error shows: JSON may have the whole document in one.
const sourceWidth = 120

// show sets the source line and the caret. What is not visible becomes a space, so that the caret stands where it should and a
// document cannot speak to a terminal. An error without a column is about the whole line.
func (e *Error) show(line string) {
	if e.Column == 0 {
		e.Column = 1 + len(line) - len(strings.TrimLeft(line, " "))
	}
	before, at := splitAt(line, e.Column-1)
	if n := utf8.RuneCountInString(before); n > sourceWidth/2 {
		_, before = splitAt(before, n-sourceWidth/2)
		before = "…" + before
	}
	shown, cut := splitAt(at, sourceWidth/2)
	if cut != "" {
		shown += "…"
	}
	e.caret = utf8.RuneCountInString(before)
	e.Source = strings.TrimRight(strings.Map(visible, before+shown), " ")
}

// visible is c, or a space for what moves the cursor or cannot be shown.
func visible(c rune) rune {
	if unicode.IsPrint(c) && c != utf8.RuneError {
		return c
	}
	return ' '
}

// splitAt splits s after n characters.
func splitAt(s string, n int) (before, after string) {
	for i := range s {
		if n <= 0 {
			return s[:i], s[i:]
		}
		n--
	}
	return s, ""
}
