package rule

import (
	"slices"
	"strings"
)

// Entry is one name and value of a descriptor whose order matters, as proxies send them.
type Entry struct {
	Key, Value string
}

// EntryScope is what a scope asks of the entry at its place in a descriptor.
type EntryScope struct {
	// Key is the entry's name, exactly.
	Key string
	// Values are those that agree; without any, all do. One that ends in "*" stands for all that begin as it does.
	Values []string
	// Except are values that do not agree, written the same way.
	Except []string

	values, except valueSet
}

// maxEntries is how many entries a scope may have; a longer descriptor is in no such scope.
const maxEntries = maxKeyParts

// manyValues is from how many on values are looked up in a map.
const manyValues = 8

// valueSet is values to compare with.
type valueSet struct {
	few      []string
	many     map[string]struct{}
	prefixes []string
}

// newValueSet compiles values as the document writes them.
func newValueSet(texts []string) (s valueSet) {
	for _, text := range texts {
		if prefix, wild := strings.CutSuffix(text, "*"); wild {
			s.prefixes = append(s.prefixes, prefix)
		} else {
			s.few = append(s.few, text)
		}
	}
	if len(s.few) > manyValues {
		s.many = make(map[string]struct{}, len(s.few))
		for _, text := range s.few {
			s.many[text] = struct{}{}
		}
		s.few = nil
	}
	return s
}

// has says whether a value is one of the set, or begins as one of its prefixes.
func (s *valueSet) has(value string) bool {
	if s.many != nil {
		if _, ok := s.many[value]; ok {
			return true
		}
	} else if slices.Contains(s.few, value) {
		return true
	}
	for _, prefix := range s.prefixes {
		if strings.HasPrefix(value, prefix) {
			return true
		}
	}
	return false
}

// agrees says whether an entry of the request is what the scope asks for.
func (e *EntryScope) agrees(got *Entry) bool {
	return e.Key == got.Key && (len(e.Values) == 0 || e.values.has(got.Value)) && (len(e.Except) == 0 || !e.except.has(got.Value))
}

// compile makes the entry ready to compare.
func (e *EntryScope) compile() { e.values, e.except = newValueSet(e.Values), newValueSet(e.Except) }

// same says whether two entries of scopes are written alike.
func (e *EntryScope) same(other *EntryScope) bool {
	return e.Key == other.Key && slices.Equal(e.Values, other.Values) && slices.Equal(e.Except, other.Except)
}

// text is the entry as people may see it in an explanation.
func (e *EntryScope) text() string {
	text := e.Key
	if len(e.Values) > 0 {
		text += "=" + strings.Join(e.Values, "|")
	}
	if len(e.Except) > 0 {
		text += " but not " + strings.Join(e.Except, "|")
	}
	return text
}

// hasEntries says whether the request's descriptor is the whole that the scope asks for, in its order.
func (s *Scope) hasEntries(entries []Entry) bool {
	if len(s.Entries) != len(entries) {
		return false
	}
	for i := range s.Entries {
		if !s.Entries[i].agrees(&entries[i]) {
			return false
		}
	}
	return true
}

// Descriptor is the value of a descriptor of the request: that of the first entry of the name, or else the one in Descriptors.
func (r *Request) Descriptor(name string) (value string, ok bool) {
	for i := range r.Entries {
		if r.Entries[i].Key == name {
			return r.Entries[i].Value, true
		}
	}
	value, ok = r.Descriptors[name]
	return value, ok
}

// shapes finds rules by the names of all entries of their scopes, and among those by a value.
type shapes map[string]*shape

// shape is the rules whose entries have the same names.
type shape struct {
	byValue [maxEntries]map[string][]int // by the value of the entry at that place
	always  []int                        // of rules that no single value tells
}

// add files a rule under the first entry that tells it by exact values.
func (x shapes) add(i int, s *Scope) {
	var room [128]byte
	key := room[:0]
	for e := range s.Entries {
		key = appendShape(key, s.Entries[e].Key)
	}
	to := x[string(key)]
	if to == nil {
		to = &shape{}
		x[string(key)] = to
	}
	for e := range s.Entries {
		if values := s.Entries[e].Values; len(values) > 0 && len(s.Entries[e].values.prefixes) == 0 {
			if to.byValue[e] == nil {
				to.byValue[e] = map[string][]int{}
			}
			for _, value := range values {
				to.byValue[e][value] = append(to.byValue[e][value], i)
			}
			return
		}
	}
	to.always = append(to.always, i)
}

// appendShape appends a name so that no two lists of names that a scope may have look alike.
func appendShape(key []byte, name string) []byte { return append(append(key, name...), 0) }

// entries adds the rules whose scopes have entries of the request's names.
func (m *matching) entries(x shapes, req *Request, found []Match) []Match {
	if len(req.Entries) == 0 || len(req.Entries) > maxEntries {
		return found
	}
	var room [128]byte
	key := room[:0]
	for i := range req.Entries {
		key = appendShape(key, req.Entries[i].Key)
	}
	of := x[string(key)]
	if of == nil {
		return found
	}
	found = m.candidates(of.always, req, found)
	for i := range req.Entries {
		if of.byValue[i] != nil {
			found = m.candidates(of.byValue[i][req.Entries[i].Value], req, found)
		}
	}
	return found
}
