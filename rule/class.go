package rule

import "strings"

// Class says how much a request matters. A greater one matters more, and is shed later.
type Class uint8

const (
	// ClassUnset leaves the class to the document, and else to the method.
	ClassUnset Class = iota
	// ClassTest is traffic in test mode: it spends budgets of its own, and is shed first.
	ClassTest
	// ClassRead changes nothing.
	ClassRead
	// ClassWrite changes something.
	ClassWrite
	// ClassCritical is never shed.
	ClassCritical
)

// String is the class as the document writes it; empty when it is unset.
func (c Class) String() string {
	if c == ClassUnset {
		return ""
	}
	return word(classWords(), int(c)-1)
}

// ParseClass reads a class as String writes it; ok is false for any other text.
func ParseClass(text string) (c Class, ok bool) {
	for i, w := range classWords() {
		if strings.EqualFold(text, w) {
			return Class(i + 1), true
		}
	}
	return ClassUnset, false
}

// Lowered is c, or the class to which its caller lowers it; a higher one, or none, changes nothing.
func (c Class) Lowered(to Class) Class {
	if to == ClassUnset {
		return c
	}
	return min(c, to)
}

func classWords() []string { return []string{"test", "read", "write", "critical"} }

// Classified gives a class to the requests in a scope whose API key begins with one of the prefixes.
type Classified struct {
	Class Class
	// Scope says which requests; the zero Scope is everything.
	Scope Scope
	// APIKeyPrefixes are beginnings of keys, such as sk_test_; without any, the key does not matter.
	APIKeyPrefixes []string
}

// maxClasses bounds the entries of classes.
const maxClasses = 256

// classifier finds the class of a request. Its entries are matched as rules are, by the same index.
type classifier struct {
	entries []Classified
	scopes  *Set // a rule for each entry
}

// newClassifier compiles the entries; nil for none.
func newClassifier(entries []Classified) *classifier {
	if len(entries) == 0 {
		return nil
	}
	scopes := &Set{Rules: make([]*Rule, len(entries))}
	for i := range entries {
		scopes.Rules[i] = &Rule{Scope: entries[i].Scope}
	}
	scopes.index = newIndex(scopes.Rules)
	return &classifier{entries: entries, scopes: scopes}
}

// of is the class of the first entry that agrees, by its index; -1 for none.
func (c *classifier) of(req *Request) (at int) {
	m := matching{set: c.scopes, bit: methodBit(req.Method), classes: c.entries, first: len(c.entries)}
	m.look(c.scopes.index, req, nil)
	if m.first == len(c.entries) {
		return -1
	}
	return m.first
}

// hasKey says whether an API key begins as the entry asks.
func (c *Classified) hasKey(key string) bool {
	for _, prefix := range c.APIKeyPrefixes {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return len(c.APIKeyPrefixes) == 0
}

// ClassOf is the class of a request, which also says whose budget it spends: what req.Class says, else the first entry of
// classes that agrees, else what its method tells. It does not look at req.LowerTo, and does not allocate.
func (s *Set) ClassOf(req *Request) Class {
	if req.Class != ClassUnset {
		return req.Class
	}
	if s.classifier != nil {
		if at := s.classifier.of(req); at >= 0 {
			return s.Classes[at].Class
		}
	}
	return classOfMethod(req.Method)
}

// classOfMethod is the class of a request that nothing else is known of. Who does not say the method may change something.
func classOfMethod(method string) Class {
	switch method {
	case "GET", "HEAD", "OPTIONS", "TRACE": // the safe ones: RFC 9110, 9.2.1
		return ClassRead
	case "POST", "PUT", "PATCH", "DELETE", "CONNECT", "":
		return ClassWrite
	}
	for _, safe := range [...]string{"GET", "HEAD", "OPTIONS", "TRACE"} {
		if strings.EqualFold(method, safe) {
			return ClassRead
		}
	}
	return ClassWrite
}
