package rule

import (
	"slices"
	"strings"
)

// Warning is one thing in a document that is allowed, and hardly meant. Its fields are those of an Error.
type Warning Error

// String is "file:line:column: warning: field: message (fix)", then the line and a caret under the place.
func (w *Warning) String() string { return (*Error)(w).text("warning: ") }

// Review is Parse for people: it also says what is doubtful, in the order of the places. Warnings are about the text, not about
// the rules that came of it, which is why a Set does not keep them. A document with errors has none yet.
func Review(name string, src []byte) (*Set, []*Warning, error) {
	d := &decoder{file: name, src: src, reviewing: true}
	set, err := d.parse()
	if err != nil {
		return nil, nil, err
	}
	d.reviewSet(set)
	d.doubts.inOrder()
	warnings := make([]*Warning, len(d.doubts))
	for i, doubt := range d.doubts {
		warnings[i] = (*Warning)(doubt)
	}
	return set, warnings, nil
}

// doubt reports what is allowed and hardly meant, when that is asked for.
func (v value) doubt(message, fix string) {
	if d := v.d; d.reviewing && len(d.doubts) < maxErrors {
		e := &Error{File: d.file, Line: v.node.Line, Column: v.node.Column, Field: v.field, Message: message, Fix: fix}
		d.doubts = append(d.doubts, d.locate(e))
	}
}

// at is an entry that is there, else the whole, for a doubt about both.
func (o *object) at(name string) value {
	if v, ok := o.entries[name]; ok {
		return v
	}
	return o.value
}

// review looks at one rule, all of which has been read.
func (o *object) review(r *Rule) {
	if !o.d.reviewing {
		return
	}
	o.d.reviewed = append(o.d.reviewed, o.value)
	o.reviewReach(r)
	o.reviewRollout(r)
	o.reviewUnused(r)
	if !r.Block && r.Cost.Tokens > r.Burst {
		o.at("cost").doubt("one request costs more than the rule ever admits, so that every request is refused",
			"lower the cost, or raise the "+capacityName(r))
	}
	if r.Fallback != nil && r.Cost.Tokens > r.Fallback.Burst {
		o.at("fallback").doubt("one request costs more than the fallback ever admits, so that an outage refuses every request",
			"raise the fallback's burst")
	}
}

// reviewReach looks at rules that reach further than their owners may know.
func (o *object) reviewReach(r *Rule) {
	if o.has("scope") || r.Mode != Enforce {
		return
	}
	switch {
	case r.Block && r.alwaysBlocks():
		o.at("block").doubt("refuses every request of every caller", "write a scope, unless this is meant")
	case !r.Block && !o.has("keyBy"):
		o.doubt("has neither keyBy nor scope: all requests of all callers share one budget",
			"write keyBy: user, ip or apikey; or keyBy: global, if this is meant")
	}
}

// reviewUnused looks at settings that change nothing.
func (o *object) reviewUnused(r *Rule) {
	unused := func(name, why string) {
		if v, ok := o.entries[name]; ok {
			v.doubt(why, "leave it out")
		}
	}
	if r.Algorithm == SlidingLog || r.Algorithm == LeakyBucket {
		why := "changes nothing: a " + r.Algorithm.String() + " asks the coordinator for each request, and has no leases"
		unused("lease", why)
		unused("slack", why)
	}
	if r.Algorithm == FixedWindow || r.Algorithm == SlidingWindow {
		if r.Window > 0 && r.LeaseTTL > r.Window {
			unused("lease", "is longer than the window, with which each lease ends")
		}
	}
	if !r.keyHas(KeyIP) {
		unused("ipv6Prefix", "changes nothing: no address is part of the key")
	}
	if !r.keyHas(KeyUser, KeyAPIKey, KeyHeader, KeyDescriptor) {
		unused("normalize", "changes nothing: only users, API keys, headers and descriptors are normalized")
		if !r.keyHas(KeyIP) {
			unused("missing", "changes nothing: no part of the key can be missing")
		}
	}
}

// keyHas says whether the key has a part of one of the kinds.
func (r *Rule) keyHas(kinds ...KeyKind) bool {
	return slices.ContainsFunc(r.KeyBy, func(part KeyPart) bool { return slices.Contains(kinds, part.Kind) })
}

// capacityName is what the capacity of a rule is called in its document.
func capacityName(r *Rule) string {
	if r.Algorithm.HasBurst() {
		return burstKey
	}
	return limitKey
}

// reviewOverride looks at one override.
func (o *object) reviewOverride(r *Rule, q Quota) {
	own := r.own
	if q.Limit == own.Limit && q.Window == own.Window && q.Burst == own.Burst && q.LeaseTTL == own.LeaseTTL {
		o.doubt("is what the rule says for every key", "leave the override out")
	}
	if r.Cost.Tokens > q.Burst && r.Cost.Tokens <= own.Burst {
		o.doubt("one request costs more than this key is ever admitted, so that every request of it is refused",
			"raise the "+capacityName(r))
	}
}

// reviewPaths looks for paths that are not compared as they are written.
func (v value) reviewPaths(s *Scope) {
	if !v.d.reviewing || len(v.d.errs) > 0 {
		return
	}
	for i, item := range v.list(maxScopeItems) {
		p := &s.patterns[i]
		if countSegments(strings.TrimSuffix(p.text, "/**")) != len(p.segments) {
			item.doubt("is compared as "+p.clean()+": paths lose dots and doubled slashes before they are compared", "write "+p.clean())
		}
	}
}
