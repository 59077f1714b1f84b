package rule

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// value is a node with its place in the document, such as "rules[2].limit".
type value struct {
	d     *decoder
	node  *yaml.Node
	field string
}

// fail reports what is wrong with the value.
func (v value) fail(message, fix string) { v.d.fail(v.node, v.field, message, fix) }

// list reads a list, or one item that may stand for a list of it.
func (v value) list(most int) []value {
	if v.node.Kind != yaml.SequenceNode {
		return []value{v}
	}
	items := make([]value, 0, min(len(v.node.Content), most))
	for i, item := range v.node.Content {
		n, ok := v.d.open(item)
		if !ok {
			return items
		}
		if i == most {
			v.d.fail(n, v.field, fmt.Sprintf("has %d items", len(v.node.Content)), fmt.Sprintf("at most %d fit", most))
			return items
		}
		items = append(items, value{d: v.d, node: n, field: v.field + "[" + strconv.Itoa(i) + "]"})
	}
	return items
}

// text reads a scalar as it is written, a number included; most bounds its bytes.
func (v value) text(most int) (string, bool) {
	switch {
	case v.node.Kind != yaml.ScalarNode || v.node.ShortTag() == "!!null":
		v.fail("is "+kindOf(v.node)+" where text is expected", "")
	case v.node.Value == "":
		v.fail("is empty", "write a value, or leave it out")
	case len(v.node.Value) > most:
		v.fail(fmt.Sprintf("has %d bytes", len(v.node.Value)), fmt.Sprintf("at most %d fit", most))
	default:
		return v.node.Value, true
	}
	return "", false
}

// integer reads a whole decimal number from low to high. Other bases are refused: 010 is 8 to one reader of YAML and 10 to
// another.
func (v value) integer(low, high int64) (int64, bool) {
	if v.node.Kind != yaml.ScalarNode {
		v.fail("is "+kindOf(v.node)+" where a whole number is expected", "")
		return 0, false
	}
	digits := strings.ReplaceAll(v.node.Value, "_", "")
	n, err := strconv.ParseInt(digits, 10, 64)
	fix := fmt.Sprintf("write a whole number from %d to %d", low, high)
	switch tag := v.node.ShortTag(); {
	case tag == "!!str" && err == nil:
		v.fail(quote(v.node.Value)+" is text", "write "+strconv.FormatInt(n, 10)+" without quotes")
	case errors.Is(err, strconv.ErrRange):
		v.fail(shorten(v.node.Value)+" is out of range", fix)
	case tag != "!!int" || err != nil || strings.HasPrefix(strings.TrimLeft(digits, "-+"), "0") && n != 0:
		v.fail(quote(v.node.Value)+" is no whole decimal number", fix)
	case n < low || n > high:
		v.fail(strconv.FormatInt(n, 10)+" is out of range", fix)
	default:
		return n, true
	}
	return 0, false
}

// boolean reads true or false; what is neither is an error, and false. The yes and on of YAML 1.1 are text.
func (v value) boolean() bool {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!bool" {
		v.fail("is "+kindOf(v.node)+" where true or false is expected", "write true or false, without quotes")
		return false
	}
	return strings.EqualFold(v.node.Value, "true")
}

// choice reads one of the words, and gives its place among them; what is none of them is an error, and the first. It looks
// at the text as written, because a bare off is false to some readers of YAML.
func (v value) choice(words []string) int {
	for i, w := range words {
		if v.node.Kind == yaml.ScalarNode && v.node.Value == w {
			return i
		}
	}
	fix := suggest(v.node.Value, words)
	if strings.HasPrefix(fix, "known: ") {
		fix = "write one of these" // which the message lists
	}
	v.fail(kindOf(v.node)+" is not one of "+strings.Join(words, ", "), fix)
	return 0
}

// duration reads a span of time from low to high; what is none is an error, and 0.
func (v value) duration(low, high time.Duration) time.Duration {
	text, ok := v.text(maxName)
	if !ok {
		return 0
	}
	span, err := parseDuration(text)
	if err != nil {
		v.fail(err.message, err.fix)
		return 0
	}
	if span < low || span > high {
		v.fail(text+" is out of range", "write from "+formatDuration(low)+" to "+formatDuration(high))
		return 0
	}
	return span
}

// kindOf names what a node is, in an error.
func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a map"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!null":
		return "empty"
	}
	return quote(n.Value)
}

// quote shows text from a document, cut to a length that an error can carry.
func quote(s string) string {
	if before, after := splitAt(s, 60); after != "" {
		return strconv.Quote(before + "…")
	}
	return strconv.Quote(s)
}

// shorten cuts text to what an error can carry, with spaces for what a terminal might obey.
func shorten(s string) string {
	s = strings.Map(visible, s)
	if before, after := splitAt(s, 60); after != "" {
		return before + "…"
	}
	return s
}
