package rule

import (
	"math"
	"strings"
	"time"

	"github.com/leaseway/leaseway/internal/rate"
)

// The spans of time that rules may have, and what they have unless they say so.
const (
	minWindow     = time.Millisecond
	maxWindow     = 366 * 24 * time.Hour
	minLeaseTTL   = 10 * time.Millisecond
	maxLeaseTTL   = 10 * time.Minute
	usualLeaseTTL = 500 * time.Millisecond
	usualIPv6     = 64
)

// idBytes are what an id is made of: ids stand in URLs, metrics and keys of the store, and need no escape in any of them.
const idBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// modeKey is where a rule, a version before it and a shedder say whether they refuse.
const modeKey = "mode"

// Where a rule, a version before it, an override and a fallback say how much they admit.
const (
	limitKey  = "limit"
	windowKey = "window"
	burstKey  = "burst"
)

// ruleKeys are the keys of a rule, those of later versions included: these get a better answer than "not known".
func ruleKeys() []string {
	return []string{
		"id", "scope", "keyBy", "algorithm", limitKey, windowKey, "windowSec", burstKey, "cost", "mode", "rollout", "onUnavailable",
		"fallback", "slack", "lease", "missing", "normalize", "overrides", "block", "timeZone", "ipv6Prefix", "pathCase",
		"trailingSlash", "secret", "description", "afterLoss", "version",
		"before", "queue",
	}
}

// rule reads one rule; nil when it is no map. A rule with errors comes back too, so that its id can be compared.
func (v value) rule() *Rule {
	o, ok := v.object(ruleKeys()...)
	if !ok {
		return nil
	}
	r := &Rule{IPv6Prefix: usualIPv6, Cost: Cost{Tokens: 1}, Version: o.version()}
	o.id(r)
	if d, ok := o.get("description"); ok {
		r.Description, _ = d.text(maxDescription)
	}
	o.scope(&r.Scope)
	o.switches(r)
	o.outage(r)
	o.budget(r)
	o.key(r)
	o.before(r)
	// Last: an override stands on the rule's quota, key and normalize.
	o.overrides(r)
	o.review(r)
	return r
}

// id reads the rule's identity.
func (o *object) id(r *Rule) {
	v, ok := o.get("id")
	if !ok {
		if o.lacks("id") {
			o.fail("has no id", "write id: and a name that stays the same when the rule changes")
		}
		return
	}
	id, ok := v.text(math.MaxInt)
	if !ok {
		return
	}
	if !isID(id) {
		v.fail(quote(id)+" is no id", "an id is 1 to 64 letters, digits, dots, underscores or hyphens")
		return
	}
	r.ID = id
}

// switches reads the settings that are one word or one number.
func (o *object) switches(r *Rule) {
	r.Algorithm = Algorithm(o.choice("algorithm", algorithmWords()))
	r.LeaseTTL = r.usualTTL()
	r.Mode = Mode(o.choice(modeKey, modeWords()))
	r.OnUnavailable = OnUnavailable(o.choice("onUnavailable", onUnavailableWords()))
	r.Missing = Missing(o.choice("missing", missingWords()))
	r.AfterLoss = AfterLoss(o.choice("afterLoss", afterLossWords()))
	r.Block = o.boolean("block")
	r.Secret = o.boolean("secret")
	if v, ok := o.get("ipv6Prefix"); ok {
		n, _ := v.integer(1, 128)
		r.IPv6Prefix = int(n)
	}
	if v, ok := o.get("slack"); ok {
		r.Slack, _ = v.integer(0, rate.MaxLimit)
	}
	r.Withheld = o.withheld()
}

// choice reads one of the words, by its place; the first is the default.
func (o *object) choice(name string, words []string) int {
	if v, ok := o.get(name); ok {
		return v.choice(words)
	}
	return 0
}

// boolean reads true or false; false is the default.
func (o *object) boolean(name string) bool {
	if v, ok := o.get(name); ok {
		return v.boolean()
	}
	return false
}

// outage reads the lease TTL and what holds when no lease can be had.
func (o *object) outage(r *Rule) {
	if v, ok := o.get("lease"); ok {
		r.LeaseTTL = v.leaseTTL(r.LeaseTTL)
	}
	v, ok := o.get("fallback")
	if !ok {
		return
	}
	f, ok := v.object(limitKey, windowKey, "windowSec", burstKey)
	if !ok {
		return
	}
	if r.OnUnavailable != Local {
		v.fail("is never used with onUnavailable: "+r.OnUnavailable.String(), "write onUnavailable: local, or leave the fallback out")
	}
	q := &Quota{Limit: f.limit(), Window: f.window()}
	if q.Burst = f.burst(); q.Burst == 0 {
		q.Burst = q.Limit
	}
	f.requireRate()
	// Whatever the rule's algorithm: what an instance decides alone with is a token bucket.
	f.countable(TokenBucket, *q)
	r.Fallback = q
}

// leaseTTL reads lease: {ttl: 500ms}.
func (v value) leaseTTL(usual time.Duration) time.Duration {
	o, ok := v.object("ttl")
	if !ok {
		return usual
	}
	if ttl, ok := o.get("ttl"); ok {
		return ttl.duration(minLeaseTTL, maxLeaseTTL)
	}
	return usual
}

// cost reads a number of tokens, or header:NAME.
func (v value) cost() Cost {
	if name, found := strings.CutPrefix(v.node.Value, "header:"); found {
		return Cost{Tokens: 1, Header: v.headerName(name)}
	}
	n, ok := v.integer(1, MaxCost)
	if !ok {
		n = 1
	}
	return Cost{Tokens: n}
}
