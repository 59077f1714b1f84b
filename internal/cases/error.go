package cases

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Error is one thing that is wrong with a case file, or with the rules that it names.
type Error struct {
	File    string
	Line    int    // from 1; 0 when the file as a whole is meant
	Column  int    // from 1, in characters
	Field   string // such as tests[0].steps[2].expect
	Message string // what is wrong
	Fix     string // what to write instead

	source string // the line, cut to what fits a screen
	caret  int    // characters before the place
}

// Error is "file:line:column: field: message (fix)", then the line with a caret under the place.
func (p *Error) Error() string {
	var b strings.Builder

	b.WriteString(p.File)

	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}

	b.WriteString(": ")

	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}

	b.WriteString(p.Message)

	if p.Fix != "" {
		b.WriteString(" (" + p.Fix + ")")
	}

	if p.source != "" {
		fmt.Fprintf(&b, "\n  %s\n  %s^", p.source, strings.Repeat(" ", p.caret))
	}

	return b.String()
}

// width is how many characters of a line are shown: a file in JSON may be one line.
const width = 120

// show cuts line to the surroundings of the place. What does not print becomes
// a space, so that the caret is right and no file speaks to a terminal.
func (p *Error) show(line string) {
	runes := []rune(line)
	at := min(max(p.Column-1, 0), len(runes))
	from, to := max(0, at-width/2), min(len(runes), at+width/2)

	shown := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}

		return ' '
	}, string(runes[from:to]))

	p.source, p.caret = strings.TrimRight(shown, " "), at-from
}

// Errors are all that is wrong with a case file, in the order of the places.
type Errors []*Error

// Error lists them, one after the other.
func (p Errors) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}

	return strings.Join(lines, "\n")
}

// inOrder sorts by file and place; what was found first stays first at the same place.
func (p Errors) inOrder() {
	slices.SortStableFunc(p, func(a, b *Error) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}

		if a.Line != b.Line {
			return a.Line - b.Line
		}

		return a.Column - b.Column
	})
}
