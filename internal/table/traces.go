package table

import (
	"math"

	"github.com/leaseway/leaseway/internal/holder"
)

// traces are what a rule remembers of keys that rest, for as long as of idle ones or until they are
// denied no more: a trace is a tenth of an Entry, which it becomes again when a request comes.
//
//	request ─► Entry ── nothing is at stake, nobody asks ─► trace ── idle ─► nothing
//	             ▲                                            │
//	             └───────────────── request ──────────────────┘
//
// No key is in it: of two that have one hash of 64 bits each would go on from the other's demand, and no budget depends on that.
type traces struct {
	parts [keyParts]tracePart
}

const (
	restAfter  = 20_000  // µs without a request after which a key that nothing is at stake of rests
	sweepEvery = 500_000 // µs in which all traces are looked at once, a part at a time
)

// traced returns the part of the rule's traces that has hash, nil while there is none.
func (r *Rule) traced(hash uint64) *tracePart {
	if all := r.traces.Load(); all != nil {
		return &all.parts[hash>>partShift]
	}

	return nil
}

// traces hash keys as keys do, but for 0, which says that a slot is free.
func (r *Rule) traceHash(key string) uint64 { return max(1, r.keys.secret.seek(key).hash) }

// resume has an entry that is new go on from the trace of its key, if there is one; before anyone else sees it.
func (e *Entry) resume() {
	r := e.rule()
	hash := r.traceHash(e.key())

	p := r.traced(hash)
	if p == nil {
		return
	}

	if t, ok := p.take(hash); ok {
		r.table.forget(1)
		e.follow(&t)
	}
}

// look returns what is remembered of a key that rests.
func (r *Rule) look(key string) (t holder.Trace, ok bool) {
	hash := r.traceHash(key)
	if p := r.traced(hash); p != nil {
		return p.look(hash)
	}

	return t, false
}

// rests reports whether there is a trace of key.
func (r *Rule) rests(key string) bool {
	_, ok := r.look(key)

	return ok
}

// restored returns an entry as the trace of key has it, nil without one. The table does not get it.
func (r *Rule) restored(key string) *Entry {
	t, ok := r.look(key)
	if !ok {
		return nil
	}

	e := r.newEntry(key)
	e.follow(&t)

	return e
}

// follow takes in a trace.
func (e *Entry) follow(t *holder.Trace) {
	e.Resume(t)
	e.asks = uint16(t.Note)

	if ago := int64(t.Note >> noteShift); ago != wonNever {
		e.win(t.At - ago<<wonShift)
	}

	if l := e.limits.Load(); l.version == t.Terms.Version {
		e.limit(t.Terms)
	} else {
		e.Forgive() // what was denied under other limits: see refresh
	}

	e.stand(t.At)
}

// What a trace notes for the table: how often was asked in the lower half, above it when a take was last won before it, mostly just then.
const (
	noteShift = 16
	wonNever  = math.MaxUint16
)

// leaveTrace has the entry leave a trace, and reports whether it may leave the table, since nothing is at stake of it; under the lock.
func (e *Entry) leaveTrace(now int64) bool {
	t, ok := e.Trace(now)
	if !ok || e.leaving() {
		return false
	}

	won := int64(wonNever)
	if ago, ok := e.lastWon(t.At); ok {
		won = min(wonNever, ago>>wonShift)
	}

	t.Note = uint32(e.asks) | uint32(won)<<noteShift
	r := e.rule()
	usual := r.usual.Load()

	packed, ok := t.Pack(usual)
	if !ok {
		return false
	}

	if c, ok := packed.Common(r.terms.Load()); ok && c != usual {
		r.usual.Store(c)
	}

	if r.traces.Load() == nil {
		r.traces.CompareAndSwap(nil, &traces{})
	}

	hash := r.traceHash(e.key())
	more := r.traced(hash).put(&trace{hash: hash, Packed: packed})
	r.table.forget(-more)

	return true
}

// forget counts n traces that are gone.
func (t *Table) forget(n int64) {
	t.keys.Add(-n)
	t.traces.Add(-n)
}

// sweep drops traces of idle keys, a part of each rule at a time. Where somebody else moves the clock, so that all must come about
// again alike, it is all of them: which part a key is in depends on chance.
func (t *Table) sweep(now int64) {
	switch due := t.sweeps(); {
	case due == math.MaxInt64:
		t.swept = now

		return
	case now < due:
		return
	}

	t.swept = now

	for _, r := range t.allRules() {
		all := r.traces.Load()
		if all == nil {
			continue
		}

		for i := range all.parts {
			if t.clock.moved() || i == t.sweeping {
				t.forget(all.parts[i].sweep(now, t.keys.Load() >= t.cfg.MaxKeys))
			}
		}
	}

	t.sweeping = (t.sweeping + 1) % keyParts
}

// sweeps returns when there is something to sweep next, never without traces.
func (t *Table) sweeps() int64 {
	switch {
	case t.traces.Load() == 0:
		return math.MaxInt64
	case t.clock.moved():
		return t.swept + sweepEvery
	default:
		return t.swept + sweepEvery/keyParts
	}
}
