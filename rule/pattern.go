package rule

import (
	"errors"
	"fmt"
	"strings"
)

// pattern is one compiled path of a scope.
type pattern struct {
	text     string // as written: what an endpoint key shows
	segments []segment
	subtree  bool // ends in /**
	slash    bool // written with a slash at the end
}

// segment is a literal in clean form, or free: then its literal is its name, in braces.
type segment struct {
	literal string
	free    bool
}

// parsePattern compiles a path of a scope; the error says what is wrong and how to write it.
func parsePattern(text string) (pattern, error) {
	p := pattern{text: text}
	if !strings.HasPrefix(text, "/") {
		if method, path, both := strings.Cut(text, " "); both && strings.HasPrefix(path, "/") { // as Go's ServeMux has them
			return p, fmt.Errorf("a method has a place of its own: write {methods: [%.40s], paths: [%.40s]}", method, path)
		}

		return p, errors.New(`a path starts with "/"`)
	}
	if strings.ContainsAny(text, "?#") {
		return p, errors.New("a path has no query: leave out what follows the path")
	}
	body, subtree := strings.CutSuffix(text, "/**")
	p.subtree = subtree
	for raw := range strings.SplitSeq(body, "/") {
		p.slash = false
		seg, err := parseSegment(raw)
		switch {
		case err != nil:
			return p, err
		case seg.free:
			p.segments = append(p.segments, seg)
		case seg.literal == "" || seg.literal == ".":
			p.slash = true
		// A pattern is cleaned as paths are, else it would never meet one.
		case seg.literal == "..":
			p.segments = p.segments[:max(0, len(p.segments)-1)]
			p.slash = true
		default:
			p.segments = append(p.segments, seg)
		}
	}
	return p, nil
}

// parseSegment compiles what stands between two slashes.
func parseSegment(raw string) (segment, error) {
	if strings.HasPrefix(raw, "{") && strings.HasSuffix(raw, "}") {
		if name := raw[1 : len(raw)-1]; name == "" || strings.ContainsAny(name, "{}*.") {
			return segment{}, errors.New(`write "{name}" for one segment, and "/**" at the end for everything below`)
		}
		return segment{literal: raw, free: true}, nil
	}
	if strings.ContainsAny(raw, "{}*") {
		return segment{}, errors.New(`write "{name}" for one whole segment, "/**" at the end for everything below, ` +
			`and %2A, %7B or %7D for the characters themselves`)
	}
	return segment{literal: string(appendSegment(nil, raw))}, nil
}

// matches says whether the pattern agrees with a clean path.
func (p *pattern) matches(clean string, fold bool) bool {
	for _, s := range p.segments {
		if clean == "" {
			return false
		}
		var part string
		part, clean = firstSegment(clean)
		if s.free || part == s.literal || fold && strings.EqualFold(part, s.literal) {
			continue
		}
		return false
	}
	return clean == "" || p.subtree
}

// firstSegment splits "/a/b" into "a" and "/b".
func firstSegment(clean string) (part, rest string) {
	if end := strings.IndexByte(clean[1:], '/'); end >= 0 {
		return clean[1 : end+1], clean[end+1:]
	}
	return clean[1:], ""
}
