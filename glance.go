package leaseway

import (
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// glance is what the first look at a request found out. All that it needs is on
// the stack: a request for which it is enough, as it is for most, leaves nothing
// to clean up, and writes no pointer that the garbage collector has to hear of.
type glance struct {
	class   rule.Class
	matches []rule.Match
	rules   []*table.Rule // those that the matches count in
	decided bool
	until   int64 // what is decided with it waits no longer, µs on the table's clock; 0 is the deadline from then
}

// glance looks at req, and decides it if it is subject to no rule, or to one
// alone that counts tokens and can say from memory. It reuses buf's memory.
func (l *Limiter) glance(req *Request, buf []rule.Match, d *Decision) (g glance) {
	var asked *table.Rule // which is not in g: what is in there stays on the stack

	defer l.glimpsed(req, &g, &asked, d)

	l.at(stageSwitch)

	if l.table.AllOff() {
		*d = Decision{Allowed: true, Class: l.table.Set().ClassOf(req).Lowered(req.LowerTo)}
		g.decided = true

		return g
	}

	l.at(stageMatch)

	g.class = l.table.Set().ClassOf(req)

	if req.Limit.Valid() {
		return g // which no rule matches
	}

	g.matches, g.rules = l.table.Match(req, buf)

	if l.shedder.level.Load() != 0 || req.Finishes && l.table.Fleet().On() || req.Peek || g.class == rule.ClassTest {
		return g
	}

	switch len(g.matches) {
	case 0:
		d.Allowed, g.decided = true, true
	case 1:
		m := &g.matches[0]

		switch r := g.rules[m.Index]; {
		case m.Rule.Block:
		case m.Rule.Mode == rule.Enforce && r.Plain():
			asked = r

			l.at(stageQuick)

			g.decided = d.quick(r, m.Rule, req)
		case m.Rule.Mode == rule.Shadow && r.PlainShadow():
			l.at(stageQuick)

			g.decided = l.quickShadow(r, m.Rule, req, d)
		}
	}

	d.Class = g.class.Lowered(req.LowerTo)

	return g
}

// quickShadow is quick under a rule that only watches.
func (l *Limiter) quickShadow(r *table.Rule, def *rule.Rule, req *Request, d *Decision) bool {
	if !d.quick(r, def, req) {
		return false
	}

	if d.watched(r.ID()) {
		key, _ := def.AppendKey(nil, req)
		l.shadowed.note(watcher{rule: r.ID()}, text(key))
	}

	return true
}

// quick decides req under a rule, of which def is in force, from memory, if that can be.
func (d *Decision) quick(r *table.Rule, def *rule.Rule, req *Request) bool {
	key, ready := def.Verbatim(req)
	if !ready {
		var room [64]byte // for most keys

		made, status := def.AppendKey(room[:0], req)
		if status != rule.KeyReady {
			return false
		}

		key = text(made)
	}

	var out table.Outcome
	if !r.Quick(key, def.CostOf(req), &out) {
		return false
	}

	d.fill(r.ID(), &out)
	d.charges.first = out.Charge

	return true
}
