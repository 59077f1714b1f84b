package table

import (
	"math"

	"github.com/leaseway/leaseway/rule"
)

// SwitchedOff reports whether a kill switch has the rule decide nothing now.
// It is asked for every request, and costs one load while the rule is on.
func (r *Rule) SwitchedOff() bool {
	end := r.off.Load()

	return end != 0 && r.offUntil(end)
}

// PassOff counts a request that passed the rule because it is switched off.
func (r *Rule) PassOff() { r.counts.off.Add(1) }

// AllOff reports whether a kill switch has everything pass now, and counts the
// request if it does.
func (t *Table) AllOff() bool {
	end := t.off.Load()
	if end == 0 {
		return false
	}

	if t.clock.Wall() >= end {
		t.off.CompareAndSwap(end, 0)

		return false
	}

	t.counts.off.Add(1)

	return true
}

// offUntil looks whether the switch is still off, by this process's own clock.
func (r *Rule) offUntil(end int64) bool {
	if r.table.clock.Wall() < end {
		return true
	}

	r.off.CompareAndSwap(end, 0)
	r.note()

	return false
}

// switchOff has the rule decide nothing until end, µs since the Unix epoch; 0 switches it on.
func (r *Rule) switchOff(end int64) {
	r.off.Store(end)
	r.note()
}

// note brings up to date whether the rule is plain: one at a time, so that the last one has seen everything.
func (r *Rule) note() {
	r.noting.Lock()
	defer r.noting.Unlock()

	def := r.now.Load()
	plain := r.off.Load() == 0 && def.Withheld == 0 && def.Algorithm != rule.Concurrency
	r.plain.Store(plain && def.Mode == rule.Enforce)
	r.shade.Store(plain && def.Mode == rule.Shadow)
}

// Plain reports whether the rule is on, is enforced for every key, and counts tokens:
// then Quick may be asked at once. It costs one load where three would say it.
func (r *Rule) Plain() bool { return r.plain.Load() }

// PlainShadow is Plain of a rule that is in shadow mode for every key.
func (r *Rule) PlainShadow() bool { return r.shade.Load() }

// until returns when a switch is on again, µs since the Unix epoch; 0 for one that is on.
func until(s rule.Switch) int64 {
	switch {
	case !s.Off:
		return 0
	case s.Until.IsZero():
		return math.MaxInt64
	default:
		return max(1, s.Until.UnixMicro())
	}
}

// Switches returns the kill switches in force, this process's own among them,
// those that have ended included.
func (t *Table) Switches() *rule.Switches { return &t.running.Load().switches }

// Now returns the time on the table's clock, µs.
func (t *Table) Now() int64 { return t.clock.Now() }

// Wall returns the time of day, µs since the Unix epoch.
func (t *Table) Wall() int64 { return t.clock.Wall() }

// TickWall returns the time of day by the coarse clock, as decisions from memory
// go by it, µs since the Unix epoch.
func (t *Table) TickWall() int64 { return t.clock.TickWall() }
