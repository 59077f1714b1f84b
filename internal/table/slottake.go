package table

import (
	"context"

	"github.com/leaseway/leaseway/rule"
)

// SlotHit is one concurrency rule that a request must pass, and the key whose slots it occupies there.
type SlotHit struct {
	Rule  *Rule
	Key   string
	Cost  int64 // slots, at least 1
	Class rule.Class
	Watch bool // the rule is a shadow: its queue is not waited in

	Out  Outcome
	Slot Slot // to be released once when the request is over; none if it was refused

	look bool
}

// retryFull is the wait that a refusal for want of a slot names: 1 s. Nobody
// knows when a request will end, and slots come and go faster than that.
const retryFull = 1_000_000

// Take decides the request under this rule alone, and waits for a slot no longer
// than for a coordinator's answer or as the rule's queue says.
func (h *SlotHit) Take(ctx context.Context) {
	t := h.Rule.table

	// Who is in line goes first.
	if k := h.Rule.slots.find(h.Key); k != nil && k.lined.Load() == 0 {
		if now := t.recent(); k.Take(now, h.Cost) {
			k.admit(h, FromLease, now)

			return
		}
	}

	h.slow(ctx)
}

// Peek says what Take would, and occupies nothing.
func (h *SlotHit) Peek(ctx context.Context) {
	h.look = true
	h.slow(ctx)
}

// recent returns the time by the coarse clock, once that is known to go.
func (t *Table) recent() int64 {
	if tick := t.clock.tick.Load(); tick != asleep && t.clock.used.Load() {
		return tick
	}

	return t.clock.Turn(t.clock.Now())
}

func (h *SlotHit) slow(ctx context.Context) {
	r, t := h.Rule, h.Rule.table

	if r.retired.Load() {
		h.Out = Outcome{}

		return
	}

	h.Out.Until = t.until(&h.Out)

	for {
		k := r.slotKey(h.Key)
		w, next := k.decide(t.clock.Now(), h)

		switch next {
		case retry:
			continue
		case refill:
			t.enqueueSlots(k, false)
		case wait:
			t.enqueueSlots(k, true)
		case done:
		}

		if w == nil {
			return
		}

		h.stay(ctx, k, w)

		return
	}
}

// stay waits in line until h is served, or the time is over. Nobody stays in
// line after a panic, such as of a context that is not ours.
func (h *SlotHit) stay(ctx context.Context, k *slotKey, w *berth) {
	decided := false

	defer func() {
		if !decided && k.unline(w) {
			w.hit.Slot.Release()
		}
	}()

	until := h.Out.Until
	if w.queued {
		until = k.rule.table.clock.Now() + k.rule.Of(h.Key).Queue.Wait.Microseconds()
	}

	if k.await(ctx, w, until) {
		h.Out, h.Slot = w.hit.Out, w.hit.Slot
	} else {
		k.giveUp(ctx, h, w)
	}

	decided = true
}

// decide answers from what is here if it can, and otherwise puts h in line.
func (k *slotKey) decide(now int64, h *SlotHit) (*berth, next) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if k.gone {
		return nil, retry
	}

	k.refresh()
	k.used = now
	k.Expire(now)
	k.rule.table.clock.Turn(now)

	switch n := k.limit.Load(); {
	case n == 0:
		k.refuse(h, Blocked, FromLease)

		return nil, done
	case h.Cost > n:
		k.refuse(h, CostExceeds, FromLease)

		return nil, done
	case h.look && k.Idle() >= h.Cost && now < k.Until():
		k.look(h)

		return nil, done
	case !h.look && len(k.line) == 0 && k.Take(now, h.Cost):
		k.admit(h, FromLease, now)

		return nil, done
	}

	down, probe := k.down(now, true)
	if !down && !k.full(now) {
		return k.join(h, k.mayQueue(h)), wait
	}

	after := done
	if probe {
		after = refill
	}

	if down && (len(k.line) == 0 || k.rule.versionOf(k.key).OnUnavailable != rule.Local) && k.withoutStore(now, h) {
		return nil, after
	}

	if k.mayQueue(h) {
		return k.join(h, true), after
	}

	k.turn(h, k.origin(down))

	return nil, after
}

// full reports whether the store is known to have no slot: all are here, or it
// has just said so; under the lock.
func (k *slotKey) full(now int64) bool {
	return now < k.fullTill || k.Until() != 0 && k.Slots() >= k.limit.Load()
}

