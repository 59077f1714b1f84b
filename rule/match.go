package rule

import (
	"cmp"
	"slices"
	"strings"
)

// Match is a rule that a request is subject to.
type Match struct {
	Rule *Rule
	// Index is the rule's place in Set.Rules.
	Index int
}

// Match finds the rules that req is subject to, in document order; rules that are off never match. It reuses buf's memory,
// from its start, and does not allocate when that is enough, the path is clean and the host in lower case.
func (s *Set) Match(req *Request, buf []Match) []Match {
	m := matching{set: s, bit: methodBit(req.Method)}
	return m.inOrder(m.look(s.index, req, buf[:0]))
}

// matching is one Match under way. The request and what was found go beside it, from hand to hand: so the caller may have
// both on its stack.
type matching struct {
	set   *Set
	bit   uint16
	slash bool // the path ended in a slash
	mixed bool // what was found is out of order, or has a rule twice

	classes []Classified // set: only the first entry that agrees is looked for
	first   int          // its index; that of no entry while none agrees
}

// look adds to found every rule that the index finds for the request.
func (m *matching) look(x *index, req *Request, found []Match) []Match {
	found = m.candidates(x.always, req, found)
	if x.exact != nil || x.folded != nil {
		clean, slash := cleanPath(req.Path)
		m.slash = slash
		if x.exact != nil {
			found = m.walk(x.exact, clean, req, found)
		}
		if x.folded != nil {
			found = m.walk(x.folded, strings.ToLower(clean), req, found)
		}
	}
	if x.entries != nil {
		found = m.entries(x.entries, req, found)
	}
	for i := range x.descriptors {
		if value, ok := req.Descriptor(x.descriptors[i].name); ok {
			found = m.candidates(x.descriptors[i].byValue[value], req, found)
		}
	}
	for i := range x.headers {
		for _, value := range req.Headers[x.headers[i].name] {
			found = m.candidates(x.headers[i].byValue[value], req, found)
		}
	}
	if x.hosts != nil {
		found = m.candidates(x.hosts[strings.ToLower(hostname(req.Host))], req, found)
	}
	return found
}

// candidates keeps those rules that agree in all but what they were found by.
func (m *matching) candidates(rules []int, req *Request, found []Match) []Match {
	for _, i := range rules {
		found = m.try(i, req, found)
	}
	return found
}

// try keeps a rule that agrees in all but its paths.
func (m *matching) try(i int, req *Request, found []Match) []Match {
	if m.classes != nil {
		m.tryClass(i, req)
		return found
	}
	r := m.set.Rules[i]
	if !r.Scope.agrees(req, m.bit) {
		return found
	}
	if n := len(found); n > 0 && found[n-1].Index >= i {
		m.mixed = true
	}
	return append(found, Match{Rule: r, Index: i})
}

// tryClass notes an entry that agrees, if it comes before those that did.
func (m *matching) tryClass(i int, req *Request) {
	if i < m.first && m.classes[i].hasKey(req.APIKey) && m.set.Rules[i].Scope.agrees(req, m.bit) {
		m.first = i
	}
}

// endings keeps those rules whose pattern ends here.
func (m *matching) endings(ends []ending, req *Request, found []Match) []Match {
	for _, e := range ends {
		if !e.strict || e.slash == m.slash {
			found = m.try(e.rule, req, found)
		}
	}
	return found
}

// walk follows a clean path down a tree of patterns: by its literal segments and by the free ones.
func (m *matching) walk(n *pathNode, clean string, req *Request, found []Match) []Match {
	for {
		found = m.candidates(n.subtree, req, found)
		if clean == "" {
			return m.endings(n.ends, req, found)
		}
		var part string
		part, clean = firstSegment(clean)
		next := n.child(part)
		// Both ways at once only where both exist: no node is seen twice, however a path is built.
		switch {
		case n.free == nil && next == nil:
			return found
		case next == nil:
			next = n.free
		case n.free != nil:
			found = m.walk(n.free, clean, req, found)
		}
		n = next
	}
}

// inOrder gives what was found, each rule once, in document order.
func (m *matching) inOrder(found []Match) []Match {
	if !m.mixed {
		return found
	}
	slices.SortFunc(found, func(a, b Match) int { return cmp.Compare(a.Index, b.Index) })
	return slices.CompactFunc(found, func(a, b Match) bool { return a.Index == b.Index })
}

// agrees says whether all of a scope but its paths agrees with a request.
func (s *Scope) agrees(req *Request, bit uint16) bool {
	return s.methods.has(req.Method, bit) &&
		(len(s.Hosts) == 0 || s.hasHost(hostname(req.Host))) &&
		(len(s.Headers) == 0 || s.hasHeaders(req.Headers)) &&
		(len(s.Descriptors) == 0 || s.hasDescriptors(req)) &&
		(s.Domain == "" || s.Domain == req.Domain) &&
		(len(s.Entries) == 0 || s.hasEntries(req.Entries))
}

// hasHost says whether one of the scope's hosts agrees; "*.example.com" is not example.com itself, as in certificates.
func (s *Scope) hasHost(host string) bool {
	for _, want := range s.Hosts {
		if suffix, wild := strings.CutPrefix(want, "*"); wild {
			cut := len(host) - len(suffix)
			if cut > 0 && strings.EqualFold(host[cut:], suffix) {
				return true
			}
		} else if strings.EqualFold(host, want) {
			return true
		}
	}
	return false
}

// hasHeaders says whether each header of the scope has one of its values. Any of several lines will do: which of them the
// upstream reads is not known, and a second line must not lead out of the rule.
func (s *Scope) hasHeaders(headers map[string][]string) bool {
	for i := range s.Headers {
		if !slices.ContainsFunc(headers[s.Headers[i].Name], func(v string) bool { return slices.Contains(s.Headers[i].Values, v) }) {
			return false
		}
	}
	return true
}

// hasDescriptors says whether each descriptor of the scope has one of its values.
func (s *Scope) hasDescriptors(req *Request) bool {
	for i := range s.Descriptors {
		if v, ok := req.Descriptor(s.Descriptors[i].Name); !ok || !slices.Contains(s.Descriptors[i].Values, v) {
			return false
		}
	}
	return true
}

// hostname is a Host without its port, and without the dot that may end a full name.
func hostname(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && strings.IndexByte(host[colon:], ']') < 0 {
		// An IPv6 address without brackets has more than one colon, and no port.
		if strings.IndexByte(host, ':') == colon || host[0] == '[' {
			host = host[:colon]
		}
	}
	return strings.TrimSuffix(host, ".")
}
