package rule

import (
	"slices"
	"strings"
)

// methodSet is the methods of a scope: a bit for each well-known one, and a list of the rest. The zero set is all methods.
type methodSet struct {
	mask uint16
	rest []string
}

// methodBits orders the well-known methods by their bits.
func methodBits() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}
}

// methodBit gives the bit of a well-known method, 0 for another one. Letter case does not matter: a method in another case
// than usual may still reach the same handler, and must not reach it for free.
func methodBit(method string) uint16 {
	switch method {
	case "GET":
		return 1 << 0
	case "HEAD":
		return 1 << 1
	case "POST":
		return 1 << 2
	case "PUT":
		return 1 << 3
	case "PATCH":
		return 1 << 4
	case "DELETE":
		return 1 << 5
	case "OPTIONS":
		return 1 << 6
	case "CONNECT":
		return 1 << 7
	case "TRACE":
		return 1 << 8
	}
	for i, known := range methodBits() {
		if strings.EqualFold(method, known) {
			return 1 << i
		}
	}
	return 0
}

// newMethodSet compiles the methods of a scope.
func newMethodSet(methods []string) methodSet {
	var set methodSet
	for _, m := range methods {
		if bit := methodBit(m); bit != 0 {
			set.mask |= bit
		} else {
			set.rest = append(set.rest, m)
		}
	}
	return set
}

// has says whether the set holds a method, given its bit too, which the caller computed once for all rules.
func (s *methodSet) has(method string, bit uint16) bool {
	if s.mask|bit == 0 && len(s.rest) == 0 {
		return true
	}
	if bit != 0 {
		return s.mask&bit != 0 || s.all()
	}
	return s.all() || slices.ContainsFunc(s.rest, func(m string) bool { return strings.EqualFold(m, method) })
}

func (s *methodSet) all() bool { return s.mask == 0 && len(s.rest) == 0 }

// appendMethod appends a method as an endpoint key shows it. Methods that are neither well-known nor named by the scope
// are one: else a client could make itself a new budget by making up a method.
func (s *methodSet) appendMethod(dst []byte, method string) []byte {
	if bit := methodBit(method); bit != 0 {
		for i, known := range methodBits() {
			if bit == 1<<i {
				return append(dst, known...)
			}
		}
	}
	for _, m := range s.rest {
		if strings.EqualFold(m, method) {
			return append(dst, m...)
		}
	}
	if method == "" {
		return append(dst, "ANY"...)
	}
	return append(dst, "OTHER"...)
}
