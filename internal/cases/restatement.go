package cases

import (
	"bytes"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// restatement is a rule document written anew from nodes of several documents,
// one node a line, so that each line knows where it came from.
type restatement struct {
	buf     bytes.Buffer
	origins []*yaml.Node // of the lines
}

// all writes the whole of r.
func (t *restatement) all(r *rules) {
	t.line(nil, "{")

	for _, p := range r.head {
		t.line(nil, strconv.Quote(p.name)+":")
		t.node(p.value, 0)
		t.line(nil, ",")
	}

	t.line(nil, `"rules": [`)

	for _, p := range r.list {
		t.node(p.value, 0)
		t.line(nil, ",")
	}

	t.line(nil, "]}")
}

func (t *restatement) bytes() []byte { return t.buf.Bytes() }

// origin is the node that a line, counted from 1, was written for; nil if none was.
func (t *restatement) origin(line int) *yaml.Node {
	if line < 1 || line > len(t.origins) {
		return nil
	}

	return t.origins[line-1]
}

func (t *restatement) line(origin *yaml.Node, text string) {
	t.buf.WriteString(text + "\n")
	t.origins = append(t.origins, origin)
}

// maxDepth is more than a rule has: an alias can stand for what it is part of.
const maxDepth = 50

// node writes a value; an alias is written as what it stands for.
func (t *restatement) node(v value, depth int) {
	n := v.doc.open(v.node)
	if n == nil || depth > maxDepth {
		t.line(nil, "null") // too large, which open has reported, or too deep for any rule

		return
	}

	switch n.Kind {
	case yaml.MappingNode:
		t.line(n, "{")

		for i := 0; i+1 < len(n.Content); i += 2 {
			key := v.doc.open(n.Content[i])
			if key == nil || key.Kind != yaml.ScalarNode {
				continue
			}

			t.line(key, scalar(key)+":")
			t.node(value{doc: v.doc, node: n.Content[i+1]}, depth+1)
			t.line(nil, ",")
		}

		t.line(nil, "}")
	case yaml.SequenceNode:
		t.line(n, "[")

		for _, item := range n.Content {
			t.node(value{doc: v.doc, node: item}, depth+1)
			t.line(nil, ",")
		}

		t.line(nil, "]")
	default:
		t.line(n, scalar(n))
	}
}

// scalar writes a scalar in quotes, with a tag for what would otherwise not be text.
func scalar(n *yaml.Node) string {
	text := strconv.Quote(n.Value)
	if tag := n.ShortTag(); tag != "!!str" {
		return tag + " " + text
	}

	return text
}
