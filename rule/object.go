package rule

import (
	"fmt"
	"maps"

	"go.yaml.in/yaml/v3"
)

// object is the entries of a map by name.
type object struct {
	value

	entries map[string]value
	meant   map[string]bool // what keys that are not known were probably meant to be
}

// object reads a map that has no other keys than the known ones. A key that nobody reads would be a limit that its owner
// believes in and nobody enforces. Without known keys any name will do; then the caller has seen that it is a map.
func (v value) object(known ...string) (object, bool) {
	o := object{value: v}
	if v.node.Kind != yaml.MappingNode {
		v.fail("is "+kindOf(v.node)+" where a map is expected", "write "+known[0]+": … and so on")
		return o, false
	}
	o.entries = make(map[string]value, len(v.node.Content)/2)
	o.meant = make(map[string]bool)
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
	if known != nil && !contains(known, key.Value) {
		o.d.fail(key, o.place(shorten(key.Value)), "is not known here", suggest(key.Value, known))
		o.meant[nearest(key.Value, known)] = true
		return
	}
	if old, found := o.entries[key.Value]; found && !again(key.Value, old) {
		return
	}
	o.entries[key.Value] = value{d: o.d, node: content, field: o.place(key.Value)}
}

// merge reads what a "<<" key names: a map, or a list of maps of which the first to set a key wins.
func (o *object) merge(content *yaml.Node, known []string, depth int) {
	sources := []*yaml.Node{content}
	if content.Kind == yaml.SequenceNode {
		sources = content.Content
	}
	for _, item := range sources {
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

// place is where an entry stands in the document.
func (o *object) place(name string) string {
	if o.field == "" {
		return name
	}
	return o.field + "." + name
}

// has says whether a key is there, be it without a value.
func (o *object) has(name string) bool {
	_, found := o.entries[name]
	return found
}

// lacks says whether a key is neither there nor misspelt: of a slip one error is enough, the one that names it.
func (o *object) lacks(name string) bool { return !o.has(name) && !o.meant[name] }

// get gives an entry that is set, and not null.
func (o *object) get(name string) (value, bool) {
	v, ok := o.entries[name]
	if ok && v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!null" {
		v.fail("has no value", "write one, or leave the key out")
		return v, false
	}
	return v, ok
}
