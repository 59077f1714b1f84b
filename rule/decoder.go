package rule

import (
	"fmt"
	"maps"
	"strconv"
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
}

// fail reports what is wrong at a node. The fix may be empty when the message says it all.
func (d *decoder) fail(n *yaml.Node, field, message, fix string) {
	e := &Error{File: d.file, Line: n.Line, Column: n.Column, Field: field, Message: message, Fix: fix}
	d.report(e)
}

func (d *decoder) report(e *Error) {
	if len(d.errs) >= maxErrors {
		return
	}
	if d.lines == nil {
		d.lines = strings.Split(string(d.src), "\n")
	}
	if e.Line >= 1 && e.Line <= len(d.lines) {
		e.show(d.lines[e.Line-1])
	}
	d.errs = append(d.errs, e)
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

// value is a node with its place in the document, such as "rules[2].limit".
type value struct {
	d     *decoder
	node  *yaml.Node
	field string
}

// fail reports what is wrong with the value.
func (v value) fail(message, fix string) { v.d.fail(v.node, v.field, message, fix) }

// object is the entries of a map by name.
type object struct {
	value
	entries map[string]value
}

// object reads a map that has no other keys than the known ones.
func (v value) object(known ...string) (object, bool) {
	o := object{value: v}
	if v.node.Kind != yaml.MappingNode {
		v.fail("is "+kindOf(v.node)+" where a map is expected", "write "+known[0]+": … and so on")
		return o, false
	}
	o.entries = make(map[string]value, len(v.node.Content)/2)
	o.read(v.node, known, 0)
	return o, true
}

// maxMerges bounds how deep merged maps may merge others.
const maxMerges = 8

// read takes the entries of a map node. Merged in ("<<", depth above 0), it gives only what is not set, as YAML says.
func (o *object) read(node *yaml.Node, known []string, depth int) {
	inherited := make(map[string]bool)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, ok := o.d.open(node.Content[i])
		content, ok2 := o.d.open(node.Content[i+1])
		if !ok || !ok2 {
			return
		}
		if key.ShortTag() == "!!merge" {
			before := maps.Clone(o.entries)
			o.merge(content, known, depth+1)
			for name := range o.entries {
				if _, own := before[name]; !own {
					inherited[name] = true
				}
			}
			continue
		}
		o.set(key, content, known, func(name string, old value) bool {
			switch {
			case inherited[name]:
				delete(inherited, name)
				return true
			case depth == 0:
				o.d.fail(key, o.place(name), fmt.Sprintf("is set twice, first at line %d", old.node.Line), "keep one of them")
			}
			return false
		})
	}
}

// set enters one key; again says what to do when it is there already.
func (o *object) set(key, content *yaml.Node, known []string, again func(name string, old value) bool) {
	if key.Kind != yaml.ScalarNode {
		o.d.fail(key, o.field, "has "+kindOf(key)+" as a key", "keys are names")
		return
	}
	if !contains(known, key.Value) {
		o.d.fail(key, o.place(shorten(key.Value)), "is not known here", suggest(key.Value, known))
		return
	}
	if old, found := o.entries[key.Value]; found && !again(key.Value, old) {
		return
	}
	o.entries[key.Value] = value{d: o.d, node: content, field: o.place(key.Value)}
}

// merge reads what a "<<" key names: a map, or a list of maps of which the first to set a key wins.
func (o *object) merge(content *yaml.Node, known []string, depth int) {
	maps := []*yaml.Node{content}
	if content.Kind == yaml.SequenceNode {
		maps = content.Content
	}
	for _, item := range maps {
		n, ok := o.d.open(item)
		switch {
		case !ok:
			return
		case n.Kind != yaml.MappingNode:
			o.d.fail(item, o.field, "merges "+kindOf(n), "merge maps only")
		case depth > maxMerges:
			o.d.fail(item, o.field, "merges maps that merge maps, too deep", fmt.Sprintf("at most %d deep", maxMerges))
		default:
			o.read(n, known, depth)
		}
	}
}

func (o *object) place(name string) string {
	if o.field == "" {
		return name
	}
	return o.field + "." + name
}

// get gives an entry that is set, and not null.
func (o *object) get(name string) (value, bool) {
	v, ok := o.entries[name]
	if ok && v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null" {
		v.fail("has no value", "write one, or leave the key out")
		return v, false
	}
	return v, ok
}

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

// integer reads a whole decimal number from low to high.
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
	case tag != "!!int" || err != nil || strings.HasPrefix(strings.TrimLeft(digits, "-+"), "0") && n != 0:
		v.fail(quote(v.node.Value)+" is no whole decimal number", fix)
	case n < low || n > high:
		v.fail(strconv.FormatInt(n, 10)+" is out of range", fix)
	default:
		return n, true
	}
	return 0, false
}

// boolean reads true or false.
func (v value) boolean() (b, ok bool) {
	if v.node.Kind != yaml.ScalarNode || v.node.ShortTag() != "!!bool" {
		v.fail("is "+kindOf(v.node)+" where true or false is expected", "write true or false, without quotes")
		return false, false
	}
	return strings.EqualFold(v.node.Value, "true"), true
}

// choice reads one of the words, and gives its place among them.
func (v value) choice(words []string) (int, bool) {
	// YAML 1.1 reads a bare off as false; the node still has the word as written.
	for i, w := range words {
		if v.node.Kind == yaml.ScalarNode && v.node.Value == w {
			return i, true
		}
	}
	v.fail(quote(v.node.Value)+" is not one of "+strings.Join(words, ", "), suggest(v.node.Value, words))
	return 0, false
}

// duration reads a span of time from low to high.
func (v value) duration(low, high time.Duration) (time.Duration, bool) {
	text, ok := v.text(maxName)
	if !ok {
		return 0, false
	}
	span, err := parseDuration(text)
	if err != nil {
		v.fail(err.message, err.fix)
		return 0, false
	}
	if span < low || span > high {
		v.fail(text+" is out of range", "write from "+formatDuration(low)+" to "+formatDuration(high))
		return 0, false
	}
	return span, true
}

// kindOf names what a node is, in an error.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" {
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
