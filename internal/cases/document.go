package cases

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The bounds of a document. They keep a broken file from taking the machine with it.
const (
	maxDocument = 8 << 20 // bytes
	maxProblems = 200
	maxVisits   = 2 << 20 // nodes and 16 bytes of text, each alias counted as what it stands for
)

// document is a file as a tree of nodes, and all that was found wrong with it.
type document struct {
	file     string
	src      []byte
	lines    []string // of src, once a problem needs them
	problems *Errors
	visits   int
}

// load parses src. It returns nil, and reports why, if that is no single document.
func (d *document) load() *yaml.Node {
	switch {
	case len(d.src) > maxDocument:
		d.report(&Error{
			Message: fmt.Sprintf("the file has %d bytes", len(d.src)),
			Fix:     fmt.Sprintf("split it: at most %d fit", maxDocument),
		})

		return nil
	case !utf8.Valid(d.src):
		d.report(&Error{Message: "the file is not UTF-8", Fix: "save it as UTF-8"})

		return nil
	}

	root, err := parse(d.src)

	switch {
	case errors.Is(err, io.EOF):
		d.report(&Error{Message: "the file is empty", Fix: "write rules: and tests:"})
	case err != nil:
		p := &Error{Message: strings.TrimPrefix(err.Error(), "yaml: "), Fix: "correct the YAML around this line"}

		if rest, found := strings.CutPrefix(p.Message, "line "); found {
			number, text, _ := strings.Cut(rest, ": ")
			if n, err := strconv.Atoi(number); err == nil {
				p.Line, p.Column, p.Message = n, 1, text
			}
		}

		d.report(p)
	}

	return root
}

// parse returns the root of the only document in src. A panic of the YAML
// library is an error of the file.
func parse(src []byte) (root *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("yaml: cannot be read: %v", p)
		}
	}()

	decoder := yaml.NewDecoder(bytes.NewReader(src))

	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil {
		return nil, err
	}

	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return nil, err
	default:
		return nil, fmt.Errorf("yaml: line %d: a second document starts here", max(1, second.Line))
	}

	if len(first.Content) != 1 {
		return nil, io.EOF
	}

	return first.Content[0], nil
}

// report keeps a problem, with the line it is about.
func (d *document) report(p *Error) {
	if len(*d.problems) >= maxProblems {
		return
	}

	if p.File == "" {
		p.File = d.file
	}

	if d.lines == nil {
		d.lines = strings.Split(string(d.src), "\n")
	}

	if p.Line >= 1 && p.Line <= len(d.lines) {
		p.show(strings.TrimSuffix(d.lines[p.Line-1], "\r"))
	}

	*d.problems = append(*d.problems, p)
}

// at reports what is wrong at a node.
func (d *document) at(n *yaml.Node, p Error) {
	p.Line, p.Column = n.Line, n.Column
	d.report(&p)
}

// open returns the node that n stands for, nil once aliases have made the file too large.
func (d *document) open(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}

	if d.visits > maxVisits {
		return nil
	}

	if d.visits += 1 + len(n.Value)/16; d.visits > maxVisits {
		d.at(n, Error{Message: "the file is too large once its aliases are written out", Fix: "use fewer aliases"})

		return nil
	}

	return n
}
