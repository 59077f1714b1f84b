package leaseway

import (
	"context"
	"time"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// party is the requests of one DecideTogether.
type party struct {
	limiter   *Limiter
	reqs      []Request
	decisions []Decision
	members   []*scratch  // of each request; nil for one that only looks, or is refused before any rule is asked
	hits      []table.Hit // of all members, each budget once
	of        [][]int     // a member's hits, by index
	refused   bool
	until     int64 // what waits for a coordinator does until then, µs on the table's clock
}

// DecideEach decides several requests, one after the other, each by itself. However many they are it waits twice as long as Decide
// at most; those that come after that have what their rules say for an outage, unless they can be decided from memory. It appends
// a decision for each to decisions, and never fails.
func (l *Limiter) DecideEach(ctx context.Context, reqs []Request, decisions []Decision) []Decision {
	now, deadline := l.table.Now(), l.table.Until()
	until := deadline + deadline - now

	for i := range reqs {
		decisions = append(decisions, l.decideBy(ctx, &reqs[i], until))
	}

	return decisions
}

// decideBy is Decide, and waits until then at most, µs on the table's clock.
func (l *Limiter) decideBy(ctx context.Context, req *Request, until int64) (d Decision) {
	l.decideInto(ctx, req, until, &d)

	return d
}

// DecideTogether decides several requests of which all pass or none: what one of them is refused, the others are not charged.
// It appends a decision for each to decisions. When one is refused, the decision of another that is Allowed says what it would
// have been, and was charged nothing. Several requests for one budget take the sum of their costs. It waits as Decide does, once
// for all, and never fails.
func (l *Limiter) DecideTogether(ctx context.Context, reqs []Request, decisions []Decision) []Decision {
	from := len(decisions)
	if len(reqs) == 1 {
		return append(decisions, l.Decide(ctx, reqs[0]))
	}

	for range reqs {
		decisions = append(decisions, Decision{})
	}

	p := party{limiter: l, reqs: reqs, decisions: decisions[from:]}
	if !p.decide(ctx) {
		for i := range reqs { // each by itself turns the bug into an outage of the rules that it concerns
			p.decisions[i] = l.Decide(ctx, reqs[i])
		}
	}

	return decisions
}

// decide is false after a panic, when nothing is charged that anybody knows of.
func (p *party) decide(ctx context.Context) (decided bool) {
	defer func() { //nolint:contextcheck // what is given back is sent later, whoever gave it
		if cause := recover(); cause != nil {
			p.limiter.table.Mishaps().Note("deciding requests together", cause)
			p.leave()

			decided = false
		}
	}()

	p.members, p.of = make([]*scratch, len(p.reqs)), make([][]int, len(p.reqs))

	for i := range p.reqs {
		p.join(ctx, i)
	}

	for i, s := range p.members {
		if s != nil && !p.refused && !s.holds.take(ctx, p.limiter.table, false, &p.decisions[i]) {
			p.refused = true
		}
	}

	if !p.refused {
		p.take(ctx)
	}

	if p.refused {
		p.leave() //nolint:contextcheck // what is given back is sent later, whoever gave it
		p.look(ctx)
	} else {
		p.settle(ctx)
	}

	for _, s := range p.members {
		if s != nil {
			p.limiter.free(s)
		}
	}

	return true
}

// join finds the rules of a request. One that only looks, or that is refused whatever its budgets are, is decided with that.
func (p *party) join(ctx context.Context, i int) {
	l, req, d := p.limiter, &p.reqs[i], &p.decisions[i]
	if req.Peek || req.Cost < 0 || l.table.AllOff() {
		*d = l.Decide(ctx, *req)
		p.refused = p.refused || !d.Allowed

		return
	}

	s, _ := l.scratches.Get().(*scratch)
	s.req, s.class = *req, l.table.Set().ClassOf(req)
	p.members[i] = s

	if l.shedder.level.Load() != 0 && l.sheds(s, d) {
		p.refused = true

		return
	}

	if f := l.table.Fleet(); f.On() && req.Finishes && !l.enter(ctx, f, s, d) {
		p.refused = true

		return
	}

	var g glance

	if !req.Limit.Valid() {
		g.matches, g.rules = l.table.Match(req, nil)
	}

	l.match(s, &g)

	if s.refused.rule != nil {
		*d, p.refused = s.refused.decision(), true
		s.refused.counts.Bar(s.refused.rule)

		return
	}

	for h := range s.hits {
		p.of[i] = append(p.of[i], p.add(&s.hits[h]))
	}
}

// add adds a budget to be asked for, and returns its index among the hits. What is asked for already is asked for more.
func (p *party) add(hit *table.Hit) int {
	for i := range p.hits {
		if p.hits[i].Rule == hit.Rule && p.hits[i].Key == hit.Key {
			p.hits[i].Cost = min(p.hits[i].Cost+hit.Cost, rule.MaxCost)

			return i
		}
	}

	p.hits = append(p.hits, *hit)

	return len(p.hits) - 1
}

// take asks all budgets at once. They wait until one deadline.
func (p *party) take(ctx context.Context) {
	t := p.limiter.table
	p.until = t.Until()

	switch len(p.hits) {
	case 0:
	case 1:
		p.hits[0].Out.Until = p.until
		p.hits[0].Rule.Take(ctx, p.hits[0].Key, p.hits[0].Cost, &p.hits[0].Out)
		p.refused = p.hits[0].Out.Kind != table.Allowed
	default:
		for i := range p.hits {
			p.hits[i].Out.Until = p.until
		}

		p.refused = t.TakeAll(ctx, p.hits) >= 0
	}
}

// leave gives slots back.
func (p *party) leave() {
	for _, s := range p.members {
		if s != nil {
			s.holds.release()
		}
	}
}

// look says of each request what it would have been, where a rule did not say so itself. All that is looked at waits for a
// quarter of the deadline at most, in all, beyond what was waited for already.
func (p *party) look(ctx context.Context) {
	t := p.limiter.table
	now, deadline := t.Now(), t.Until()
	p.until = max(p.until, now+(deadline-now)/4)

	for i := range p.reqs {
		d := &p.decisions[i]
		if p.members[i] == nil || d.Reason != ReasonNone {
			continue
		}

		if worst := p.worst(p.of[i]); worst != nil {
			d.from(worst)
		} else {
			req := p.reqs[i]
			req.Peek = true
			*d = p.limiter.decideBy(ctx, &req, p.until)
		}

		d.Class = p.members[i].class.Lowered(p.reqs[i].LowerTo)
	}
}

// worst is the hit that refused for the longest; nil for none.
func (p *party) worst(hits []int) (worst *table.Hit) {
	for _, i := range hits {
		h := &p.hits[i]
		if h.Out.Kind != table.Allowed && (worst == nil || table.Longer(&h.Out, &worst.Out)) {
			worst = h
		}
	}

	return worst
}

// settle writes down what the requests, which all pass, were charged. A budget that several share is charged to the first.
func (p *party) settle(ctx context.Context) {
	charged := make([]bool, len(p.hits))

	for i, s := range p.members {
		if s == nil {
			continue
		}

		d := &p.decisions[i]
		*d = Decision{Allowed: true}

		var tight *table.Hit

		for _, h := range p.of[i] {
			if hit := &p.hits[h]; tight == nil || scarcer(&hit.Out, &tight.Out) {
				tight = hit
			}
		}

		if tight != nil {
			d.from(tight)
		}

		for _, h := range p.of[i] {
			d.Delay = max(d.Delay, time.Duration(p.hits[h].Out.Delay)*time.Microsecond)

			if !charged[h] {
				charged[h] = true
				d.charge(&p.hits[h])
			}
		}

		s.holds.settle(d) //nolint:contextcheck // what is given back is sent later, whoever gave it
		d.Class, d.ShadowShed = s.class.Lowered(s.req.LowerTo), s.shed
		p.limiter.shadow(ctx, s, d)
	}
}
