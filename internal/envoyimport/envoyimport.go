// Package envoyimport turns a document of envoyproxy/ratelimit into rules that give the same answers.
//
//	YAML ──read──▶ tree of descriptors ──rules──▶ a rule for each limit: scope {domain, entries}, keyBy, fixed_window
//	                     │                          │
//	                     └─ DocumentError: no use ──┴── Notes: has no counterpart, by line
//
// There a descriptor is matched level by level: the value as written first, then a value that ends in "*", then the key alone,
// and never another way back. A rule's entries say the same without an order among rules: what goes before it is what its
// except lists. The package is pure; its neighbours are rule, which reads what it writes, and the command above it.
package envoyimport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/rule"
)

// maxDocument is the size of the largest document, in bytes.
const maxDocument = 8 << 20

// Note is something in the document that rules cannot say, or that cannot be used at all.
type Note struct {
	Line    int
	Message string // what it is, and what becomes of it or how to mend it
}

// DocumentError is why a document cannot be used, with the name of its file.
type DocumentError struct {
	File  string
	Notes []Note
}

// Error is one line for each.
func (e *DocumentError) Error() string {
	lines := make([]string, len(e.Notes))
	for i, n := range e.Notes {
		lines[i] = fmt.Sprintf("%s:%d: %s", e.File, n.Line, n.Message)
	}

	return strings.Join(lines, "\n")
}

// Import reads a document, which errors call by the given name, and returns the rule document, and what of it has no
// counterpart. The error is a *DocumentError with everything that is wrong, or about rules that cannot be.
func Import(name string, src []byte) (document []byte, notes []Note, err error) {
	r := &reader{names: map[string]int{}}

	domain, tree := r.document(src)

	for _, use := range r.replaced {
		if _, ok := r.names[use.name]; !ok {
			r.fail(use.line, fmt.Sprintf("replaces names %q, which no rate_limit has as its name", use.name))
		}
	}

	w := &writer{reader: r, domain: domain, ids: map[string]bool{}}
	w.level(nil, tree)

	if len(r.errors) > 0 {
		return nil, nil, &DocumentError{File: name, Notes: r.errors}
	}

	document, err = w.text(name)
	if err != nil {
		return nil, nil, err
	}

	// What people get is what a server reads: names there may be longer than rules allow, or have control characters.
	if _, err := rule.Parse("rules", document); err != nil {
		return nil, nil, fmt.Errorf("%s has what no rule can say:\n%w", name, err)
	}

	return document, r.notes, nil
}

// load reads the one node tree of a document.
func (r *reader) load(src []byte) *yaml.Node {
	if len(src) > maxDocument {
		r.fail(1, fmt.Sprintf("the document has %d bytes; at most %d are read", len(src), maxDocument))

		return nil
	}

	var node, second yaml.Node

	decoder := yaml.NewDecoder(bytes.NewReader(src))

	switch err := decoder.Decode(&node); {
	case errors.Is(err, io.EOF):
		r.fail(1, "the document is empty; it needs a domain")

		return nil
	case err != nil:
		r.notYAML(err)

		return nil
	}

	if err := decoder.Decode(&second); err == nil {
		r.fail(second.Line, "a second document starts here, which envoyproxy/ratelimit does not read; put it into a file of its own")
	} else if !errors.Is(err, io.EOF) {
		r.notYAML(err)
	}

	return node.Content[0]
}
