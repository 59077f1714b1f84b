package rule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The bounds of a document. They keep a hostile or broken one from taking the process down with it.
const (
	// MaxDocument is the size of a document, in bytes.
	MaxDocument = 32 << 20
	// MaxRules is the number of rules of a document.
	MaxRules = 10_000

	// maxMarks bounds the marks that can start a node, and so the nodes that the YAML library makes: about 200 bytes each.
	maxMarks = 2 << 20
	// maxContent bounds what a document holds once its aliases stand for their anchors, in bytes and 16 for each node.
	maxContent = 128 << 20
)

// load reads the one node tree of a document. YAML 1.2 takes in JSON, so one parser does both.
//
// The parser is go.yaml.in/yaml: it takes time in proportion to the document and has a bound on depth. The others that give
// places recurse once for each key of a map, or take the square of the number of keys, which 32 MiB turn into an outage.
func load(name string, src []byte) (*yaml.Node, *Error) {
	whole := func(message, fix string) (*yaml.Node, *Error) {
		return nil, &Error{File: name, Message: message, Fix: fix}
	}
	if len(src) > MaxDocument {
		return whole(fmt.Sprintf("the document has %d bytes", len(src)),
			fmt.Sprintf("at most %d fit; keep large sets of overrides in the rule store", MaxDocument))
	}
	if !utf8.Valid(src) {
		return whole("the document is not UTF-8", "save it as UTF-8")
	}
	if n := marks(src); n > maxMarks {
		return whole(fmt.Sprintf("the document has %d lines and list or map marks", n),
			fmt.Sprintf("at most %d are read; keep large sets of overrides in the rule store", maxMarks))
	}
	root, err := readNodes(jsonEscapes(src))
	if errors.Is(err, io.EOF) {
		return whole("the document is empty", `write "rules: []" for no rules`)
	}
	if second, ok := errors.AsType[*secondDocumentError](err); ok {
		return nil, &Error{
			File: name, Line: second.line,
			Message: "a second document starts here", Fix: "put each document into a file of its own",
		}
	}
	if err != nil {
		line, message := syntaxError(err)
		line = min(line, 1+bytes.Count(bytes.TrimSpace(src), []byte("\n"))) // what ends too early is found after its end
		fix := "correct the YAML or JSON around this line"
		if strings.Contains(message, "cannot start any token") && bytes.Contains(src, []byte("\n\t")) {
			fix = "indent with spaces: YAML takes no tabs there"
		}
		return nil, &Error{File: name, Line: line, Message: message, Fix: fix}
	}
	return root, nil
}

// marks counts the marks without which no node starts: an upper bound on the nodes, up to a factor of two.
func marks(src []byte) int {
	n := 0
	for _, c := range src {
		switch c {
		case ',', ':', '\n', '\r', '[', '{', '?':
			n++
		}
	}
	return n + bytes.Count(src, []byte("- "))
}

// secondDocumentError is the error for a stream of more than one document.
type secondDocumentError struct{ line int }

func (e *secondDocumentError) Error() string {
	return "second document at line " + strconv.Itoa(e.line)
}

// readNodes parses the only document of src. A panic of the YAML library is an error of the document: it must not stop a
// process that only meant to reload its rules.
func readNodes(src []byte) (root *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("yaml: cannot be read: %v", p)
		}
	}()
	d := yaml.NewDecoder(bytes.NewReader(src))
	var document, next yaml.Node
	if err := d.Decode(&document); err != nil {
		return nil, err
	}
	switch err := d.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, err
	default:
		return nil, &secondDocumentError{line: max(next.Line, 1)}
	}
	if len(document.Content) != 1 {
		return nil, io.EOF
	}
	return document.Content[0], nil
}

// syntaxError takes the line out of an error of the YAML library, which counts lines from 0 where tokens are in the wrong
// order, and from 1 where they cannot be read.
func syntaxError(err error) (line int, message string) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	rest, found := strings.CutPrefix(message, "line ")
	if !found {
		return 1, message
	}
	number, text, _ := strings.Cut(rest, ": ")
	line, err = strconv.Atoi(number)
	if err != nil {
		return 1, message
	}
	for _, misplaced := range []string{"<", "node content", "'-' indicator", "key", "','"} {
		if strings.HasPrefix(text, "did not find expected "+misplaced) {
			line++
		}
	}
	return line, text
}

// jsonEscapes writes as themselves what JSON may escape and YAML may not: characters in two halves ("\ud83d\ude00") and slashes.
// Some JSON encoders write nothing else.
func jsonEscapes(src []byte) []byte {
	if !bytes.Contains(src, []byte(`\u`)) && !bytes.Contains(src, []byte(`\/`)) || !json.Valid(src) {
		return src
	}
	out := make([]byte, 0, len(src))
	for i := 0; i < len(src); i++ {
		if src[i] == '\\' {
			if r, ok := surrogatePair(src[i:]); ok {
				out = utf8.AppendRune(out, r)
				i += len(`\ud83d\ude00`) - 1
				continue
			}
			// What follows a backslash is no start of an escape. In valid JSON there is always something.
			i++
			if src[i] != '/' {
				out = append(out, '\\')
			}
		}
		out = append(out, src[i])
	}
	return out
}

// surrogatePair decodes two escaped halves at the start of s.
func surrogatePair(s []byte) (rune, bool) {
	if len(s) < 12 || s[1] != 'u' || s[6] != '\\' || s[7] != 'u' {
		return 0, false
	}
	high, err1 := strconv.ParseUint(string(s[2:6]), 16, 16)
	low, err2 := strconv.ParseUint(string(s[8:12]), 16, 16)
	if err1 != nil || err2 != nil || high < 0xd800 || high >= 0xdc00 || low < 0xdc00 || low >= 0xe000 {
		return 0, false
	}
	return rune(0x10000 + (high-0xd800)<<10 + low - 0xdc00), true
}
