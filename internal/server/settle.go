package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
)

// settle makes one of each holder that several coordinators heard, leaves out those that were not heard of for a while, and
// orders them by name. A holder that went over from one coordinator to another is known to the first by its past: the latest
// word of it counts, and of what it counts itself, which only grows, the most.
func (g *gathered) settle(now time.Time) {
	g.instances = slices.DeleteFunc(g.instances, func(one coordinator.Instance) bool { return now.Sub(one.Seen) > seenFor })

	slices.SortFunc(g.instances, func(a, b coordinator.Instance) int {
		return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), b.Seen.Compare(a.Seen)) // the latest first
	})

	kept := g.instances[:0]

	for _, one := range g.instances {
		if last := len(kept) - 1; last >= 0 && kept[last].Incarnation == one.Incarnation {
			kept[last].Tallies = most(kept[last].Tallies, one.Tallies)
		} else {
			kept = append(kept, one)
		}
	}

	g.instances = kept

	slices.SortFunc(g.instances, func(a, b coordinator.Instance) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Incarnation, b.Incarnation))
	})
}

// most joins two reports of one holder.
func most(a, b []ledger.Tally) []ledger.Tally {
	joined := slices.Clone(a)

	for _, one := range b {
		i := slices.IndexFunc(joined, func(n ledger.Tally) bool { return n.Rule == one.Rule && n.Version == one.Version })

		switch {
		case i < 0:
			joined = append(joined, one)
		case fared{}.plus(joined[i].Allowed, joined[i].Refused).requests < fared{}.plus(one.Allowed, one.Refused).requests:
			joined[i] = one
		}
	}

	return joined
}
