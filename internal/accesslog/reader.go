// Package accesslog reads access logs as requests, so that a replay or a demo
// can ask what a rule set would have done to traffic that really happened.
//
// It reads the common and the combined format, as Apache and nginx write them,
// with or without the virtual host in front. Its neighbours are replay, which
// feeds entries to the production code in virtual time, and the demo command,
// which sends them over HTTP; neither sees a line of text.
//
//	io.Reader ──> line (64 KiB at most) ──> format ──> Entry
//	                 │ too long                │ not of the format
//	                 └────────────> Skipped <──┘
//
// A real log always has lines that no format describes: a scanner that spoke
// TLS to a plain port, a write that was cut by a full disk. So a bad line is
// counted and shown, never fatal; only a failing io.Reader is an error.
package accesslog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// MaxLine is the length in bytes, its newline included, from which a line is skipped unread.
const MaxLine = 64 << 10

const (
	maxExamples = 5   // bad lines that a Reader keeps: enough to see the pattern
	maxExcerpt  = 120 // bytes kept of each; a log line can hold anything, at any length
)

// format turns one line, without its line ending, into an entry. It leaves
// Entry.Line to the Reader. The error says what was wrong and what was expected.
type format func(line string) (Entry, error)

// Reader reads the entries of one log, in the order of its lines; that is not
// always the order of their times, because servers log a request when it ends.
// It is not safe for concurrent use.
type Reader struct {
	name  string
	lines *bufio.Reader
	parse format

	line     int   // number of the last line read
	err      error // why there is nothing more to read; sticky
	skipped  int
	examples []LineError
}

// NewReader returns a Reader of the log that r yields; name, a path as a rule, is what its errors call it.
func NewReader(name string, r io.Reader) *Reader {
	// The struct hides a *bufio.Reader: bufio would adopt a larger one, and its larger buffer would be the bound.
	lines := bufio.NewReaderSize(struct{ io.Reader }{r}, MaxLine)
	return &Reader{name: name, lines: lines, parse: parseCombined}
}

// Next returns the next entry. Its error is io.EOF after the last one, or the
// reader's own, with the place; bad lines are no error, see Skipped. After an
// error it returns the same one again.
func (r *Reader) Next() (Entry, error) {
	for r.err == nil {
		line := r.readLine()
		if len(line) == 0 {
			continue
		}
		entry, err := r.parse(string(line))
		if err != nil {
			r.skip(line, err)
			continue
		}
		entry.Line = r.line
		return entry, nil
	}
	return Entry{}, r.err
}

// Skipped returns how many lines were skipped so far, and the first few of them. Blank lines do not count.
func (r *Reader) Skipped() (n int, examples []LineError) {
	return r.skipped, slices.Clone(r.examples)
}

// readLine returns the next line without the space around it, valid until the
// next call; it is empty for a blank line and for one that was skipped. At the
// end it sets r.err, which may come together with the last line.
func (r *Reader) readLine() []byte {
	line, err := r.lines.ReadSlice('\n')
	if len(line) > 0 {
		r.line++
	}
	if r.line == 1 {
		line = bytes.TrimPrefix(line, []byte("\ufeff")) // a log that went through a Windows editor
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		r.skip(line, errTooLong)
		line = nil
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.lines.ReadSlice('\n')
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		r.err = io.EOF
	default:
		r.err = fmt.Errorf("read access log %s, line %d: %w", r.name, r.line, err)
		return nil // cut by the failure: half a line may parse, and lie
	}
	return bytes.TrimSpace(line)
}

func (r *Reader) skip(line []byte, why error) {
	r.skipped++
	if len(r.examples) == maxExamples {
		return
	}
	text := line[:min(len(line), maxExcerpt)]
	r.examples = append(r.examples, LineError{Name: r.name, Line: r.line, Reason: why.Error(), Text: string(text)})
}

// LineError is a line that was skipped.
type LineError struct {
	Name   string // the log, as NewReader was told
	Line   int    // counted from 1
	Reason string // what was wrong, and what was expected
	Text   string // how the line starts, as it stands in the log: any bytes, at most 120
}

// Error returns place, reason and the quoted start of the line, safe to print to a terminal.
func (e LineError) Error() string {
	var b strings.Builder
	b.WriteString(e.Name)
	b.WriteByte(':')
	b.WriteString(strconv.Itoa(e.Line))
	b.WriteString(": ")
	b.WriteString(e.Reason)
	b.WriteString(": ")
	b.WriteString(strconv.QuoteToASCII(e.Text))
	return b.String()
}

// faultError is an error that costs no allocation: a log of another format has a fault on every one of its lines.
type faultError string

func (f faultError) Error() string { return string(f) }

const errTooLong = faultError("line is longer than 64 KiB")
