package table

import (
	"context"
	"time"
)

// What follows is for overrides that change: their terms are not in the rules, so
// an entry cannot see that it has others now. Leases that live long are hastened, all of
// a rule, since their keys are not told: each asks with its next request. So that
// millions do not ask at once, half a second passes until all are reached.

const (
	// hastenStep is the time between two parts of a rule's keys.
	hastenStep = 500 * time.Millisecond / keyParts
	// briefFor is for how long nothing is leased for long after a change, µs: another coordinator,
	// which is asked, may hear of it later than the one that told.
	briefFor = 2_000_000
)

// Overridden says that overrides of rules may have changed: with the next requests the holder
// asks about what it has leased for long. No ids are all rules.
func (t *Table) Overridden(ids []string) {
	until := t.clock.Now() + briefFor

	for _, r := range t.called(ids) {
		r.brief.Store(until)
		r.hasty.Store(keyParts)
	}

	if !t.clock.virtual {
		signal(t.hasty)

		return
	}

	for t.hastenPart() { // in virtual time all at once
	}
}

// called returns the rules with these ids, and their test modes; all rules without ids.
func (t *Table) called(ids []string) (rules []*Rule) {
	if len(ids) == 0 {
		return t.allRules()
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	for _, id := range ids {
		if r := t.rules[id]; r != nil {
			r.each(func(r *Rule) { rules = append(rules, r) })
		}
	}

	return rules
}

// runHasten hastens the leases of rules that Overridden named, part by part, until ctx ends.
func (t *Table) runHasten(ctx context.Context) {
	step := time.NewTicker(hastenStep)
	defer step.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-t.hasty:
			step.Reset(hastenStep)
		case <-step.C:
			if !t.hastenPart() {
				step.Stop() // until somebody signals
			}
		}
	}
}

// hastenPart does one part of the keys of each rule that has some left, and reports
// whether any had. Parts go round, so that a rule which changes all the time is not always at its first ones. One at a time.
func (t *Table) hastenPart() (some bool) {
	part := int(t.hastening.Add(1) % keyParts)

	for _, r := range t.allRules() {
		left := r.hasty.Load()
		if left == 0 || !r.hasty.CompareAndSwap(left, left-1) { // it has just been named anew: the next time
			some = some || left > 0

			continue
		}

		some = true

		r.keys.of(part, func(n *name) {
			e := n.entry()

			e.mu.Lock()
			defer e.mu.Unlock()

			e.Hasten()
		})
	}

	return some
}
