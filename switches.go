package leaseway

import (
	"maps"
	"slices"
	"time"

	"github.com/leaseway/leaseway/rule"
)

// RuleSwitch returns the kill switch by which the rule with id decides nothing
// now; the zero Switch, which is on, for a rule that decides or is not in force.
func (l *Limiter) RuleSwitch(id string) rule.Switch {
	r := l.table.Set().Rule(id)
	if r == nil {
		return rule.Switch{}
	}

	return l.thrown(l.table.Switches().OfRule(r))
}

// LimiterSwitch returns the kill switch by which all limiters of a kind decide
// nothing now; the zero Switch, which is on, if there is none.
func (l *Limiter) LimiterSwitch(kind rule.Limiter) rule.Switch {
	return l.thrown(l.table.Switches().OfLimiter(kind))
}

// thrown is s, or the zero Switch when its time is over.
func (l *Limiter) thrown(s rule.Switch) rule.Switch {
	if !s.OffAt(time.UnixMicro(l.table.Wall())) {
		return rule.Switch{}
	}

	return s
}

// idle warns of switches of this process that name no rule of the set: who
// mistypes one believes that a limit is off, and it is not.
func (l *Limiter) idle(set *rule.Set) {
	for _, id := range slices.Sorted(maps.Keys(l.options.switches.Rules)) {
		if set.Rule(id) == nil {
			l.options.logger.Warn("a switch of this process names no rule in force, and switches nothing off; correct its id",
				"rule", id, "version", set.Version)
		}
	}
}
