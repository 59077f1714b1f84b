package table

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/slots"
	"github.com/leaseway/leaseway/rule"
)

// Fleet is the fleet shedder: slots of two keys that the whole fleet shares. Each
// request is in flight under all; one that is not critical must find a slot under
// rest first, of which there are fewer, so that critical ones always find room.
// These are counted and never refused.
type Fleet struct {
	all, rest *Rule
	mode      atomic.Int32
	on        atomic.Bool

	refused  [fleetClasses]atomic.Int64
	shadowed [fleetClasses]atomic.Int64
}

const fleetClasses = int(rule.ClassCritical) + 1

// Verdict is what the fleet shedder says to a request.
type Verdict uint8

// The verdicts.
const (
	Entered  Verdict = iota // it is in flight, or the shedder is not there
	Shed                    // it is refused
	Watching                // it would be, if the shedder were more than a shadow
)

// follow takes the shedder from a rule set.
func (f *Fleet) follow(t *Table, set *rule.Set) {
	all, rest := set.FleetRules()
	if all == nil {
		f.on.Store(false)
		f.all.retired.Store(true)
		f.rest.retired.Store(true)

		return
	}

	f.mode.Store(int32(set.Shedders.Fleet.Mode))

	for r, def := range map[*Rule]*rule.FleetRule{f.all: all, f.rest: rest} {
		r.follow(def.Rule)

		if def.Share > 0 {
			r.pin(t.cfg.Workers)
		} else {
			r.pin(0)
		}
	}

	f.on.Store(true)
}

// On reports whether there is a fleet shedder now.
func (f *Fleet) On() bool { return f.on.Load() }

// Enter has the shedder decide a request of a class, which waits until then at most,
// µs on the table's clock; 0 is the deadline from now. slot is to be released when
// the request is over, unless it was refused. With peek nothing is occupied or counted.
func (f *Fleet) Enter(ctx context.Context, class rule.Class, peek bool, until int64) (slot Slot, verdict Verdict) {
	t := f.all.table
	if off := t.Switches().OfLimiter(rule.LimiterFleet); off.Off && off.OffAt(time.UnixMicro(t.Wall())) {
		return Slot{}, Entered
	}

	all := SlotHit{Rule: f.all, Cost: 1, Class: class}
	if class == rule.ClassCritical {
		if !peek {
			all.Force()
		}

		return all.Slot, Entered
	}

	rest := SlotHit{Rule: f.rest, Cost: 1, Class: class}
	all.Out.Until, rest.Out.Until = until, until
	entered := false

	defer func() {
		if !entered { // refused, or a bug
			rest.Slot.Release()
			all.Slot.Release()
		}
	}()

	if peek {
		rest.Peek(ctx)
		all.Peek(ctx)
	} else {
		rest.Take(ctx)
	}

	if !peek && rest.Out.Kind == Allowed {
		all.Take(ctx)
	}

	if entered = rest.Out.Kind == Allowed && all.Out.Kind == Allowed; entered {
		return rest.Slot.Join(all.Slot), Entered
	}

	return Slot{}, f.count(class, peek)
}

func (f *Fleet) count(class rule.Class, peek bool) Verdict {
	counts, verdict := &f.refused, Shed
	if rule.Mode(f.mode.Load()) == rule.Shadow {
		counts, verdict = &f.shadowed, Watching
	}

	if !peek {
		counts[class].Add(1)
	}

	return verdict
}

// FleetStats are how things stand with the fleet shedder.
type FleetStats struct {
	On       bool
	Mode     rule.Mode
	Capacity int64 // of the fleet, as last heard; 0 while it is not known
	InFlight int64 // here, critical ones included
	Refused  [fleetClasses]int64
	Shadowed [fleetClasses]int64
}

// Stats returns the counts since the start, and the state now.
func (f *Fleet) Stats() (s FleetStats) {
	s.On, s.Mode = f.on.Load(), rule.Mode(f.mode.Load())

	f.all.slots.all(func(k *slotKey) {
		k.mu.Lock()
		defer k.mu.Unlock()

		s.InFlight += k.Busy()

		if n := k.limit.Load(); k.Known() && n < slots.Unlimited {
			s.Capacity = n
		}
	})

	for i := range s.Refused {
		s.Refused[i], s.Shadowed[i] = f.refused[i].Load(), f.shadowed[i].Load()
	}

	return s
}

// Force occupies the hit's slots whether there are any or not.
func (h *SlotHit) Force() {
	t := h.Rule.table

	k := h.Rule.slotKey(h.Key)
	for !h.force(k) {
		k = h.Rule.slotKey(h.Key) // it left the table
	}

	if k.Idle() < 0 && !k.asking.Load() && !t.out.down(0) {
		t.enqueueSlots(k, false) // more is in flight than is held: to be told
	}
}

// force is Force under the key's lock; it reports false if the key has left the table.
func (h *SlotHit) force(k *slotKey) bool {
	k.mu.Lock()
	defer k.mu.Unlock()

	if k.gone {
		return false
	}

	now := h.Rule.table.clock.Now()
	k.refresh()
	k.used = now
	k.Force(h.Cost)
	k.admit(h, FromLease, now)

	return true
}

// pin keeps the rule's one key, with what this process offers for its limit.
func (r *Rule) pin(offer int64) {
	if offer == 0 && r.slots.find("") == nil {
		return
	}

	k := r.slotKey("")

	k.mu.Lock()
	k.offer = offer
	k.mu.Unlock()

	r.table.desk.sooner(k, r.table.clock.Now())
}
