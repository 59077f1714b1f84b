package rule

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// switches reads the kill switches; the rules are known by now.
func (v value) switches(rules []*Rule) (s Switches) {
	o, ok := v.object("all", "limiters", "rules")
	if !ok {
		return s
	}
	if all, ok := o.get("all"); ok {
		s.All = all.killSwitch()
	}
	if kinds, ok := o.get("limiters"); ok {
		if k, ok := kinds.object(limiterWords()...); ok {
			for i, kind := range limiterWords() {
				if one, ok := k.get(kind); ok {
					s.Limiters[i] = one.killSwitch()
				}
			}
		}
	}
	if ids, ok := o.get("rules"); ok {
		s.Rules = ids.ruleSwitches(rules)
	}
	return s
}

// ruleSwitches reads the switches of rules. One for a rule that does not exist is a slip, made in a hurry, and must not pass.
func (v value) ruleSwitches(rules []*Rule) map[string]Switch {
	if v.node.Kind != yaml.MappingNode {
		v.fail("is "+kindOf(v.node)+" where a map is expected", "write ID: off, with the id of a rule of this document")
		return nil
	}
	ids := make(map[string]bool, len(rules))
	for _, r := range rules {
		ids[r.ID] = true
	}
	var switches map[string]Switch
	slips := 0
	o, _ := v.object()
	for id, one := range o.entries {
		s := one.killSwitch()
		switch {
		case !ids[id]:
			fix := "write the id of a rule of this document"
			slips++
			if slips <= few {
				fix = similarRule(id, rules, fix)
			}
			one.fail("there is no rule "+quote(id), fix)
		case s.Off:
			if switches == nil {
				switches = make(map[string]Switch)
			}
			switches[id] = s
		}
	}
	return switches
}

// few is how many ids that no rule has are compared with how many that there are: a document could be all slips.
const few = 100

// similarRule is the fix for an id that no rule has; fix if none is like it.
func similarRule(id string, rules []*Rule, fix string) string {
	ids := make([]string, 0, few)
	for _, r := range rules[:min(len(rules), few)] {
		ids = append(ids, r.ID)
	}
	if similar := suggest(id, ids); !strings.HasPrefix(similar, "known: ") {
		return similar
	}
	return fix
}

// killSwitch reads on or off, or a map with more about it. What is on is the zero Switch, whatever else is said.
func (v value) killSwitch() (s Switch) {
	if v.node.Kind != yaml.MappingNode {
		s.Off = v.choice([]string{"on", "off"}) == 1
		return s
	}
	o, ok := v.object("off", "until", "reason")
	if !ok {
		return s
	}
	if off, ok := o.get("off"); ok {
		s.Off = off.boolean()
	} else if !o.has("off") {
		o.fail("does not say that it is off", "write off: true")
	}
	if until, ok := o.get("until"); ok {
		s.Until = until.moment()
	}
	if reason, ok := o.get("reason"); ok {
		s.Reason, _ = reason.text(maxDescription)
	}
	if !s.Off {
		return Switch{}
	}
	return s
}

// moment reads a date with a time and a zone, to the second.
func (v value) moment() time.Time {
	text, ok := v.text(maxName)
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 9999 || t.Nanosecond() != 0 {
		v.fail(quote(text)+" is no moment", "write one such as 2026-12-01T18:00:00Z or 2026-12-01T18:00:00+01:00")
		return time.Time{}
	}
	return t.UTC()
}
