package rulespec

import "maps"

// switchesFields are the keys of switches.
func switchesFields() []Field {
	return []Field{
		{Name: "all", Value: killSwitch(), Default: `"on"`, Doc: "For everything that Leaseway decides."},
		{Name: "limiters", Value: mapOf([]Field{
			{Name: "rate", Value: killSwitch(), Default: `"on"`, Doc: "Every rule but those of `concurrency`."},
			{Name: "concurrency", Value: killSwitch(), Default: `"on"`, Doc: "Every rule of `concurrency`."},
			{Name: "fleet", Value: killSwitch(), Default: `"on"`, Doc: "The fleet shedder."},
			{Name: "worker", Value: killSwitch(), Default: `"on"`, Doc: "The worker shedder."},
		}), Doc: "For all limiters of a kind."},
		{Name: "rules", Value: byRule(killSwitch()), Doc: "For single rules, by id: `rules: {search-per-key: off}`. The id of a rule that does not exist is an error."},
	}
}

// killSwitch is on or off, or a map that says more.
func killSwitch() Value {
	word := words("on", "off")
	word.schema = maps.Clone(word.schema)
	word.schema["enum"] = list{"on", "off", true, false} // to readers of YAML 1.1 a bare on is true
	return either(word, mapOf([]Field{
		{Name: "off", Required: true, Value: boolean(), Doc: "Whether it is off."},
		{
			Name: "until", Value: Value{Type: "moment, such as `2026-12-01T18:00:00Z`", schema: object{"type": "string", "format": "date-time"}},
			Doc: "When it is on again by itself. Each server goes by its own clock. Left out, it stays off until somebody changes the document.",
		},
		{Name: "reason", Value: text(4096), Doc: "For people."},
	}))
}

// byRule is a map of ids of rules.
func byRule(v Value) Value {
	return Value{Type: "map of ids to " + v.Type, schema: object{"type": "object", "additionalProperties": v.schema}}
}

// switchesText is what the page says about kill switches.
const switchesText = `
### Kill switches

What is switched off decides nothing: requests pass as if the rule were not there, and are charged nothing. It is for the
moment in which a limit does harm, and takes effect in every server that follows the rules within a second.

` + "```yaml" + `
switches:
  rules:
    search-per-key: off
    login: {off: true, until: 2026-12-01T18:00:00Z, reason: "support case 17"}
  limiters: {worker: off}
  all: on
` + "```" + `

` + "`leaseway check`" + ` says of a rule that it is switched off, until when and why; ` + "`leaseway_switched_off`" + ` and
` + "`leaseway_switched_off_requests_total`" + ` show it in the metrics. A single process can be started with switches of its own,
whatever its rules say: ` + "`leaseway serve --kill rule:login,limiter:worker`, or `LEASEWAY_KILL=all`" + `.
`
