package cases

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/rule"
)

// rules is a rule document in parts, so that a step can save one rule of it.
// It never changes; a change is another one.
type rules struct {
	set  *rule.Set
	head []part // what stands beside the rules, such as identity
	list []part
}

// part is a node of a document; name is its key in the head.
type part struct {
	value

	name string
}

// change is what a step does to the rules: it saves one (apply), takes one away
// (remove), or says anew what stands beside them, such as switches.
type change struct {
	value

	verb string // "" for none
}

// changes are the verbs of a change.
func changes() []string { return []string{"apply", "remove", "classes", "shedders", "switches"} }

func (c change) isSet() bool { return c.verb != "" }

// readRules reads the rules that the file holds or names; nil if they are wrong.
func readRules(root value, top entries, open func(string) (string, []byte, error)) *rules {
	inline, here := top["rules"]
	file, there := top["rulesFile"]

	switch {
	case here && there:
		file.fail("does not go with rules", "keep one of them")
	case here:
		r := &rules{list: parts(inline)}
		if !root.doc.parse(cut(root.doc.src, root.node), r, inline) {
			return nil
		}

		for _, name := range beside() {
			if entry, found := top[name]; found {
				r.head = append(r.head, part{value: entry, name: name})
			}
		}

		return r
	case there:
		for _, name := range beside() {
			if entry, found := top[name]; found {
				entry.fail("does not go with rulesFile", "write it into that file")
			}
		}

		return readRulesFile(file, open)
	default:
		root.fail("has no rules", "write rules: and a list of them, or rulesFile: and the path of a rule document")
	}

	return nil
}

// readRulesFile reads another file as a rule document.
func readRulesFile(v value, open func(string) (string, []byte, error)) *rules {
	path, ok := v.text()
	if !ok {
		return nil
	}

	name, src, err := open(path)
	if err != nil {
		v.fail("cannot be read: "+err.Error(), "write a path from where this file is")

		return nil
	}

	doc := &document{file: name, src: src, problems: v.doc.problems}
	r := &rules{}

	if !doc.parse(src, r, value{doc: doc, node: &yaml.Node{}}) {
		return nil
	}

	root, err := parse(src)
	if err != nil { // it was parsed a moment ago
		v.fail("cannot be read again: "+err.Error(), "")

		return nil
	}

	top, _ := value{doc: doc, node: root}.entries()
	for key, entry := range top {
		if key == "rules" {
			r.list = parts(entry)
		} else if key != "version" {
			r.head = append(r.head, part{value: entry, name: key})
		}
	}

	return r
}

// parts are the items of a list of rules.
func parts(v value) []part {
	list := make([]part, 0, len(v.node.Content))
	for _, item := range v.list() {
		list = append(list, part{value: item})
	}

	return list
}

// parse parses src, which has every rule at the place that it has in the
// document, into r.set. What is wrong is reported; whole is where problems are that have no place.
func (d *document) parse(src []byte, r *rules, whole value) bool {
	set, err := rule.Parse(d.file, src)
	r.set = set

	for _, e := range ruleErrors(err) {
		p := &Error{Line: e.Line, Column: e.Column, Field: e.Field, Message: e.Message, Fix: e.Fix}
		if p.Line == 0 {
			p.Line, p.Column = whole.node.Line, whole.node.Column
		}

		d.report(p)
	}

	return err == nil
}

// ruleErrors lists what Parse found.
func ruleErrors(err error) rule.Errors {
	if err == nil {
		return nil
	}

	if list, ok := errors.AsType[rule.Errors](err); ok {
		return list
	}

	return rule.Errors{{Message: err.Error()}}
}

// beside are the keys that may stand beside the rules, as in a rule document.
func beside() []string { return []string{"identity", "headers", "classes", "shedders", "switches"} }

// cut returns src with nothing left of the top map but the rules and what may
// stand beside them, where it was: an error in that text is at the right place in src.
func cut(src []byte, root *yaml.Node) []byte {
	keep := append(beside(), "rules")
	out, done, tail := []byte(nil), 0, ""

	for i := 0; i+1 < len(root.Content); i += 2 {
		if slices.Contains(keep, root.Content[i].Value) {
			continue
		}

		from, to := max(done, offset(src, root.Content[i])), len(src)
		if i+2 < len(root.Content) {
			to = max(from, offset(src, root.Content[i+2]))
		} else if root.Style&yaml.FlowStyle != 0 {
			tail = "\n}"
		}

		out = append(append(out, src[done:from]...), blank(src[from:to])...)
		done = to
	}

	return append(append(out, src[done:]...), tail...)
}

// offset is where a node begins in src.
func offset(src []byte, n *yaml.Node) int {
	at := 0

	for line := 1; line < n.Line; line++ {
		end := bytes.IndexByte(src[at:], '\n')
		if end < 0 {
			return len(src)
		}

		at += end + 1
	}

	for column := 1; column < n.Column && at < len(src); column++ {
		_, size := utf8.DecodeRune(src[at:])
		at += size
	}

	return at
}

// blank replaces every character but line breaks by a space.
func blank(src []byte) []byte {
	out := make([]byte, 0, len(src))

	for _, r := range string(src) {
		if r != '\n' && r != '\r' {
			r = ' '
		}

		out = append(out, byte(r))
	}

	return out
}

// changed returns the rules after c; nil, and what is wrong is reported, if it cannot be.
func (r *rules) changed(c change) *rules {
	next := &rules{head: r.head, list: slices.Clone(r.list)}

	switch c.verb {
	case "apply":
		// By itself first: then all that is wrong is wrong with this rule.
		alone := &rules{list: []part{{value: c.value}}}
		if alone.compiled(c) == nil {
			return nil
		}

		if at := r.find(alone.set.Rules[0].ID); at >= 0 {
			next.list[at] = alone.list[0]
		} else {
			next.list = append(next.list, alone.list[0])
		}
	case "remove":
		id, ok := c.text()
		if !ok {
			return nil
		}

		at := r.find(id)
		if at < 0 {
			c.fail("there is no rule "+quote(id)+" at that time", "write the id of a rule that is in force")

			return nil
		}

		next.list = slices.Delete(next.list, at, at+1)
	default:
		others := func(p part) bool { return p.name == c.verb }
		next.head = append(slices.DeleteFunc(slices.Clone(r.head), others), part{value: c.value, name: c.verb})
	}

	return next.compiled(c)
}

// find returns the place of the rule with id; -1 if there is none.
func (r *rules) find(id string) int {
	return slices.IndexFunc(r.set.Rules, func(known *rule.Rule) bool { return known.ID == id })
}

// compiled parses r anew; a problem is one of the step that changes it.
func (r *rules) compiled(step change) *rules {
	text := restatement{}
	text.all(r)

	set, err := rule.Parse(step.doc.file, text.bytes())
	for _, e := range ruleErrors(err) {
		place := strings.TrimPrefix(strings.TrimPrefix(e.Field, "rules[0]"), step.verb)
		p := Error{Field: step.field + place, Message: e.Message, Fix: e.Fix}

		from := text.origin(e.Line)
		if from == nil {
			from = step.node
		}

		step.doc.at(from, p)
	}

	if err != nil {
		return nil
	}

	r.set = set

	return r
}
