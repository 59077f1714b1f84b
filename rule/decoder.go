package rule

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxErrors bounds the errors of one document: aliases could repeat one without end.
const maxErrors = 1000

// decoder walks a document's nodes and collects all that is wrong, where a decoder into structs would stop at the first.
type decoder struct {
	file    string
	src     []byte
	lines   []string // of src, once an error needs them
	errs    Errors
	content int  // what the walk has seen, against maxContent
	aliased bool // an alias stood for its anchor
	zones   map[string]*time.Location
	known   []*Rule // of the set, beside those of the document

	reviewing bool    // doubts are asked for
	doubts    Errors  // what is allowed, and hardly meant
	reviewed  []value // the rules, in document order
}

// fail reports what is wrong at a node. The fix may be empty when the message says it all.
func (d *decoder) fail(n *yaml.Node, field, message, fix string) {
	e := &Error{File: d.file, Line: n.Line, Column: n.Column, Field: field, Message: message, Fix: fix}
	d.report(e)
}

// report keeps an error.
func (d *decoder) report(e *Error) {
	if len(d.errs) >= maxErrors {
		return
	}
	d.errs = append(d.errs, d.locate(e))
}

// locate shows the line that an error is about.
func (d *decoder) locate(e *Error) *Error {
	if d.lines == nil {
		d.lines = strings.Split(string(d.src), "\n")
	}
	if e.Line >= 1 && e.Line <= len(d.lines) {
		e.show(d.lines[e.Line-1])
	}
	return e
}

// open gives the node that n stands for, and counts it. It is false once the document has grown too large through aliases.
func (d *decoder) open(n *yaml.Node) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		n, d.aliased = n.Alias, true
	}
	if d.content > maxContent || len(d.errs) >= maxErrors {
		return n, false
	}
	if d.content += 16 + len(n.Value); d.content > maxContent {
		d.fail(n, "", "the document is too large once its aliases are replaced by what they stand for", "use fewer aliases")
		return n, false
	}
	return n, true
}
