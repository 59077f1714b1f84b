package rulespec

// beforeFields are the keys of before.
func beforeFields() []Field {
	return []Field{
		{Name: "limit", Value: whole("1", maxTokens).with(object{"minimum": 0}), Doc: "Instead of the rule's."},
		{
			Name: "window", Value: Value{Type: "span of time, or `1mo`", Low: "1ms", High: maxWindow, schema: object{"type": "string", "pattern": "^(" + spanPattern + "|1mo)$"}},
			Doc: "Instead of the rule's.",
		},
		{Name: "windowSec", Value: whole("1", "31622400"), Doc: "The window in seconds."},
		{Name: "timeZone", Value: pattern("name of the IANA database", "^[A-Z][A-Za-z0-9._/+-]*$"), Doc: "Of a window of a calendar; it does not come from the rule where `before` has a window."},
		{Name: "burst", Value: whole("1", maxBurst), Doc: "Instead of the rule's; left out beside a limit, it is that limit."},
		{Name: "block", Value: boolean(), Doc: "Instead of the rule's; left out beside a limit, it is false."},
		{Name: "mode", Value: words("enforce", "shadow", "off"), Doc: "Instead of the rule's."},
		{Name: "onUnavailable", Value: words("local", "allow", "deny"), Doc: "Instead of the rule's."},
		{Name: "fallback", Value: mapOf(fallbackFields()), Doc: "Instead of the rule's."},
		{Name: "lease", Value: mapOf(leaseFields()), Doc: "Instead of the rule's."},
		{Name: "slack", Value: whole("0", maxTokens), Doc: "Instead of the rule's."},
	}
}

// rolloutText is what the page says about rollouts.
const rolloutText = `
### Rollout

A changed limit can reach some callers first. ` + "`rollout: 10`" + ` gives the rule as written to a tenth of its keys, and ` + "`before`" + ` says
what the others keep; what ` + "`before`" + ` does not say is as in the rule.

` + "```yaml" + `
  - id: search-per-key
    keyBy: apikey
    limit: 80
    window: 1m
    rollout: 10
    before: {limit: 100}
` + "```" + `

Which keys are the first is a matter of the rule's id and the key alone, the same in every server and at every time: who had
the new version at 10 has it at 50. Another rule picks others. A key that moves from one version to the other keeps what it
has used, as with every change of a limit. So the versions can differ in limit, window, burst, mode and what servers do without a
coordinator, and not in scope, key, cost or algorithm. ` + "`before: {mode: off}`" + ` or no ` + "`before`" + ` tries a new rule on some keys;
` + "`leaseway check`" + ` says which version a key has.
`
