package coordinator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

// Instance is a holder as its last ask described it.
type Instance struct {
	Name        string
	Incarnation uint64
	// Version is of the rules that it ran; 0 for none.
	Version uint64
	Seen    time.Time
	// Bare says that it was let in without a token.
	Bare bool
	// Tallies say how requests fare there under rollouts, as it told last; nil from one that does not count.
	Tallies []ledger.Tally
}

// Roster returns the holders that asked this coordinator within the last ten
// seconds, those with the oldest rules first and most of them; more is how many
// others there are. Holders that have nothing to ask say every few seconds that they live.
func (c *Coordinator) Roster(most int) (list []Instance, more int) {
	p := c.presence
	now := p.clock()

	p.mu.Lock()

	list = make([]Instance, 0, len(p.seen))

	for holder, last := range p.seen {
		if now.Sub(last.at) < presenceTTL {
			list = append(list, Instance{
				Name: last.name, Incarnation: holder, Version: last.version, Seen: last.at, Bare: last.bare, Tallies: last.tallies,
			})
		}
	}

	p.mu.Unlock()

	slices.SortFunc(list, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Incarnation, b.Incarnation))
	})

	if len(list) > most {
		list, more = list[:most], len(list)-most
	}

	return list, more
}

// Tend is Acquire for those who look after budgets, and whose incarnation is not counted as a holder that lives.
func (c *Coordinator) Tend(ctx context.Context, batch *ledger.Batch) (*ledger.Answers, error) {
	return c.answer(ctx, batch, false)
}
