package leaseway

import (
	"context"
	"time"

	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// Done says that the request that d allowed is over, so that the next one may be
// in flight under its concurrency rules. Call it once for every decision that
// HoldsSlot, as with defer; more calls, with whichever copy of d, change
// nothing, and for any other decision it does nothing at all. A request that is
// never done occupies its slot for as long as this process lives: Stats tells
// how long the oldest has lasted.
func (l *Limiter) Done(d Decision) {
	slot := d.charges.slot()
	if slot.None() {
		return
	}

	l.twice("ending a request", func() {
		l.at(stageDone)
		slot.Release()
	})
}

// HoldsSlot reports whether the decision must be finished with Limiter.Done: it
// is allowed, and a concurrency rule counts it as in flight until then.
func (d *Decision) HoldsSlot() bool { return !d.charges.slot().None() }

// InFlight reports whether the decision speaks of a concurrency rule, whose
// limit is how many requests are in flight and not how many come in a time.
func (d *Decision) InFlight() bool { return d.Rule != "" && d.Window == 0 && d.Quota > 0 }

// SlotStats are how things stand with one concurrency rule in this process.
type SlotStats struct {
	Rule     string
	InFlight int64 // slots of requests in flight here
	Held     int64 // slots that this process has, those in flight included
	Queued   int64 // requests that wait for one
	// Longest is how long the oldest request in flight has lasted. If it only
	// grows, a decision is never finished with Done.
	Longest time.Duration
}

// holds are the concurrency rules that one request is subject to.
type holds struct {
	fleet   table.Slot      // of the fleet shedder
	hits    []table.SlotHit // that it must pass
	shadows []table.SlotHit // that only watch
	until   int64           // the deadline of all that a coordinator must be asked for, µs; 0 while none began
}

// add notes a concurrency rule.
func (hs *holds) add(hit *table.Hit, class rule.Class, mode rule.Mode) {
	h := table.SlotHit{Rule: hit.Rule, Key: hit.Key, Cost: hit.Cost, Class: class, Watch: mode == rule.Shadow}

	if h.Watch {
		hs.shadows = append(hs.shadows, h)
	} else {
		hs.hits = append(hs.hits, h)
	}
}

// take occupies a slot under each rule, or under none: then it reports false and d is the refusal.
func (hs *holds) take(ctx context.Context, t *table.Table, peek bool, d *Decision) bool {
	if len(hs.hits) == 0 {
		return true
	}

	if hs.until == 0 {
		hs.until = t.Until()
	}

	queues := false

	for i := range hs.hits {
		h := &hs.hits[i]
		h.Out.Until = hs.until
		queues = queues || h.Rule.Of(h.Key).Queue.Size > 0

		if peek {
			h.Peek(ctx)
		} else {
			h.Take(ctx)
		}

		if h.Out.Kind != table.Allowed {
			hs.release()
			d.fill(h.Rule.ID(), &h.Out)

			return false
		}
	}

	if queues { // to wait in a line is another thing than to wait for an answer
		hs.until = 0
	}

	return true
}

// enter has the fleet shedder decide the request first. It reports false if that
// refuses it, with d as the answer.
func (hs *holds) enter(ctx context.Context, f *table.Fleet, s *scratch, d *Decision) bool {
	class := s.class.Lowered(s.req.LowerTo)
	slot, verdict := f.Enter(ctx, class, s.req.Peek, hs.until)
	hs.fleet = slot

	switch verdict {
	case table.Shed:
		*d = Decision{Reason: ReasonShedFleet, Class: class, RetryAfter: shedLeast}

		return false
	case table.Watching:
		s.shed = ReasonShedFleet
	case table.Entered:
	}

	return true
}

// settle gives d, decided by all other rules, the slots it occupies, or gives
// them back if it was refused. It speaks of a concurrency rule where that has the least left.
func (hs *holds) settle(d *Decision) {
	if !d.Allowed {
		hs.release()

		return
	}

	d.charges.occupy(hs.fleet)
	hs.fleet = table.Slot{}

	for i := range hs.hits {
		h := &hs.hits[i]
		d.charges.occupy(h.Slot)

		left := float64(h.Out.Remaining) * float64(d.Limit)
		if h.Out.Origin != table.FromNone && (d.Rule == "" || left < float64(d.Remaining)*float64(h.Out.Burst)) {
			d.fill(h.Rule.ID(), &h.Out)
		}
	}
}

// watch has the rules that only watch count d, which is allowed.
func (hs *holds) watch(ctx context.Context, peek bool, d *Decision) {
	for i := range hs.shadows {
		h := &hs.shadows[i]
		h.Out.Until = hs.until

		if peek {
			h.Peek(ctx)
		} else {
			h.Take(ctx)
			d.charges.occupy(h.Slot)
		}

		if h.Out.Kind != table.Allowed && d.ShadowDenied == "" {
			d.ShadowDenied = h.Rule.ID()
		}
	}
}

// release gives back what was taken.
func (hs *holds) release() {
	hs.fleet.Release()
	hs.fleet = table.Slot{}

	for i := range hs.hits {
		hs.hits[i].Slot.Release()
		hs.hits[i].Slot = table.Slot{}
	}
}

// reset forgets everything, and keeps the memory.
func (hs *holds) reset() {
	hs.fleet, hs.until = table.Slot{}, 0
	clear(hs.hits)
	clear(hs.shadows)
	hs.hits, hs.shadows = hs.hits[:0], hs.shadows[:0]
}

// hold is TakeN under a concurrency rule.
func (r *Rule) hold(key string, cost int64) Decision {
	h := table.SlotHit{Rule: r.rule, Key: key, Cost: cost, Class: r.standing(), Watch: r.rule.Watches(key)}
	h.Take(context.Background())

	return r.held(&h)
}

// look is Peek under a concurrency rule.
func (r *Rule) look(key string) Decision {
	h := table.SlotHit{Rule: r.rule, Key: key, Cost: 1, Class: r.standing(), Watch: r.rule.Watches(key)}
	h.Peek(context.Background())

	return r.held(&h)
}

// standing is the class by which requests stand in a queue.
func (r *Rule) standing() rule.Class {
	if r.class == rule.ClassUnset {
		return rule.ClassWrite
	}

	return r.class
}

func (r *Rule) held(h *table.SlotHit) (d Decision) {
	if h.Out.Origin == table.FromNone {
		return Decision{Allowed: true} // the rule is not in force any more
	}

	d.fill(r.rule.ID(), &h.Out)
	d.charges.occupy(h.Slot)

	return d
}

// fleetStats are those of the fleet shedder; ok is false if the rules have none.
func (l *Limiter) fleetStats() (s ShedderStats, ok bool) {
	f := l.table.Fleet().Stats()
	if !f.On {
		return s, false
	}

	s = ShedderStats{
		Limiter: rule.LimiterFleet, Mode: f.Mode, Refused: f.Refused, Shadowed: f.Shadowed,
		Capacity: f.Capacity, InFlight: f.InFlight,
		Off: l.table.Switches().OfLimiter(rule.LimiterFleet).OffAt(time.UnixMicro(l.table.Wall())),
	}

	return s, true
}
