package leaseway

import (
	"context"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// glance is what the first look at a request found out. All that it needs is on
// the stack: a request for which it is enough, as it is for most, leaves nothing
// to clean up, and writes no pointer that the garbage collector has to hear of.
type glance struct {
	class   rule.Class
	decided bool
	whole   bool // it met no bug
	tried   int  // of the matches, whose rules were asked
	matches []rule.Match
	rules   []*table.Rule // those that the matches count in
	until   int64         // what is decided with it waits no longer, µs on the table's clock; 0 is the deadline from then
}

// decideInto is DecideInto for a decision that is blank. It looks at req first, and decides it at once if it is subject
// to no rule, or to one alone that counts tokens and can say from memory, or to two of which memory has the whole buckets.
// Otherwise it waits until then at most, µs on the table's clock; 0 is the deadline from then.
func (l *Limiter) decideInto(ctx context.Context, req *Request, until int64, d *Decision) {
	if req.Cost < 0 {
		d.Reason = ReasonInvalid

		return
	}

	var (
		few [4]rule.Match
		g   glance
	)

	defer func() {
		if !g.whole { // to ask for a panic costs as much as taking the token
			l.glimpsed(recover(), req, &g, d)
		}
	}()

	if l.off(req, d) {
		g.whole = true

		return
	}

	l.at(stageMatch)

	g.class = l.table.Set().ClassOf(req)

	if !req.Limit.Valid() { // which no rule matches
		g.matches, g.rules = l.table.Match(req, few[:0])
		g.decide(l, req, d)
	}

	g.whole = true

	if g.decided {
		return
	}

	if until != 0 {
		g.until = min(until, l.table.Until())
	}

	l.decide(ctx, req, &g, d)
}

// off lets req pass if a kill switch has all of them pass.
func (l *Limiter) off(req *Request, d *Decision) bool {
	l.at(stageSwitch)

	if l.table.AllOff() {
		*d = Decision{Allowed: true, Class: l.table.Set().ClassOf(req).Lowered(req.LowerTo)}

		return true
	}

	return false
}

// decide decides req by the rules that it matched, if that can be.
func (g *glance) decide(l *Limiter, req *Request, d *Decision) {
	if l.shedder.level.Load() != 0 || req.Finishes && l.table.Fleet().On() || req.Peek || g.class == rule.ClassTest {
		return
	}

	switch len(g.matches) {
	case 0:
		d.Allowed, g.decided = true, true
	case 1:
		m := &g.matches[0]

		switch r := g.rules[m.Index]; {
		case m.Rule.Block:
		case m.Rule.Mode == rule.Enforce && r.Plain():
			g.tried = 1

			l.at(stageQuick)

			g.decided = d.quick(r, m.Rule, req)
		case m.Rule.Mode == rule.Shadow && r.PlainShadow():
			l.at(stageQuick)

			g.decided = l.quickShadow(r, m.Rule, req, d)
		}
	case 2:
		if g.enforced(0) && g.enforced(1) {
			g.tried = 2

			l.at(stageQuick)

			g.decided = d.quickBoth(g, req)
		}
	}

	d.Class = g.class.Lowered(req.LowerTo)
}

// enforced reports whether a match is of a rule that is enforced for every key, and counts tokens.
func (g *glance) enforced(i int) bool {
	m := &g.matches[i]

	return !m.Rule.Block && m.Rule.Mode == rule.Enforce && g.rules[m.Index].Plain()
}

// quickBoth decides req under both rules that it matched, from memory, if that can be: what one took goes back if the other refuses.
func (d *Decision) quickBoth(g *glance, req *Request) bool {
	var outs [2]table.Outcome

	if !g.takeLent(0, req, &outs[0]) {
		return false
	}

	d.charges.first = outs[0].Charge // so that it is given back if what follows has a bug
	decided := g.takeLent(1, req, &outs[1])
	passed := [2]bool{outs[0].Kind == table.Allowed, decided && outs[1].Kind == table.Allowed}
	says := 0 // which rule the decision speaks of

	switch {
	case passed[0] && passed[1]:
		d.charges.second = outs[1].Charge

		if scarcer(&outs[1], &outs[0]) {
			says = 1
		}
	case !decided:
		d.charges.first = table.Charge{}
		g.untake(0, req, &outs[0])

		return false
	case passed[0]:
		d.charges.first = table.Charge{}
		g.untake(0, req, &outs[0])

		says = 1
	case passed[1]:
		g.untake(1, req, &outs[1])
	case table.Longer(&outs[1], &outs[0]):
		says = 1
	}

	d.fill(g.rules[g.matches[says].Index].ID(), &outs[says])

	return true
}

// takeLent decides req under the rule of a match if its bucket is here, whole, and reports whether it did.
func (g *glance) takeLent(match int, req *Request, out *table.Outcome) bool {
	var room [64]byte // for most keys

	m := &g.matches[match]
	key, ready := keyOf(m.Rule, req, room[:0])

	return ready && g.rules[m.Index].TakeLent(key, m.Rule.CostOf(req), out)
}

// untake undoes takeLent.
func (g *glance) untake(match int, req *Request, out *table.Outcome) {
	m := &g.matches[match]
	g.rules[m.Index].Untake(m.Rule.CostOf(req), out)
}

// keyOf returns the key that req spends under def, in room if it has to be made and fits. ready is false if there is none.
func keyOf(def *rule.Rule, req *Request, room []byte) (key string, ready bool) {
	if key, ready = def.Verbatim(req); ready {
		return key, true
	}

	made, status := def.AppendKey(room, req)

	return text(made), status == rule.KeyReady
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
	if key, ready := def.Verbatim(req); ready {
		return d.quickKey(r, key, def.CostOf(req))
	}

	var room [64]byte // for most keys

	key, status := def.AppendKey(room[:0], req)

	return status == rule.KeyReady && d.quickKey(r, text(key), def.CostOf(req))
}

// quickKey is quick for cost tokens of key.
func (d *Decision) quickKey(r *table.Rule, key string, cost int64) bool {
	told, charge := r.Quick(key, cost)
	if told.None() {
		return false
	}

	d.told(told, charge)

	return true
}
