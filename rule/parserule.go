package rule

import (
	"errors"
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

// ruleKeys are the keys of a rule, those of later versions included: these get a better answer than "not known".
func ruleKeys() []string {
	return []string{
		"id", "scope", "keyBy", "algorithm", "limit", "window", "windowSec", "burst", "cost", "mode", "rollout", "onUnavailable",
		"fallback", "slack", "lease", "missing", "normalize", "overrides", "block", "timeZone", "ipv6Prefix", "pathCase",
		"trailingSlash", "secret", "description", "afterLoss", "version",
	}
}

// rule reads one rule; nil when it is no map. A rule with errors comes back too, so that its id can be compared.
func (v value) rule() *Rule {
	o, ok := v.object(ruleKeys()...)
	if !ok {
		return nil
	}
	r := &Rule{LeaseTTL: usualLeaseTTL, IPv6Prefix: usualIPv6, Cost: Cost{Tokens: 1}, Version: o.version()}
	o.id(r)
	if d, ok := o.get("description"); ok {
		r.Description, _ = d.text(maxDescription)
	}
	o.scope(r)
	o.switches(r)
	o.outage(r)
	o.budget(r)
	o.key(r)
	// Last: an override stands on the rule's quota, key and normalize.
	o.overrides(r)
	return r
}

// id reads the rule's identity.
func (o *object) id(r *Rule) {
	v, ok := o.get("id")
	if !ok {
		if !o.has("id") {
			o.fail("has no id", "write id: and a name that stays the same when the rule changes")
		}
		return
	}
	id, ok := v.text(math.MaxInt)
	if !ok {
		return
	}
	if len(id) > maxID || strings.Trim(id, idBytes) != "" {
		v.fail(quote(id)+" is no id", "an id is 1 to 64 letters, digits, dots, underscores or hyphens")
		return
	}
	r.ID = id
}

// switches reads the settings that are one word or one number.
func (o *object) switches(r *Rule) {
	r.Algorithm = Algorithm(o.algorithm())
	r.Mode = Mode(o.choice("mode", modeWords()))
	r.OnUnavailable = OnUnavailable(o.choice("onUnavailable", onUnavailableWords()))
	r.Missing = Missing(o.choice("missing", missingWords()))
	r.Block = o.boolean("block")
	r.Secret = o.boolean("secret")
	if v, ok := o.get("ipv6Prefix"); ok {
		n, _ := v.integer(1, 128)
		r.IPv6Prefix = int(n)
	}
	if v, ok := o.get("slack"); ok {
		r.Slack, _ = v.integer(0, rate.MaxLimit)
	}
	if v, ok := o.get("rollout"); ok {
		if n, ok := v.integer(0, 100); ok && n != 100 {
			v.fail("is not available in this version", "leave it out: the rule applies to all keys; mode: shadow tries it out")
		}
	}
	if v, ok := o.get("timeZone"); ok {
		v.fail("is for fixed windows only", "leave it out: a token bucket has no calendar")
	}
	if v, ok := o.get("afterLoss"); ok {
		v.fail("is not available in this version", "leave it out")
	}
}

// algorithm reads the one that this version has, and tells the coming ones from slips.
func (o *object) algorithm() int {
	v, ok := o.get("algorithm")
	if !ok {
		return int(TokenBucket)
	}
	for _, later := range []string{"fixed_window", "sliding_window", "sliding_log", "leaky_bucket", "concurrency"} {
		if v.node.Value == later {
			v.fail(later+" is not available in this version", "write token_bucket")
			return int(TokenBucket)
		}
	}
	return v.choice(algorithmWords())
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
		r.LeaseTTL = v.leaseTTL(usualLeaseTTL)
	}
	v, ok := o.get("fallback")
	if !ok {
		return
	}
	f, ok := v.object("limit", "window", "windowSec", "burst")
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
	f.countable(q.Limit, q.Window, q.Burst)
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

// budget reads limit, window, burst and cost.
func (o *object) budget(r *Rule) {
	if v, ok := o.get("cost"); ok {
		r.Cost = v.cost()
	}
	if r.Block {
		o.blocked(r)
		return
	}
	r.Limit, r.Window, r.Burst = o.limit(), o.window(), o.burst()
	if r.Burst == 0 {
		r.Burst = r.Limit
	}
	o.requireRate()
	o.countable(r.Limit, r.Window, r.Burst)
}

// blocked reads a rule that refuses everything: a limit beside that would be a contradiction.
func (o *object) blocked(r *Rule) {
	if v, ok := o.get("limit"); ok {
		if n, ok := v.integer(0, rate.MaxLimit); ok && n != 0 {
			v.fail("block: true refuses every request, so that the limit would mean nothing", "leave out limit or block")
		}
	}
	if v, ok := o.get("burst"); ok {
		v.fail("block: true refuses every request, so that the burst would mean nothing", "leave out burst or block")
	}
	r.Window = o.window()
}

// requireRate reports a limit or a window that is not set.
func (o *object) requireRate() {
	if !o.has("limit") {
		o.fail("has no limit", "write limit: and the tokens of one window")
	}
	if !o.has("window") && !o.has("windowSec") {
		o.fail("has no window", "write window: 1m, or another span")
	}
}

// limit reads a limit; 0 when there is none, or an error.
func (o *object) limit() int64 {
	v, ok := o.get("limit")
	if !ok {
		return 0
	}
	if v.node.Value == "0" {
		v.fail("0 would refuse every request", "write 1 or more; a rule that is to refuse everything says block: true and no limit")
		return 0
	}
	n, _ := v.integer(1, rate.MaxLimit)
	return n
}

// burst reads a burst; 0 when there is none, or an error.
func (o *object) burst() int64 {
	v, ok := o.get("burst")
	if !ok {
		return 0
	}
	n, ok := v.integer(math.MinInt64, math.MaxInt64)
	switch {
	case !ok:
	case n < 1:
		v.fail(v.node.Value+" leaves no room for a request", "write a whole number from 1 on, or leave it out: then it is the limit")
	default:
		return n
	}
	return 0
}

// window reads window or windowSec; 0 when there is neither, or an error.
func (o *object) window() time.Duration {
	v, text := o.get("window")
	sec, number := o.get("windowSec")
	switch {
	case text && number:
		sec.fail("says again what window says", "keep one of them")
	case text:
		return v.duration(minWindow, maxWindow)
	case number:
		n, _ := sec.integer(1, int64(maxWindow/time.Second))
		return time.Duration(n) * time.Second
	}
	return 0
}

// countable refuses a bucket that cannot be counted exactly. It has nothing to say while a part has an error of its own.
func (o *object) countable(limit int64, window time.Duration, burst int64) {
	if limit < 1 || window < minWindow || burst < 1 {
		return
	}
	_, err := rate.NewBucket(limit, window.Microseconds(), burst)
	if err == nil {
		return
	}
	// The error points at the last part that is there: burst, when it was written.
	at := o.value
	for _, name := range []string{"limit", "window", "windowSec", "burst"} {
		if v, ok := o.entries[name]; ok {
			at = v
		}
	}
	if errors.Is(err, rate.ErrSpan) {
		at.fail("the bucket is too large to be counted exactly: "+err.Error(),
			"lower burst, shorten the window, or choose a limit that divides the window better, such as a round one")
		return
	}
	at.fail(err.Error(), "choose another value")
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
