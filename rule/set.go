// Package rule is the rule document.
package rule

// Set is a parsed, validated, immutable rule document.
type Set struct {
	// Version is the set's number; it only moves forward.
	Version uint64
	// Rules are in document order.
	Rules []*Rule
	// Identity says where doors find a request's user and API key.
	Identity Identity

	byID map[string]*Rule
}

// Parse reads a rule document in YAML or JSON; name stands for it in errors. The error is an Errors with everything that is wrong.
func Parse(name string, src []byte) (*Set, error) { return &Set{Identity: defaultIdentity()}, nil }

// Marshal gives the document in canonical JSON.
func (s *Set) Marshal() []byte { return nil }

// Rule finds a rule by its id; nil when there is none.
func (s *Set) Rule(id string) *Rule { return s.byID[id] }

// Next is s as the given version: rules that do what they did in prev keep their version there, others get the new one.
func (s *Set) Next(prev *Set, version uint64) *Set { return s }

// Match finds the rules that req is subject to, in document order.
func (s *Set) Match(req *Request, buf []Match) []Match { return buf[:0] }
