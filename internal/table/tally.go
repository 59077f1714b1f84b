package table

import (
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// tally counts how requests fare whose keys have the version of a rule that a
// rollout brings, from when it came into force here. What judges the rollout is
// told now and then. A nil one counts nothing: of rules that every key has, and
// of versions that refuse nobody.
type tally struct {
	version          uint64
	allowed, refused atomic.Int64
}

// tallyEvery is the least time between two reports of the tallies, µs.
const tallyEvery = 1_000_000

// tallyOf returns the tally of a version, which may be the one that is in force.
func (r *Rule) tallyOf(def *rule.Rule) *tally {
	switch last := r.tally.Load(); {
	case def.Withheld == 0 || def.Mode != rule.Enforce || r.testing:
		return nil
	case last != nil && last.version == def.Version:
		return last
	default:
		return &tally{version: def.Version}
	}
}

// add counts n requests that came out so. What is decided while no coordinator answers says nothing of the rule.
func (t *tally) add(out *Outcome, n int64) {
	if t == nil || out.Origin != FromLease && out.Origin != FromStore {
		return
	}

	if out.Kind == Allowed {
		t.allowed.Add(n)
	} else {
		t.refused.Add(n)
	}
}

// fold counts what a lease did.
func (t *tally) fold(allowed, refused int64) {
	if t != nil && allowed|refused != 0 {
		t.allowed.Add(allowed)
		t.refused.Add(refused)
	}
}

// reached returns the tally of requests of a key under a version of the rule: that of its
// rollout, if the version is what the rollout brings.
func (r *Rule) reached(def *rule.Rule) *tally {
	if def.Withheld == 0 {
		return nil
	}

	if t := r.tally.Load(); t != nil && t.version == def.Version {
		return t
	}

	return nil
}

// tallies appends the present tallies to list, unless they were reported within the last second.
func (t *Table) tallies(list []ledger.Tally) []ledger.Tally {
	rolled := t.running.Load().rolled
	if len(rolled) == 0 {
		return list
	}

	now, last := t.clock.Now(), t.tallied.Load()
	if last != 0 && now-last < tallyEvery || !t.tallied.CompareAndSwap(last, max(1, now)) {
		return list
	}

	for _, r := range rolled {
		if n := r.tally.Load(); n != nil && len(list) < ledger.MaxTallies {
			list = append(list, ledger.Tally{Rule: r.id, Version: n.version, Allowed: n.allowed.Load(), Refused: n.refused.Load()})
		}
	}

	return list
}
