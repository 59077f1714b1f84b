package rule

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// maxCovers bounds how many pairs of rules a review compares: enough for a hundred blocks among all rules that fit.
const maxCovers = 100 * MaxRules

// reviewSet looks for rules that can do nothing because another one refuses all that they are about.
func (d *decoder) reviewSet(set *Set) {
	pairs := 0
	for i, blocker := range set.Rules {
		if !blocker.alwaysBlocks() || blocker.Mode != Enforce {
			continue
		}
		for j, r := range set.Rules {
			pairs++
			if pairs > maxCovers {
				return
			}
			if i != j && r.Mode != Off && !r.Block && blocker.Scope.covers(&r.Scope) {
				d.reviewed[j].doubt(fmt.Sprintf("is never asked: the rule %s at line %d refuses every request that it is about",
					quote(blocker.ID), d.reviewed[i].node.Line),
					"leave one of them out, or narrow the scope of the block")
			}
		}
	}
}

// alwaysBlocks says whether a rule refuses every request that it matches, whoever sends it.
func (r *Rule) alwaysBlocks() bool {
	canSkip := r.Missing == MissingSkip && r.keyHas(KeyUser, KeyAPIKey, KeyHeader, KeyDescriptor, KeyIP)
	return r.Block && len(r.Overrides) == 0 && !canSkip
}

// covers says whether every request in other's scope is surely in s too. It may miss some that are, never the other way.
func (s *Scope) covers(other *Scope) bool {
	return s.coversPaths(other) &&
		(len(s.Methods) == 0 || len(other.Methods) > 0 && subset(other.Methods, s.Methods)) &&
		(len(s.Hosts) == 0 || s.coversHosts(other.Hosts)) &&
		coversAttributes(s.Headers, other.Headers) && coversAttributes(s.Descriptors, other.Descriptors) &&
		(s.Domain == "" || s.Domain == other.Domain) &&
		(len(s.Entries) == 0 || slices.EqualFunc(s.Entries, other.Entries, func(a, b EntryScope) bool { return a.same(&b) }))
}

// coversPaths says whether each pattern of other is within one of s.
func (s *Scope) coversPaths(other *Scope) bool {
	if len(s.patterns) == 0 {
		return true
	}
	if len(other.patterns) == 0 || s.PathCase == CaseSensitive && other.PathCase == CaseInsensitive {
		return false
	}
	for i := range other.patterns {
		p := &other.patterns[i]
		within := func(own pattern) bool {
			slash := s.TrailingSlash == SlashIgnored || own.subtree || other.TrailingSlash == SlashStrict && own.slash == p.slash
			return slash && own.covers(p, s.PathCase == CaseInsensitive)
		}
		if !slices.ContainsFunc(s.patterns, within) {
			return false
		}
	}
	return true
}

// covers says whether every path of other is one of p.
func (p *pattern) covers(other *pattern, fold bool) bool {
	switch {
	case len(other.segments) < len(p.segments), other.subtree && !p.subtree:
		return false
	case len(other.segments) > len(p.segments) && !p.subtree:
		return false
	}
	for i, own := range p.segments {
		theirs := other.segments[i]
		same := !theirs.free && (own.literal == theirs.literal || fold && strings.EqualFold(own.literal, theirs.literal))
		if !own.free && !same {
			return false
		}
	}
	return true
}

// coversHosts says whether each of the hosts is one that s names.
func (s *Scope) coversHosts(hosts []string) bool {
	if len(hosts) == 0 {
		return false
	}
	for _, host := range hosts {
		if !contains(s.Hosts, host) && (strings.HasPrefix(host, "*") || !s.hasHost(host)) {
			return false
		}
	}
	return true
}

// coversAttributes says whether what others ask for is enough for each attribute of own.
func coversAttributes(own, others []Attribute) bool {
	for _, a := range own {
		enough := func(b Attribute) bool { return a.Name == b.Name && subset(b.Values, a.Values) }
		if !slices.ContainsFunc(others, enough) {
			return false
		}
	}
	return true
}

// subset says whether each word is one of the others.
func subset(words, of []string) bool {
	for _, w := range words {
		if !contains(of, w) {
			return false
		}
	}
	return true
}

// clean is the pattern as paths are compared with it.
func (p *pattern) clean() string {
	var b strings.Builder
	for _, seg := range p.segments {
		b.WriteString("/" + seg.literal)
	}
	switch {
	case p.subtree:
		b.WriteString("/**")
	case b.Len() == 0:
		b.WriteByte('/')
	}
	return b.String()
}

// countSegments counts what stands between the slashes of a path; a slash at its end ends nothing.
func countSegments(path string) int {
	return strings.Count(strings.TrimSuffix(path, "/"), "/")
}

// Overshadows says whether r surely refuses whatever other would refuse: it blocks all of that, or counts the same keys by a
// limit that is no higher. Then other can do nothing while r is in force and has no overrides elsewhere. It may miss some rules
// of which that is true, never the other way.
func (r *Rule) Overshadows(other *Rule) bool {
	if r == other || r.Mode != Enforce || other.Mode == Off || r.Withheld != 0 || other.Block || len(r.Overrides) > 0 {
		return false
	}
	if r.Block {
		return r.alwaysBlocks() && r.Scope.covers(&other.Scope)
	}
	sameKey := slices.Equal(r.KeyBy, other.KeyBy) && r.Normalize == other.Normalize && r.IPv6Prefix == other.IPv6Prefix &&
		r.Missing == other.Missing && !r.keyHas(KeyEndpoint)
	sameCount := r.Algorithm == other.Algorithm && r.Calendar == other.Calendar && r.Cost == other.Cost
	if !sameKey || !sameCount || !r.Scope.covers(&other.Scope) {
		return false
	}
	if !r.Algorithm.HasBurst() {
		return r.Window == other.Window && r.Limit <= other.Limit
	}
	// r.Limit/r.Window <= other.Limit/other.Window, whatever the products come to.
	rHigh, rLow := bits.Mul64(uint64(r.Limit), uint64(other.Window))
	oHigh, oLow := bits.Mul64(uint64(other.Limit), uint64(r.Window))
	return r.Burst <= other.Burst && (rHigh < oHigh || rHigh == oHigh && rLow <= oLow)
}
