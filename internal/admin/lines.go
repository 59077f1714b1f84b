package admin

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxLine is the longest line of an import, in bytes.
const maxLine = 64 << 10

// lineReader reads overrides, one a line.
type lineReader interface {
	// next reads one into line, and says on which line of the text it begins. io.EOF ends it; another error is a *Problem.
	next(line *overrideLine) (number int, err error)
}

// unmarked reads past the byte order mark with which spreadsheets begin a text in UTF-8.
type unmarked struct {
	text  *bufio.Reader
	begun bool
}

func (u *unmarked) Read(p []byte) (int, error) {
	const mark = "\uFEFF"

	if !u.begun {
		u.begun = true

		if begin, _ := u.text.Peek(len(mark)); string(begin) == mark { // an error is there for the next read as well
			_, _ = u.text.Discard(len(mark))
		}
	}

	return u.text.Read(p) //nolint:wrapcheck // it is the body's own
}

// badLine is a problem with one line.
func badLine(number int, location, message, fix string) *Problem {
	p := unfit(location, message, fix)
	p.Detail = fmt.Sprintf("line %d: %s", number, p.Detail)
	p.Errors[0].Line = number

	return p
}

// onLine adds the line to a problem with one override.
func onLine(err error, number int) error {
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		return err
	}

	p.Detail = fmt.Sprintf("line %d: %s", number, p.Detail)
	for i := range p.Errors {
		p.Errors[i].Line = number
	}

	return p
}

// unread says why a text could not be read to its end.
func unread(err error, number int) error {
	if errors.Is(err, bufio.ErrTooLong) {
		return badLine(number+1, bodyPlace, fmt.Sprintf("is longer than %d bytes", maxLine), "write one override a line")
	}

	return badLine(number+1, bodyPlace, "the text ends too early: "+err.Error(), "send it again")
}

// nothingSent refuses a text without a line: a file that came to nothing must not look like an import that was made.
func nothingSent(kind string) *Problem {
	return badLine(1, bodyPlace, "has no overrides", "send "+kind+", and look whether what wrote it failed")
}

// jsonLines reads NDJSON. A text without any is refused.
type jsonLines struct {
	scanner *bufio.Scanner
	line    int
	any     bool
}

func newJSONLines(r io.Reader) *jsonLines {
	scanner := bufio.NewScanner(&unmarked{text: bufio.NewReader(r)})
	scanner.Buffer(make([]byte, 0, 4096), maxLine)

	return &jsonLines{scanner: scanner}
}

func (l *jsonLines) next(line *overrideLine) (int, error) {
	for l.scanner.Scan() {
		l.line++

		text := bytes.TrimSpace(l.scanner.Bytes())
		if len(text) == 0 {
			continue
		}

		*line, l.any = overrideLine{}, true

		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields()

		if err := decoder.Decode(line); err != nil {
			return l.line, badJSON(l.line, err)
		}

		if decoder.More() {
			return l.line, badLine(l.line, bodyPlace, "has more than one object", "write one override a line")
		}

		return l.line, nil
	}

	if err := l.scanner.Err(); err != nil {
		return l.line, unread(err, l.line)
	}

	if !l.any {
		return l.line, nothingSent("one in JSON a line")
	}

	return l.line, io.EOF
}

// badJSON is a line that is no override.
func badJSON(number int, err error) error {
	location, message := bodyPlace, err.Error()

	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // whose text is for who reads Go
		message = fmt.Sprintf("is %s, which does not belong here", wrong.Value)

		if wrong.Field != "" {
			location += "." + wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
		}
	}

	return badLine(number, location, message, `write a JSON object such as {"rule":"r","key":"acme","limit":500}`)
}

// csvLines reads CSV whose first line has the names of the columns, in any order. That line alone is an export of no overrides; a
// text without it is refused.
type csvLines struct {
	reader  *csv.Reader
	from    *bounded
	columns []string
}

// columnNames are the columns of an export, in their order; an import may have delete, too.
func columnNames() []string {
	return []string{"rule", "key", "keyHex", "keySha256", "secret", "hint", limitField, "burst", "leaseTtl", "expires", "note"}
}

