package leaseway

import (
	"context"
	"time"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// A bug of ours must not become an outage of the API: each entrance recovers, and so
// does each stage that a request can do without. What a request gets that met
// one:
//
//	kill switches, class, matching   served: nobody knows which rules it is subject to
//	worker and fleet shedder         decided by the rules, as if there were no shedder
//	keys, slots, rates               an outage of the rules that matched: onUnavailable of each
//	shadow                           what the other rules said
//	Done, Refund, Begin, End         nothing, it has been decided
//
// What earlier stages took is given back. All of it is counted, in Stats.Panics,
// and logged once a minute at most.

// stage is a place at which a test can make a bug.
type stage int

const (
	stageSwitch stage = iota // kill switches
	stageMatch               // class, rules that match
	stageQuick               // one rule, from memory
	stageWorker              // worker shedder
	stageFleet               // fleet shedder
	stageKeys                // keys of the rules that matched
	stageSlots               // concurrency
	stageRate                // rates
	stageRated               // after them: tokens and slots are taken
	stageShadow
	stageDone
	stageRefund
	stages
)

// at is where a test may make a bug; otherwise it is one look at a field.
func (l *Limiter) at(s stage) {
	if l.trip != nil {
		l.trip(s)
	}
}

// twice calls do, and once more if that meets a bug: for what gives back, which must not be left undone.
func (l *Limiter) twice(what string, do func()) {
	if bugs := l.table.Mishaps(); !bugs.Guard(what, do) {
		bugs.Guard(what, do)
	}
}

// survived is deferred where nothing is left to be done about a panic.
func (l *Limiter) survived(what string) {
	if p := recover(); p != nil {
		l.table.Mishaps().Note(what, p)
	}
}

// enter has the fleet shedder decide the request; if that meets a bug, as if it were not there.
func (l *Limiter) enter(ctx context.Context, f *table.Fleet, s *scratch, d *Decision) bool {
	refused := false

	l.table.Mishaps().Guard("deciding by the fleet shedder", func() {
		l.at(stageFleet)

		s.holds.until = l.table.Until()
		refused = !s.holds.enter(ctx, f, s, d)

		if s.shed == ReasonShedFleet {
			l.shadowed.shed(rule.LimiterFleet, &s.req)
		}
	})

	return !refused
}

// glimpsed turns p, a panic at a glance, into an outage of the rules that were asked, if matching came so far.
func (l *Limiter) glimpsed(p any, req *Request, g *glance, d *Decision) {
	if p == nil {
		return // the goroutine ends
	}

	bugs := l.table.Mishaps()
	bugs.Note("deciding a request", p)
	bugs.Guard("giving tokens back", func() { l.refund(d) })

	*d = Decision{Allowed: true, Class: g.class.Lowered(req.LowerTo)}

	var hits []table.Hit

	ready := true

	for i := range g.tried {
		m := &g.matches[i]
		hit := table.Hit{Rule: g.rules[m.Index]}

		ready = bugs.Guard("making a key", func() {
			key, status := m.Rule.AppendKey(nil, req)
			hit.Key, hit.Cost, ready = string(key), m.Rule.CostOf(req), ready && status == rule.KeyReady
		}) && ready

		hits = append(hits, hit)
	}

	l.withoutStore(d, hits, !ready)
}

// recovered turns a panic in decide into an outage of the rules that matched. It is deferred.
func (l *Limiter) recovered(s *scratch, g *glance, d *Decision) {
	p := recover()
	if p == nil {
		return
	}

	bugs := l.table.Mishaps()
	bugs.Note("deciding a request", p)

	bugs.Guard("giving slots back", func() {
		s.holds.release()
		d.charges.slot().Release()
	})
	bugs.Guard("giving tokens back", func() { l.refund(d) })

	*d = Decision{Allowed: true, Class: s.class.Lowered(s.req.LowerTo)}

	if len(s.holds.hits) > 0 {
		d.Origin = OriginOpen
	}

	if def := s.closed(g); def != nil {
		d.close(def)
	} else if s.keyed {
		l.withoutStore(d, s.hits, s.req.Peek)
	}
}

// closed is the first rule that refuses in an outage, of those that withoutStore cannot
// ask: all that matched if their keys are not known, else those about what is in flight. It is nil for none.
func (s *scratch) closed(g *glance) *rule.Rule {
	if !s.keyed {
		for i := range g.matches {
			if def := g.matches[i].Rule; def.Mode == rule.Enforce && def.OnUnavailable == rule.Deny {
				return def
			}
		}

		return nil
	}

	for i := range s.holds.hits {
		if def := s.holds.hits[i].Rule.Of(s.holds.hits[i].Key); def.OnUnavailable == rule.Deny {
			return def
		}
	}

	return nil
}

// close refuses for want of a rule that is closed in an outage.
func (d *Decision) close(def *rule.Rule) {
	*d = Decision{Class: d.Class, Reason: ReasonUnavailable, Origin: OriginClosed, Rule: def.ID, RetryAfter: time.Second}
}

// withoutStore decides a request by what its rules say for an outage. If that
// meets a bug as well, or nothing may be taken, only whether they refuse in an outage counts.
func (l *Limiter) withoutStore(d *Decision, hits []table.Hit, peek bool) {
	class, bugs := d.Class, l.table.Mishaps()

	for i := range hits {
		h := &hits[i]
		h.Out = table.Outcome{}

		whole := !peek && bugs.Guard("deciding without a coordinator", func() {
			h.Rule.TakeWithout(h.Key, max(1, h.Cost), &h.Out)
		})

		switch {
		case !whole:
			d.Origin = OriginOpen

			bugs.Guard("looking up a rule", func() {
				if def := h.Rule.Of(h.Key); def.OnUnavailable == rule.Deny {
					d.close(def)
				}
			})
		case h.Out.Kind == table.Allowed:
			d.from(h)
			d.charge(h)
		default:
			bugs.Guard("giving tokens back", func() { l.refund(d) })

			*d = Decision{Class: class}
			d.from(h)
		}

		if !d.Allowed {
			return
		}
	}
}
