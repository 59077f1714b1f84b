package coordinator

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// rollouts counts how the keys fare that a rollout has reached, of holders that
// do not count their requests themselves: of an older release. They refuse from
// memory, and all that shows here is what their keys ask. A key over its limit
// asks about once a second, since its refusals are not remembered for longer; one
// that is not asks about as often, for its next lease. So the share of asks that
// found nothing is about that of the seconds in which a key was refused.
type rollouts struct {
	rules *xsync.Map[string, *rolledOut]
}

// rolledOut counts under one version of a rule.
type rolledOut struct {
	version        uint64
	asked, refused atomic.Int64
}

// count notes the answer to an ask under t.
func (r *rollouts) count(t *ruleTerms, ask *ledger.Ask, answer *ledger.Answer) {
	if len(ask.Takes)+len(ask.Needs) == 0 && ask.RaiseTo == 0 {
		return // it asks for nothing
	}

	c, ok := r.rules.Load(t.rule.ID)
	if !ok || c.version != t.rule.Version {
		c = &rolledOut{version: t.rule.Version}
		r.rules.Store(t.rule.ID, c)
	}

	c.asked.Add(1)

	if answer.Taken == 0 && answer.Short && answer.Granted-answer.Spent <= 0 {
		c.refused.Add(1)
	}
}

// Asked says how the asks of holders that send no tallies fared under the present
// rollouts, as tallies of asks instead of requests, ordered by rule. Versions are those that holders know.
func (c *Coordinator) Asked() (list []ledger.Tally) {
	edition := c.book.now()

	c.rollouts.rules.Range(func(id string, r *rolledOut) bool {
		if t := edition.rules[id]; t == nil || t.rule.Withheld == 0 || t.rule.Version != r.version {
			c.rollouts.rules.Delete(id)
		} else {
			refused := r.refused.Load()
			list = append(list, ledger.Tally{Rule: id, Version: r.version, Allowed: max(0, r.asked.Load()-refused), Refused: refused})
		}

		return true
	})

	slices.SortFunc(list, func(a, b ledger.Tally) int { return strings.Compare(a.Rule, b.Rule) })

	return list
}

// reached returns the terms under which an ask is made if a rollout of its rule has reached its key; nil otherwise.
func (e *edition) reached(id, key string) *ruleTerms {
	t := e.rules[id]
	if t == nil || t.rule.Withheld == 0 || t.rule.For(rule.LiveKey(key)) != t.rule {
		return nil
	}

	return t
}

// fit returns the tallies of the present rollouts, with texts that outlive the batch; nil for none. What a holder invents stays
// in its own tallies, and within bounds that can be added up; how much it may weigh is for whoever adds them up to say.
func (e *edition) fit(tallies []ledger.Tally) (fit []ledger.Tally) {
	for _, n := range tallies {
		if t := e.rules[n.Rule]; t != nil && t.rule.Withheld != 0 && t.rule.Version == n.Version && tokens(n.Allowed, n.Refused) {
			n.Rule = t.rule.ID
			fit = append(fit, n)
		}
	}

	return fit
}

// counts reports whether the holder of a batch counts its requests itself.
func (p *presence) counts(batch *ledger.Batch) bool {
	if len(batch.Tallies) > 0 {
		return true
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	return p.seen[batch.Holder].counts
}