// down reports whether no store can be asked for this key now, and whether this
// request, which may probe, should find out if that still holds; under the lock.
func (k *slotKey) down(now int64, may bool) (down, probe bool) {
	t := k.rule.table

	if k.stray {
		return true, false
	}

	if may {
		if down, probe = t.out.ask(now); down {
			return down, probe
		}
	} else if t.out.down(now) {
		return true, false
	}

	if at, ok := k.Asked(); ok && now-at > t.deadline {
		return true, false // a call is under way and late: nobody waits for it any more
	}

	return now < k.downTo, false
}

// withoutStore decides h as the rule says for an outage, and reports false when
// that is to wait in line, or to be refused; under the lock.
func (k *slotKey) withoutStore(now int64, h *SlotHit) bool {
	switch k.rule.versionOf(k.key).OnUnavailable {
	case rule.Allow:
		if !h.look {
			k.Force(h.Cost)
		}

		k.admit(h, FromOpen, now)
	case rule.Deny:
		k.refuse(h, Unavailable, FromClosed)
	case rule.Local:
		return !h.look && k.seatLocal(now, h)
	}

	return true
}

func (k *slotKey) origin(down bool) Origin {
	if down {
		return FromLocal
	}

	return FromLease
}

// giveUp decides for one that waited and heard nothing in time.
func (k *slotKey) giveUp(ctx context.Context, h *SlotHit, w *berth) {
	t := k.rule.table
	now := t.clock.Now()

	k.mu.Lock()
	defer k.mu.Unlock()

	down, _ := k.down(now, false)
	if !w.queued && ctx.Err() == nil {
		down = true // it waited for nothing but the answer, and none came

		t.counts.late.Add(1)
	}

	switch {
	case h.look:
		k.look(h)
	case ctx.Err() != nil:
		k.refuse(h, TooMany, FromLease) // nobody hears it
	case k.Take(now, h.Cost):
		k.admit(h, FromLease, now)
	case down && k.withoutStore(now, h):
	default:
		k.refuse(h, TooMany, k.origin(down))
	}
}

// admit fills in h for a request that is in flight now.
func (k *slotKey) admit(h *SlotHit, origin Origin, now int64) {
	k.say(&h.Out, Allowed, origin)
	h.Out.Remaining, h.Out.RetryAfter = k.remaining(), 0

	if !h.look {
		h.Slot = k.rule.table.desk.tickets.take(k, h.Cost, now)
		k.rule.count(k.key, &h.Out)
	}
}

// refuse fills in h for a request that is not to be in flight.
func (k *slotKey) refuse(h *SlotHit, kind Kind, origin Origin) {
	k.say(&h.Out, kind, origin)
	h.Out.Remaining, h.Out.RetryAfter = 0, 0

	if kind == TooMany || kind == Unavailable {
		h.Out.RetryAfter = retryFull
	}

	if kind == CostExceeds {
		h.Out.Remaining = k.remaining()
	}

	if !h.look {
		k.rule.count(k.key, &h.Out)
	}
}

// look fills in h with how things stand.
func (k *slotKey) look(h *SlotHit) {
	kind := Allowed
	if k.remaining() < h.Cost {
		kind = TooMany
	}

	k.say(&h.Out, kind, FromLease)
	h.Out.Remaining, h.Out.RetryAfter = k.remaining(), 0

	if kind == TooMany {
		h.Out.RetryAfter = retryFull
	}
}

func (k *slotKey) say(out *Outcome, kind Kind, origin Origin) {
	n := k.limit.Load()
	out.Kind, out.Origin = kind, origin
	out.Burst, out.Quota, out.Window, out.Reset = n, n, 0, 0
}

// release takes n slots out of flight.
func (k *slotKey) release(n int64) {
	k.Put(n)

	t := k.rule.table

	if k.lined.Load() > 0 {
		k.locked(func() { k.serve(t.clock.Now()) })
	}

	if k.eager.Load() && k.Idle() > 0 && !k.asking.Load() && !t.out.down(0) {
		t.enqueueSlots(k, false)
	}
}

// locked calls do under the key's lock, which comes back even if do panics: a
// bug must not stop all who come after it.
func (k *slotKey) locked(do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()

	do()
}
