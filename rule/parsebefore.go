package rule

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/leaseway/leaseway/internal/rate"
)

// withheld reads the percentage of keys that a rule applies to, and gives the rest, in hundredths.
func (o *object) withheld() int {
	v, ok := o.get("rollout")
	if !ok {
		return 0
	}
	const fix = "write a number from 0 to 100, with two decimals at most"
	whole, part, _ := strings.Cut(v.node.Value, ".")
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	tag := v.node.ShortTag()
	switch {
	case strings.HasSuffix(v.node.Value, "%"):
		v.fail(kindOf(v.node)+" is no percentage", "leave out the sign: "+fix)
	case v.node.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" || whole == "" || !digits(whole) || !digits(part):
		v.fail(kindOf(v.node)+" is no percentage", fix)
	case len(part) > 2:
		v.fail(v.node.Value+" has more than two decimals", fix)
	case len(whole) > 1 && whole[0] == '0':
		v.fail(quote(v.node.Value)+" is no decimal number", fix)
	default:
		n, err := strconv.Atoi(whole + (part + "00")[:2])
		if err == nil && n <= allKeys {
			return allKeys - n
		}
		v.fail(v.node.Value+" is out of range", fix)
	}
	return 0
}

// beforeKeys are the keys of before.
func beforeKeys() []string {
	return []string{
		limitKey, windowKey, "windowSec", "timeZone", burstKey, "block", modeKey, "lease", "slack", "onUnavailable", "fallback",
	}
}

// before reads what the keys have that the rollout has not reached, all else of the rule being known.
func (o *object) before(r *Rule) {
	v, ok := o.get("before")
	if !ok {
		return
	}
	b, ok := v.versionObject()
	if !ok {
		return
	}
	old := *r
	old.Withheld = 0
	b.switchesOver(&old)
	b.budgetOver(&old)
	r.Before = &old
	if len(b.entries) == 0 && len(v.node.Content) == 0 {
		v.fail("changes nothing", "write what the other keys keep, such as limit: 100, or leave it out")
	}
}

// versionObject reads the map of another version, and refuses what two versions of a rule must share: they share their ledgers.
func (v value) versionObject() (object, bool) {
	known := beforeKeys()
	for i := 0; v.node.Kind == yaml.MappingNode && i < len(v.node.Content); i += 2 {
		key := v.node.Content[i]
		if contains(ruleKeys(), key.Value) && !contains(known, key.Value) {
			v.d.fail(key, v.field+"."+key.Value, "cannot be another one before: both versions of a rule have one "+key.Value,
				"leave it out, or write a rule of its own with another id")
			known = append(known, key.Value)
		}
	}
	return v.object(known...)
}

// switchesOver reads what a version says of mode, leases and outages over what r has.
func (o *object) switchesOver(r *Rule) {
	if v, ok := o.get(modeKey); ok {
		r.Mode = Mode(v.choice(modeWords()))
	}
	if v, ok := o.get("slack"); ok {
		r.Slack, _ = v.integer(0, rate.MaxLimit)
	}
	if v, ok := o.get("onUnavailable"); ok {
		if r.OnUnavailable = OnUnavailable(v.choice(onUnavailableWords())); r.OnUnavailable != Local {
			r.Fallback = nil
		}
	}
	o.outage(r)
}

// budgetOver reads what a version says of limit, window and burst over what r has.
func (o *object) budgetOver(r *Rule) {
	if v, ok := o.get("block"); ok {
		r.Block = v.boolean()
	} else if o.has(limitKey) {
		r.Block = false
	}
	inFlight := r.Algorithm == Concurrency
	if inFlight {
		o.withoutRate()
	} else if o.has(windowKey) || o.has("windowSec") || o.has("timeZone") {
		r.Calendar, r.TimeZone = CalendarNone, nil
		o.ruleWindow(r)
	}
	if r.Block {
		r.Limit, r.Burst = 0, 0
		o.blockedLimit()
		return
	}
	if o.has(limitKey) {
		r.Limit, r.Burst = o.limit(), 0
	}
	if burst := o.burstOf(r.Algorithm); burst != 0 {
		r.Burst = burst
	} else if r.Burst == 0 {
		r.Burst = r.Limit
	}
	if r.Limit == 0 && o.lacks(limitKey) {
		o.fail("has no limit, and the rule has none that it could keep", "write limit: and the tokens of one window")
	}
	if r.Window == 0 && !inFlight && o.lacks(windowKey) && o.lacks("windowSec") {
		o.fail("has no window, and the rule has none that it could keep", "write window: 1m, or another span")
	}
	o.countable(r.Algorithm, Quota{Limit: r.Limit, Window: r.Window, Burst: r.Burst})
}

// overrideBefore gives the version before the override that its rule has.
func (o *object) overrideBefore(b *Rule, override Override, compact string) {
	q := b.resolve(override)
	switch {
	case b.Block && (q.Limit == 0 || q.Window == 0):
		o.fail("the version before has no limit and window that it could keep", "write both")
	case b.Calendar != CalendarNone && override.Window != 0:
		o.at(windowKey).fail("the windows before are those of a calendar, the same for all keys",
			"leave it out, or write a rule of its own")
	default:
		o.countable(b.Algorithm, q)
	}
	b.quotas[compact] = q
}

// reviewRollout looks for rollouts that do nothing, or not what they seem to.
func (o *object) reviewRollout(r *Rule) {
	if v, ok := o.entries["before"]; ok && r.Withheld == 0 {
		v.doubt("is never used: the rollout is 100", "leave it out, or lower the rollout")
	}
	if v, ok := o.entries["rollout"]; ok && r.Withheld > 0 && r.Withheld < allKeys && r.KeyBy[0].Kind == KeyGlobal {
		v.doubt("is all or nothing here: a rule by global has one key", "write keyBy: user, ip or apikey, or try mode: shadow")
	}
}
