package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// Explanation says whether one rule applies to one request, and why not.
type Explanation struct {
	Rule *Rule
	// Applies says that the request is subject to the rule. A shadow rule applies too, though it refuses nothing.
	Applies bool
	// Part is what kept the rule from applying, such as "mode", "methods", "paths", "headers.X-Tier" or "keyBy user";
	// empty when it applies. It is also set, to a part of the key, when the rule refuses requests that lack that part.
	Part string
	// Want is what the rule asks for in that part, Got what the request has; Got is empty for what it lacks.
	Want, Got string
	// Key is whose budget the request spends, fit to be shown: of a secret key only a hint. It is empty for a rule by global.
	Key string
	// Version is what the key has of the rule: the rule itself, or its Before where the rollout has not reached the key; nil where
	// nothing is known of the key, or the rule does not apply to it.
	Version *Rule
	// Quota is what the key may spend, and whether an override says so.
	Quota Quota
}

// Explain says of each rule of the set, in document order, whether it applies to req and, if not, which part of it was the
// first to differ. It is for people and takes its time; Match decides.
func (s *Set) Explain(req *Request) []Explanation {
	list := make([]Explanation, len(s.Rules))
	for i, r := range s.Rules {
		list[i] = r.explain(req)
	}
	return list
}

// ExplainClass is the class of req before its caller lowers it, and what gives it: "request", a place such as "classes[1]", or
// "method".
func (s *Set) ExplainClass(req *Request) (class Class, by string) {
	class, by = s.ClassOf(req), "method"
	if req.Class != ClassUnset {
		by = "request"
	} else if s.classifier != nil {
		if at := s.classifier.of(req); at >= 0 {
			by = "classes[" + strconv.Itoa(at) + "]"
		}
	}
	return class, by
}

// explain looks at the parts of a rule one after the other.
func (r *Rule) explain(req *Request) Explanation {
	e := Explanation{Rule: r}
	if r.Mode == Off && !r.decides() {
		e.isOff()
		return e
	}
	if !r.Scope.explain(req, &e) {
		return e
	}
	key, status := r.AppendKey(nil, req)
	if status != KeyReady {
		e.Part, e.Want = "keyBy "+r.missingPart(req), "a value"
		e.Applies = status == KeyDeny
		return e
	}
	e.Key = r.ShowKey(string(key))
	compact := Compact(string(key))
	e.Version = r.For(compact)
	switch {
	case e.Version == nil:
		e.Part, e.Want, e.Got = "rollout", "the "+r.Rollout()+" % of keys that have the rule", "another key"
	case e.Version.Mode == Off:
		e.isOff()
	default:
		e.Applies, e.Quota = true, e.Version.Quota([]byte(compact))
	}
	return e
}

// isOff says that the rule is off.
func (e *Explanation) isOff() { e.Part, e.Want, e.Got = "mode", "enforce or shadow", Off.String() }

// explain looks at the parts of a scope; it is false, and e names the part, when one differs.
func (s *Scope) explain(req *Request, e *Explanation) bool {
	switch host := hostname(req.Host); {
	case !s.methods.has(req.Method, methodBit(req.Method)):
		e.Part, e.Want, e.Got = "methods", strings.Join(s.Methods, " or "), req.Method
	case len(s.Hosts) > 0 && !s.hasHost(host):
		e.Part, e.Want, e.Got = "hosts", strings.Join(s.Hosts, " or "), host
	case !s.hasPath(req.Path):
		e.Part, e.Want, e.Got = "paths", strings.Join(s.Paths, " or "), req.Path
	case !s.hasHeaders(req.Headers):
		s.explainHeader(req, e)
	case !s.hasDescriptors(req):
		s.explainDescriptor(req, e)
	case s.Domain != "" && s.Domain != req.Domain:
		e.Part, e.Want, e.Got = "domain", s.Domain, req.Domain
	case len(s.Entries) > 0 && !s.hasEntries(req.Entries):
		s.explainEntries(req, e)
	default:
		return true
	}
	return false
}

// hasPath says whether one of the scope's patterns agrees with a path.
func (s *Scope) hasPath(path string) bool {
	if len(s.patterns) == 0 {
		return true
	}
	clean, slash := cleanPath(path)
	return slices.ContainsFunc(s.patterns, func(p pattern) bool {
		return p.matches(clean, s.PathCase == CaseInsensitive) && s.slashAgrees(&p, slash)
	})
}

// explainHeader names the first header that differs.
func (s *Scope) explainHeader(req *Request, e *Explanation) {
	for _, h := range s.Headers {
		values := req.Headers[h.Name]
		if !slices.ContainsFunc(values, func(v string) bool { return slices.Contains(h.Values, v) }) {
			e.Part, e.Want, e.Got = "headers."+h.Name, strings.Join(h.Values, " or "), strings.Join(values, ", ")
			return
		}
	}
}

// explainDescriptor names the first descriptor that differs.
func (s *Scope) explainDescriptor(req *Request, e *Explanation) {
	for _, d := range s.Descriptors {
		if v, ok := req.Descriptor(d.Name); !ok || !slices.Contains(d.Values, v) {
			e.Part, e.Want, e.Got = "descriptors."+d.Name, strings.Join(d.Values, " or "), v
			return
		}
	}
}

// explainEntries shows both descriptors as a whole: which entry differs depends on where one begins to count.
func (s *Scope) explainEntries(req *Request, e *Explanation) {
	want, got := make([]string, len(s.Entries)), make([]string, len(req.Entries))
	for i := range s.Entries {
		want[i] = s.Entries[i].text()
	}
	for i := range req.Entries {
		got[i] = req.Entries[i].Key + "=" + req.Entries[i].Value
	}
	e.Part, e.Want, e.Got = "entries", strings.Join(want, ", "), strings.Join(got, ", ")
}

// missingPart names the first part of the key that the request lacks.
func (r *Rule) missingPart(req *Request) string {
	for _, part := range r.KeyBy {
		if _, status := r.appendPart(nil, req, part); status != KeyReady {
			return part.String()
		}
	}
	return ""
}

// ShowKey is a key of r as people may see it: a secret one as a hint, by which its owner can tell it from others.
func (r *Rule) ShowKey(key string) string {
	if !r.Secret || key == "" {
		return key
	}
	const hint = 4 // bytes: enough to tell keys apart, too few to find one that was drawn at random
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:hint]) + "…"
}
