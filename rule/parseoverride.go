package rule

import (
	"net/netip"
	"time"

	"go.yaml.in/yaml/v3"
)

// overrides reads the negotiated limits of a rule, whose quota and key are known by now.
func (o *object) overrides(r *Rule) {
	r.own = r.plainQuota()
	if r.Before != nil {
		r.Before.own = r.Before.plainQuota()
	}
	v, ok := o.get("overrides")
	if !ok {
		return
	}
	if v.node.Kind != yaml.SequenceNode {
		v.fail("is "+kindOf(v.node)+" where a list is expected", "write [{key: acme, limit: 5000}]")
		return
	}
	items := v.list(maxMarks)
	if len(items) == 0 {
		return
	}
	r.Overrides = make(map[string]Override, len(items))
	r.quotas = make(map[string]Quota, len(items))
	if r.Before != nil {
		r.Before.Overrides, r.Before.quotas = r.Overrides, make(map[string]Quota, len(items))
	}
	for _, item := range items {
		item.override(r)
	}
}

// override reads one of them into the rule.
func (v value) override(r *Rule) {
	o, ok := v.object("key", limitKey, windowKey, "windowSec", burstKey, "lease")
	if !ok {
		return
	}
	// Everything is read before the first return, so that all errors come at once.
	text, key, ok := o.overrideKey(r)
	override := Override{Limit: o.limit(), Window: o.overrideWindow(r), Burst: o.burstOf(r.Algorithm)}
	if lease, ok := o.get("lease"); ok {
		override.LeaseTTL = lease.leaseTTL(0)
		if r.Algorithm == Concurrency {
			o.slotTTL(override.LeaseTTL)
		}
	}
	q := r.resolve(override)
	switch {
	case override == (Override{}):
		if len(o.entries) < 2 && len(v.node.Content) < 4 { // a key that is not known has been reported
			v.fail("changes nothing", "write a limit, a window, a burst or a lease")
		}
	case r.Block && (q.Limit == 0 || q.Window == 0) && (r.Algorithm != Concurrency || q.Limit == 0):
		v.fail("the rule has no limit and window that it could keep", "write both")
	default:
		o.countable(r.Algorithm, q)
	}
	if !ok {
		return
	}
	compact := Compact(string(key))
	if _, twice := r.quotas[compact]; twice {
		o.entries["key"].fail("the key "+quote(text)+" has an override already", "keep one of them")
		return
	}
	o.reviewOverride(r, q)
	r.Overrides[text] = override
	r.quotas[compact] = q
	if r.Before != nil {
		o.overrideBefore(r.Before, override, compact)
	}
}

// overrideWindow reads the window of an override; all keys of a rule share its calendar.
func (o *object) overrideWindow(r *Rule) time.Duration {
	if r.Algorithm == Concurrency {
		o.withoutTime(windowKey, "windowSec")
		return 0
	}
	if r.Calendar == CalendarNone {
		return o.window()
	}
	for _, name := range []string{windowKey, "windowSec"} {
		if v, ok := o.get(name); ok {
			v.fail("the windows of this rule are those of a calendar, the same for all keys", "leave it out, or write a rule of its own")
		}
	}
	return 0
}

// overrideKey reads the key of an override: its text as written, and the key that requests build.
func (o *object) overrideKey(r *Rule) (text string, key []byte, ok bool) {
	v, found := o.get("key")
	if !found {
		if o.lacks("key") {
			o.fail("has no key", "write key: and the value of keyBy that it is for")
		}
		return "", nil, false
	}
	var parts []string
	if v.node.Kind == yaml.SequenceNode {
		for _, item := range v.list(maxKeyParts) {
			part, ok := item.text(maxKeyText)
			if !ok {
				return "", nil, false
			}
			parts = append(parts, part)
		}
		text = joinKey(parts)
	} else if text, ok = v.text(maxKeyText); !ok {
		return "", nil, false
	} else if len(r.KeyBy) == 1 {
		parts = []string{text}
	} else {
		parts = splitKey(text)
	}
	switch {
	case len(r.KeyBy) == 1 && r.KeyBy[0].Kind == KeyGlobal:
		v.fail("a rule by global has one key, and no overrides", "change the rule's limit")
		return "", nil, false
	case len(parts) != len(r.KeyBy):
		v.fail(quote(text)+" does not have the parts of keyBy", "write them as a list: key: [one, two]")
		return "", nil, false
	}
	if len(parts) == 1 {
		text = parts[0]
	}
	key, bad, fix := r.keyOfParts(parts)
	if fix != "" {
		v.fail(quote(bad)+" is never a key of this rule", fix)
		return "", nil, false
	}
	return text, key, true
}

// canonicalPart gives the part that requests build for what an owner wrote.
func (r *Rule) canonicalPart(kind KeyKind, text string) (part, fix string) {
	if kind == KeyIP {
		return r.canonicalIP(text)
	}
	if kind == KeyEndpoint {
		// It is built from the method and the rule's own pattern, and never normalized.
		return text, ""
	}
	normal := string(r.Normalize.append(nil, text))
	return normal, whenNot(normal != "", "write a value that is not empty after normalize")
}

// canonicalIP reads an address, or the network of one. A wider network is refused: its members have keys of their own, and would
// not find it.
func (r *Rule) canonicalIP(text string) (part, fix string) {
	if network, err := netip.ParsePrefix(text); err == nil {
		whole := network.Bits() == network.Addr().BitLen()
		if !whole && (network.Addr().Is4() || network.Bits() != r.IPv6Prefix || network != network.Masked()) {
			return "", "write an IPv4 address, or an IPv6 network of the rule's ipv6Prefix"
		}
		text = network.Addr().String()
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return "", "write an address, such as 192.0.2.1 or 2001:db8::1"
	}
	return string(appendIP(nil, ip, r.IPv6Prefix)), ""
}
