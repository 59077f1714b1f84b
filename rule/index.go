package rule

import "strings"

// index finds the rules that a request may be subject to by what tells most rules apart, so that a thousand rules cost little
// more than ten: their paths, or else a descriptor, a header or a host. It is built once, when the document is parsed.
type index struct {
	exact, folded        *pathNode // folded: for rules whose letter case does not matter
	descriptors, headers []valueIndex
	entries              shapes
	hosts                map[string][]int
	always               []int // rules that only their filters can tell
}

// pathNode is a place in a tree of patterns, one level a segment.
type pathNode struct {
	names   []string // of few: a scan is faster than a map
	nodes   []*pathNode
	byName  map[string]*pathNode // of many
	free    *pathNode
	ends    []ending
	subtree []int
}

// ending is a pattern that ends at a node.
type ending struct {
	rule          int
	strict, slash bool // strict: the path must end as the pattern does
}

// valueIndex finds rules by the value of one attribute.
type valueIndex struct {
	name    string
	byValue map[string][]int
}

// manyChildren is from where on a node's children are looked up in a map.
const manyChildren = 8

// newIndex builds the index of a set's rules; rules that are off are left out.
func newIndex(rules []*Rule) *index {
	x := &index{}
	for i, r := range rules {
		if r.decides() {
			x.add(i, &r.Scope)
		}
	}
	return x
}

// readsPaths says whether any rule is found by its path; no other looks at paths.
func (x *index) readsPaths() bool { return x.exact != nil || x.folded != nil }

// decides says whether any key has a version of the rule that is not off.
func (r *Rule) decides() bool {
	return r.Mode != Off && r.Withheld < allKeys || r.Withheld > 0 && r.Before != nil && r.Before.Mode != Off
}

// add files a rule under the one thing that most requests will not have.
func (x *index) add(i int, s *Scope) {
	switch {
	case len(s.patterns) > 0:
		x.addPaths(i, s)
	case len(s.Entries) > 0:
		if x.entries == nil {
			x.entries = shapes{}
		}
		x.entries.add(i, s)
	case len(s.Descriptors) > 0:
		x.descriptors = addValues(x.descriptors, s.Descriptors[0], i)
	case len(s.Headers) > 0:
		x.headers = addValues(x.headers, s.Headers[0], i)
	case s.hostsAreExact():
		if x.hosts == nil {
			x.hosts = map[string][]int{}
		}
		for _, host := range s.Hosts {
			x.hosts[host] = append(x.hosts[host], i)
		}
	default:
		x.always = append(x.always, i)
	}
}

// hostsAreExact says whether a scope's hosts can be looked up.
func (s *Scope) hostsAreExact() bool {
	for _, host := range s.Hosts {
		if strings.HasPrefix(host, "*") {
			return false
		}
	}
	return len(s.Hosts) > 0
}

// addValues files a rule under each value of an attribute. Looking at one attribute is enough: the filter looks at the rest.
func addValues(list []valueIndex, a Attribute, rule int) []valueIndex {
	at := -1
	for i := range list {
		if list[i].name == a.Name {
			at = i
		}
	}
	if at < 0 {
		at = len(list)
		list = append(list, valueIndex{name: a.Name, byValue: map[string][]int{}})
	}
	for _, value := range a.Values {
		list[at].byValue[value] = append(list[at].byValue[value], rule)
	}
	return list
}

// addPaths files a rule under each of its patterns.
func (x *index) addPaths(i int, s *Scope) {
	root := &x.exact
	fold := s.PathCase == CaseInsensitive
	if fold {
		root = &x.folded
	}
	if *root == nil {
		*root = &pathNode{}
	}
	for _, p := range s.patterns {
		n := *root
		for _, seg := range p.segments {
			switch {
			case seg.free:
				if n.free == nil {
					n.free = &pathNode{}
				}
				n = n.free
			case fold:
				n = n.grow(strings.ToLower(seg.literal))
			default:
				n = n.grow(seg.literal)
			}
		}
		if p.subtree {
			n.subtree = append(n.subtree, i)
			continue
		}
		// The root is one path, with or without its slash.
		strict := s.TrailingSlash == SlashStrict && len(p.segments) > 0
		n.ends = append(n.ends, ending{rule: i, strict: strict, slash: p.slash})
	}
}

// child finds the child of a literal segment; nil when there is none.
func (n *pathNode) child(name string) *pathNode {
	if n.byName != nil {
		return n.byName[name]
	}
	for i := range n.names {
		if n.names[i] == name {
			return n.nodes[i]
		}
	}
	return nil
}

// grow finds or makes the child of a literal segment.
func (n *pathNode) grow(name string) *pathNode {
	if c := n.child(name); c != nil {
		return c
	}
	c := &pathNode{}
	n.names, n.nodes = append(n.names, name), append(n.nodes, c)
	switch {
	case n.byName != nil:
		n.byName[name] = c
	case len(n.names) > manyChildren:
		n.byName = make(map[string]*pathNode, 2*len(n.names))
		for i := range n.names {
			n.byName[n.names[i]] = n.nodes[i]
		}
	}
	return c
}
