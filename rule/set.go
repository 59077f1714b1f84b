// Package rule is the rule document: it parses and checks what owners write, matches a request to the rules that it is
// subject to, and builds the keys whose budgets the request spends.
//
// A document is YAML or JSON. Parse reads it into a Set, which never changes; a change is another Set of a higher version:
//
//	document ──Parse──▶ Set ──Next(prev, version)──▶ Set, numbered ──Marshal──▶ holders, disk ──Parse──▶ the same Set
//	                     │
//	        Request ──Match──▶ []Match ──AppendKey──▶ key ──Quota──▶ limit, window, burst of that key
//
// The package is pure: no clock, no I/O, no state of its own. Its neighbours are internal/rate below, which says what a bucket
// can count exactly, and the SDK, the coordinator and the doors above.
package rule

import "slices"

// Set is a parsed, validated, immutable rule document.
type Set struct {
	// Version is the set's number, which only moves forward; 0 when nobody numbered it.
	Version uint64
	// Rules are in document order.
	Rules []*Rule
	// Identity says where doors find a request's user and API key.
	Identity Identity
	// Headers says which response headers tell callers about their budget.
	Headers Headers
	// Classes are looked at in order, and the first that agrees is a request's class; ClassOf does.
	Classes []Classified
	// Shedders say what is refused while the system is in trouble.
	Shedders Shedders
	// Switches are the kill switches. Who decides asks them; Match does not.
	Switches Switches

	byID                   map[string]*Rule
	index                  *index
	classifier             *classifier // nil without Classes
	ignoresIP, ignoresPath bool
	domains                map[string]bool // that rules name
	callerHeaders          []string
}

// compile makes a set of checked rules ready to match.
func (s *Set) compile() *Set {
	s.index = newIndex(s.Rules)
	s.classifier = newClassifier(s.Classes)
	s.nameRules()
	s.domains = make(map[string]bool)
	for _, r := range s.Rules {
		s.domains[r.Scope.Domain] = true
	}
	s.ignoresIP = s.Shedders.Worker == nil && !slices.ContainsFunc(s.Rules, func(r *Rule) bool { return r.readsIP() })
	s.ignoresPath = !s.index.readsPaths() && (s.classifier == nil || !s.classifier.scopes.index.readsPaths())
	s.callerHeaders = s.headersOfCallers()
	return s
}

// headersOfCallers returns the names of the headers that Identity and keys name, each once.
func (s *Set) headersOfCallers() (names []string) {
	for _, c := range s.Identity.APIKey {
		if c.Bearer {
			names = append(names, "Authorization")
		} else {
			names = append(names, c.Header)
		}
	}
	if header := s.Identity.User.Header; header != "" {
		names = append(names, header)
	}
	for _, r := range s.Rules {
		for _, part := range r.KeyBy {
			if part.Kind == KeyHeader {
				names = append(names, part.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CallerHeaders are the canonical names of the headers that say whose budget is spent. The first of several lines counts: a door that
// passes a request on must pass that line alone, or its server may take the caller for another. It must not be changed.
func (s *Set) CallerHeaders() []string { return s.callerHeaders }

// ReadsIP says whether anything about a request depends on Request.IP: a rule's key, or whom the worker shedder refuses. Doors
// need not find out the address of a caller otherwise.
func (s *Set) ReadsIP() bool { return !s.ignoresIP }

// ReadsPath says whether anything about a request depends on Request.Path: the scope of a rule or class. Doors need not read and
// check it otherwise.
func (s *Set) ReadsPath() bool { return !s.ignoresPath }

// HasDomain says whether a rule names a domain in its scope; no rule names the empty one.
func (s *Set) HasDomain(domain string) bool { return domain != "" && s.domains[domain] }

// readsIP says whether an address is part of the rule's keys.
func (r *Rule) readsIP() bool {
	return slices.ContainsFunc(r.KeyBy, func(p KeyPart) bool { return p.Kind == KeyIP }) || r.Before != nil && r.Before.readsIP()
}

// nameRules makes the rules known by their ids.
func (s *Set) nameRules() {
	s.byID = make(map[string]*Rule, len(s.Rules))
	for _, r := range s.Rules {
		s.byID[r.ID] = r
	}
}

// Rule finds a rule by its id; nil when there is none.
func (s *Set) Rule(id string) *Rule { return s.byID[id] }

// Next is s under the given version: a rule that does what it did in prev keeps its version there, whatever its description
// says, and every other rule gets the new one. A nil prev has no rules.
func (s *Set) Next(prev *Set, version uint64) *Set {
	// Copies: prev and s are in use, and never change. The index holds places, not rules, and fits both.
	next := *s
	next.Version, next.Rules = version, slices.Clone(s.Rules)
	for i, r := range s.Rules {
		numbered := *r
		numbered.Version = version
		if prev != nil {
			if old := prev.Rule(r.ID); old != nil && (old == r || old.doesAs(r)) {
				numbered.Version = old.Version
			}
		}
		if r.Before != nil {
			before := *r.Before
			before.Version = numbered.Version
			numbered.Before = &before
		}
		next.Rules[i] = &numbered
	}
	next.nameRules()
	return &next
}

// Above is s with every version moved up by base: for versions that somebody counts from 1, where holders may have seen
// higher ones. No rule is then newer than the set.
func (s *Set) Above(base uint64) *Set {
	// A copy, for the reason that Next has.
	above := *s
	above.Version, above.Rules = base+s.Version, slices.Clone(s.Rules)
	for i, r := range s.Rules {
		moved := *r
		moved.Version = base + min(r.Version, s.Version)
		if r.Before != nil {
			before := *r.Before
			before.Version = moved.Version
			moved.Before = &before
		}
		above.Rules[i] = &moved
	}
	above.nameRules()
	return &above
}
