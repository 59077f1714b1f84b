package leaseway

import (
	"context"
	"time"
	"unsafe"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// scratch is what one Decide needs besides its stack.
type scratch struct {
	req     rule.Request
	matches []rule.Match
	keys    []byte
	ends    []int
	hits    []table.Hit
	shadows []table.Hit
	refused refusal
	barred  []refusal // what rules that only watch would have refused like that
	class   rule.Class
	holds   holds
	shed    Reason // by which a shedder that only watches would have refused
	keyed   bool   // hits and holds are those of all rules that matched
}

// refusal is what a rule refuses before any budget is looked at.
type refusal struct {
	rule   *rule.Rule
	counts *table.Rule // counts it
	key    string      // only of rules that watch
	reason Reason
}

func newScratch() any {
	return &scratch{matches: make([]rule.Match, 0, 8), keys: make([]byte, 0, 256)}
}

// Decide finds the rules that req is subject to and decides it. All of them must
// agree: a request that one refuses is charged to none. It waits for a
// coordinator only for a key that it does not know well, at most the deadline
// (20 ms), and for a slot as long as a concurrency rule's queue says. It never fails.
func (l *Limiter) Decide(ctx context.Context, req Request) (d Decision) {
	l.decideInto(ctx, &req, 0, &d)

	return d
}

// DecideInto is Decide for those who have the memory for both: it writes the
// decision over *d, and only reads *req. Nothing is copied on the way, which
// takes a seventh of a decision's time.
func (l *Limiter) DecideInto(ctx context.Context, req *Request, d *Decision) {
	*d = Decision{}
	l.decideInto(ctx, req, 0, d)
}

// decide decides a request for which a glance was not enough.
func (l *Limiter) decide(ctx context.Context, req *Request, g *glance, d *Decision) {
	s, _ := l.scratches.Get().(*scratch)
	s.req, s.class, s.holds.until = *req, g.class, g.until

	defer l.recovered(s, g, d)

	if l.shedder.level.Load() != 0 && l.sheds(s, d) {
		l.free(s)

		return
	}

	if f := l.table.Fleet(); f.On() && req.Finishes && !l.enter(ctx, f, s, d) {
		l.free(s)

		return
	}

	l.match(s, g)
	l.at(stageSlots)

	// First, since it may wait in a rule's queue; then the deadline of the others begins anew.
	held := s.refused.rule != nil || s.holds.take(ctx, l.table, s.req.Peek, d)

	l.together(s)
	l.at(stageRate)

	switch {
	case s.refused.rule != nil:
		*d = s.refused.decision()

		if !req.Peek {
			s.refused.counts.Bar(s.refused.rule)
		}
	case !held:
	case len(s.hits) == 0:
		*d = Decision{Allowed: true}
	case req.Peek:
		l.peek(ctx, s, d)
	case len(s.hits) == 1:
		h := &s.hits[0]
		h.Rule.Take(ctx, h.Key, h.Cost, &h.Out)
		d.from(h)
		d.charge(h)
	default:
		l.decideAll(ctx, s, d)
	}

	l.at(stageRated)
	s.holds.settle(d)

	d.Class, d.ShadowShed = s.class.Lowered(req.LowerTo), s.shed

	if d.Allowed {
		l.shadow(ctx, s, d)
	}

	l.free(s)
}

// match fills in s with the rules that the request must pass and those that only watch.
func (l *Limiter) match(s *scratch, g *glance) {
	l.at(stageKeys)

	if s.req.Limit.Valid() {
		s.bring(l.table.Own())

		return
	}

	rules := g.rules
	s.matches = append(s.matches[:0], g.matches...)

	// Keys first, and strings into them when the buffer moves no more.
	for i := range s.matches {
		from := len(s.keys)
		if s.addKey(&s.matches[i], rules) {
			s.ends = append(s.ends, len(s.keys))
		} else {
			s.keys = s.keys[:from]
			s.ends = append(s.ends, -1)
		}
	}

	start := 0

	for i, m := range s.matches {
		if s.ends[i] < 0 {
			continue
		}

		hit := table.Hit{Rule: rules[m.Index], Key: text(s.keys[start:s.ends[i]]), Cost: m.Rule.CostOf(&s.req)}
		start = s.ends[i]

		if s.class == rule.ClassTest {
			hit.Rule = hit.Rule.Test()
		}

		if m.Rule.Algorithm == rule.Concurrency {
			s.holds.add(&hit, s.class.Lowered(s.req.LowerTo), m.Rule.Mode)

			continue
		}

		if m.Rule.Mode == rule.Shadow {
			s.shadows = append(s.shadows, hit)
		} else {
			s.hits = append(s.hits, hit)
		}
	}

	s.keyed = true
}

// addKey adds the key that the request spends under a rule that matched, of which
// m then has the version that the key has. It reports false if no budget is to be asked.
func (s *scratch) addKey(m *rule.Match, rules []*table.Rule) bool {
	r := rules[m.Index]
	if r.SwitchedOff() {
		if !s.req.Peek {
			r.PassOff()
		}

		return false
	}

	from := len(s.keys)

	var status rule.KeyStatus

	s.keys, status = m.Rule.AppendKey(s.keys, &s.req)

	if m.Rule.Withheld != 0 {
		m.Rule = m.Rule.For(rule.Compact(text(s.keys[from:])))
		if m.Rule == nil || m.Rule.Mode == rule.Off {
			return false // the rollout has not reached the key
		}
	}

	switch {
	case status == rule.KeySkip:
		return false
	case status == rule.KeyDeny:
		s.refuse(refusal{rule: m.Rule, counts: r, reason: ReasonMissingKey}, nil)

		return false
	case m.Rule.Block:
		s.refuse(refusal{rule: m.Rule, counts: r, reason: ReasonBlocked}, s.keys[from:])

		return false
	}

	return true
}

// together has all rules of a request wait until one deadline, if there are
// several, or it waits for something already.
func (l *Limiter) together(s *scratch) {
	until := s.holds.until
	if until == 0 {
		if len(s.hits)+len(s.shadows) < 2 {
			return
		}

		until = l.table.Until()
		s.holds.until = until
	}

	for i := range s.hits {
		s.hits[i].Out.Until = until
	}

	for i := range s.shadows {
		s.shadows[i].Out.Until = until
	}
}

// refuse notes the first rule that refuses outright, and all that only watch and would have.
func (s *scratch) refuse(by refusal, key []byte) {
	if s.class == rule.ClassTest {
		by.counts = by.counts.Test()
	}

	switch {
	case by.rule.Mode == rule.Shadow:
		by.key = string(key)
		s.barred = append(s.barred, by)
	case s.refused.rule == nil:
		s.refused = by
	}
}

func (r refusal) decision() Decision {
	return Decision{Reason: r.reason, Origin: OriginLease, Rule: r.rule.ID, Limit: r.rule.Burst, Quota: r.rule.Limit, Window: r.rule.Window}
}

// text views b as a string without copying; the table copies what it keeps.
func text(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // b is not changed while the string is in use
}

func (l *Limiter) decideAll(ctx context.Context, s *scratch, d *Decision) {
	if worst := l.table.TakeAll(ctx, s.hits); worst >= 0 {
		d.from(&s.hits[worst])

		return
	}

	tight := 0

	for i := range s.hits {
		if scarcer(&s.hits[i].Out, &s.hits[tight].Out) {
			tight = i
		}
	}

	d.from(&s.hits[tight])

	for i := range s.hits {
		d.charge(&s.hits[i])
		d.Delay = max(d.Delay, time.Duration(s.hits[i].Out.Delay)*time.Microsecond)
	}
}

// scarcer reports whether a has less left of its capacity than b.
func scarcer(a, b *table.Outcome) bool {
	return float64(a.Remaining)*float64(b.Burst) < float64(b.Remaining)*float64(a.Burst)
}

func (l *Limiter) peek(ctx context.Context, s *scratch, d *Decision) {
	shown := 0

	for i := range s.hits {
		h := &s.hits[i]
		h.Rule.Peek(ctx, h.Key, &h.Out)

		switch a, b := &h.Out, &s.hits[shown].Out; {
		case a.Kind != table.Allowed && (b.Kind == table.Allowed || table.Longer(a, b)),
			a.Kind == table.Allowed && b.Kind == table.Allowed && scarcer(a, b):
			shown = i
		}
	}

	d.from(&s.hits[shown])
}

// shadow lets the rules that only watch decide, each by itself. A bug among them
// changes nothing about the request.
func (l *Limiter) shadow(ctx context.Context, s *scratch, d *Decision) {
	defer l.survived("deciding what is in shadow")

	l.at(stageShadow)
	s.holds.watch(ctx, s.req.Peek, d)

	for i := range s.barred {
		l.bars(&s.barred[i], s.req.Peek, d)
	}

	for i := range s.holds.shadows {
		if h := &s.holds.shadows[i]; h.Out.Kind != table.Allowed && !s.req.Peek {
			l.shadowed.note(watcher{rule: h.Rule.ID()}, h.Key)
		}
	}

	for i := range s.shadows {
		h := &s.shadows[i]

		if s.req.Peek {
			h.Rule.Peek(ctx, h.Key, &h.Out)
		} else {
			h.Rule.Take(ctx, h.Key, h.Cost, &h.Out)
			d.charge(h)

			if h.Out.Kind != table.Allowed {
				l.shadowed.note(watcher{rule: h.Rule.ID()}, h.Key)
			}
		}

		if h.Out.Kind != table.Allowed && d.ShadowDenied == "" {
			d.ShadowDenied = h.Rule.ID()
		}
	}
}

// bars counts what a rule that only watches would have refused outright.
func (l *Limiter) bars(by *refusal, peek bool, d *Decision) {
	if !peek {
		by.counts.Bar(by.rule)
		l.shadowed.note(watcher{rule: by.rule.ID}, by.key)
	}

	if d.ShadowDenied == "" {
		d.ShadowDenied = by.rule.ID
	}
}

// free gives s back to the pool, without what it refers to.
func (l *Limiter) free(s *scratch) {
	clear(s.hits)
	clear(s.shadows)
	clear(s.matches)
	s.holds.reset()

	if cap(s.keys) > maxScratch {
		s.keys = make([]byte, 0, 256)
	}

	*s = scratch{
		matches: s.matches[:0], keys: s.keys[:0], ends: s.ends[:0],
		hits: s.hits[:0], shadows: s.shadows[:0], holds: s.holds,
	}
	l.scratches.Put(s)
}

// maxScratch is the largest key buffer that is kept between requests.
const maxScratch = 4096
