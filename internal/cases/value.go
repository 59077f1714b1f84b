package cases

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/internal/spelling"
)

// value is a node with its place in the file, such as tests[0].steps[2].at.
type value struct {
	doc   *document
	node  *yaml.Node
	field string
}

func (v value) fail(message, fix string) {
	v.doc.at(v.node, Error{Field: v.field, Message: message, Fix: fix})
}

// entries is a map by its keys, none of which may be unknown or set twice.
type entries map[string]value

// entries reads a map; without known keys any name goes.
func (v value) entries(known ...string) (entries, bool) {
	if v.node.Kind != yaml.MappingNode {
		v.fail("is "+kindOf(v.node)+" where a map is expected", "")

		return nil, false
	}

	all := make(entries, len(v.node.Content)/2)

	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, content := v.doc.open(v.node.Content[i]), v.doc.open(v.node.Content[i+1])
		if key == nil || content == nil {
			return nil, false
		}

		name := key.Value
		entry := value{doc: v.doc, node: content, field: v.place(name)}

		switch _, twice := all[name]; {
		case key.Kind != yaml.ScalarNode:
			v.doc.at(key, Error{Field: v.field, Message: "has " + kindOf(key) + " as a key", Fix: "keys are names"})
		case twice:
			v.doc.at(key, Error{Field: entry.field, Message: "is set twice", Fix: "keep one of them"})
		case len(known) > 0 && !slices.Contains(known, name):
			v.doc.at(key, Error{Field: v.place(shorten(name)), Message: "is not known here", Fix: suggest(name, known)})
		default:
			all[name] = entry
		}
	}

	return all, true
}

// suggest says which of the known names was most likely meant, or else all of them.
func suggest(name string, known []string) string {
	if near := spelling.Closest(name, known); near != "" {
		return "did you mean " + near + "?"
	}

	return "known: " + strings.Join(known, ", ")
}

func (v value) place(name string) string {
	if v.field == "" {
		return name
	}

	return v.field + "." + name
}

// maxItems bounds a list.
const maxItems = 10_000

// list reads a list.
func (v value) list() []value {
	if v.node.Kind != yaml.SequenceNode {
		v.fail("is "+kindOf(v.node)+" where a list is expected", `write each as an item: "- …"`)

		return nil
	}

	if len(v.node.Content) > maxItems {
		v.fail(fmt.Sprintf("has %d items", len(v.node.Content)), fmt.Sprintf("at most %d fit", maxItems))

		return nil
	}

	items := make([]value, 0, len(v.node.Content))

	for i, n := range v.node.Content {
		if n = v.doc.open(n); n == nil {
			return items
		}

		items = append(items, value{doc: v.doc, node: n, field: v.field + "[" + strconv.Itoa(i) + "]"})
	}

	return items
}

// maxText is the longest text of a file, in bytes: keys may be long.
const maxText = 1 << 20

// text reads a scalar as it is written, a number included; "" may stand for
// an attribute that is there and empty.
func (v value) text() (string, bool) {
	switch {
	case v.node.Kind != yaml.ScalarNode || v.node.ShortTag() == "!!null":
		v.fail("is "+kindOf(v.node)+" where text is expected", `write a value, or "" for an empty one`)
	case len(v.node.Value) > maxText:
		v.fail(fmt.Sprintf("has %d bytes", len(v.node.Value)), fmt.Sprintf("at most %d fit", maxText))
	default:
		return v.node.Value, true
	}

	return "", false
}

// whole reads a whole number from low to high.
func (v value) whole(low, high int64) (int64, bool) {
	fix := fmt.Sprintf("write a whole number from %d to %d", low, high)
	n, err := strconv.ParseInt(v.node.Value, 10, 64)

	switch {
	case v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!int" || err != nil:
		v.fail("is "+kindOf(v.node)+" where a whole number is expected", fix)
	case n < low || n > high:
		v.fail(strconv.FormatInt(n, 10)+" is out of range", fix)
	default:
		return n, true
	}

	return 0, false
}

// span reads a span of time from 0 to most, in µs.
func (v value) span(most time.Duration) (int64, bool) {
	text, ok := v.text()
	if !ok {
		return 0, false
	}

	d, err := parseSpan(text)

	switch {
	case err != nil:
		v.fail(quote(text)+" is no span of time", "write a number and a unit, such as 0s, 30.4s, 50ms, 1h30m or 1d")
	case d < 0 || d > most:
		v.fail(text+" is out of range", "write from 0s to "+most.String())
	case d%time.Microsecond != 0:
		v.fail(text+" is finer than a microsecond", "write whole microseconds")
	default:
		return d.Microseconds(), true
	}

	return 0, false
}

// parseSpan reads what Go writes for a duration, with days and weeks before it.
func parseSpan(text string) (time.Duration, error) {
	const day = 24 * time.Hour

	total := time.Duration(0)

	for _, unit := range []struct {
		name string
		span time.Duration
	}{{"w", 7 * day}, {"d", day}} {
		number, rest, found := strings.Cut(text, unit.name)
		if !found {
			continue
		}

		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || time.Duration(n) > (math.MaxInt64-total)/unit.span {
			return 0, fmt.Errorf("%s is no number of days or weeks", quote(number))
		}

		total += time.Duration(n) * unit.span

		if text = rest; text == "" {
			return total, nil
		}
	}

	d, err := time.ParseDuration(text)
	if err == nil && (d < 0 && total > 0 || d > math.MaxInt64-total) {
		err = strconv.ErrRange
	}

	return total + d, err
}

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

func quote(s string) string { return strconv.Quote(shorten(s)) }

// shorten cuts text to what a message can carry.
func shorten(s string) string {
	const most = 60

	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "…"
	}

	return s
}