func newCSVLines(r io.Reader) *csvLines {
	from := &bounded{from: &unmarked{text: bufio.NewReader(r)}}
	reader := csv.NewReader(from)
	reader.ReuseRecord = true

	return &csvLines{reader: reader, from: from}
}

func (l *csvLines) next(line *overrideLine) (int, error) {
	if l.columns == nil {
		if err := l.header(); err != nil {
			return 1, err
		}
	}

	l.from.read = 0

	record, err := l.reader.Read()
	if errors.Is(err, io.EOF) {
		return 0, io.EOF
	}

	if err != nil {
		if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
			return wrong.StartLine, badLine(wrong.StartLine, bodyPlace, wrong.Err.Error(),
				"write as many values as there are columns, quoted as RFC 4180 has it")
		}

		return 0, unread(err, 0)
	}

	number, _ := l.reader.FieldPos(0)
	*line = overrideLine{}

	for i, name := range l.columns {
		if err := line.set(name, record[i]); err != nil {
			return number, badLine(number, "body."+name, err.Error(), "write another value, or leave it empty")
		}
	}

	return number, nil
}

func (l *csvLines) header() error {
	record, err := l.reader.Read()
	if errors.Is(err, io.EOF) {
		return nothingSent("the names of the columns, and one a line")
	}

	if errors.Is(err, bufio.ErrTooLong) {
		return unread(err, 0)
	}

	if err != nil {
		return badLine(1, bodyPlace, err.Error(), "write the names of the columns, such as rule,key,limit")
	}

	known := append(columnNames(), "delete")

	for i, name := range record {
		switch {
		case !slices.Contains(known, name):
			return badLine(1, bodyPlace, fmt.Sprintf("%.40q is no column", name), "write some of "+strings.Join(known, ", "))
		case slices.Contains(record[:i], name):
			return badLine(1, bodyPlace, fmt.Sprintf("the column %s is there twice", name), "keep one of them")
		}
	}

	l.columns = slices.Clone(record)

	return nil
}

// set reads the value of one column; an empty one sets nothing.
func (l *overrideLine) set(name, value string) (err error) {
	if value == "" {
		return nil
	}

	texts := map[string]*string{
		"rule": &l.Rule, "key": &l.Key, "keyHex": &l.KeyHex, "keySha256": &l.KeySHA, "hint": &l.Hint,
		"leaseTtl": &l.LeaseTTL, "expires": &l.Expires, "note": &l.Note,
	}

	switch name {
	case limitField:
		l.Limit, err = strconv.ParseInt(value, 10, 64)
	case "burst":
		l.Burst, err = strconv.ParseInt(value, 10, 64)
	case "secret":
		l.Secret, err = strconv.ParseBool(value)
	case "delete":
		l.Delete, err = strconv.ParseBool(value)
	default:
		*texts[name] = value
	}

	switch wrong, _ := errors.AsType[*strconv.NumError](err); {
	case wrong == nil:
		return nil
	case wrong.Func == "ParseBool":
		return fmt.Errorf("%.40q is neither true nor false", value)
	default:
		return fmt.Errorf("%.40q is no whole number that fits", value)
	}
}

// row is an override as a line of CSV.
func (o *OverrideText) row(into []string) []string {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}

		return strconv.FormatInt(n, 10)
	}

	secret := ""
	if o.Secret {
		secret = "true"
	}

	key, keyHex := o.Key, o.KeyHex
	if strings.Contains(key, "\r") { // a reader of CSV takes \r\n for \n, and so for another key
		key, keyHex = "", hex.EncodeToString([]byte(key))
	}

	return append(into[:0], o.Rule, key, keyHex, o.KeySHA, secret, o.Hint,
		number(o.Limit), number(o.Burst), o.LeaseTTL, o.Expires, o.Note)
}

// bounded ends with an error where one record is too long: in quotes it may go on over lines without end.
type bounded struct {
	from io.Reader
	read int // bytes since the record began, and what is read ahead
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if b.read += n; b.read > 2*maxLine {
		return n, bufio.ErrTooLong
	}

	return n, err
}
