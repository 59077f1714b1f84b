package coordinator

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// rollouts counts how the keys fare that a rollout has reached. A key over its
// limit asks about once a second, since its refusals are not remembered for
// longer; one that is not asks about as often, for its next lease. So the share of
// asks that found nothing is about that of the seconds in which a key was refused,
// and no single caller can make it large.
type rollouts struct {
	rules *xsync.Map[string, *rolledOut]
}

type rolledOut struct{ asked, refused atomic.Int64 }

// count notes the answer to an ask under t.
func (r *rollouts) count(t *ruleTerms, ask *ledger.Ask, answer *ledger.Answer) {
	if t.rule.Withheld == 0 || len(ask.Takes)+len(ask.Needs) == 0 && ask.RaiseTo == 0 {
		return // it asks for nothing, or every key has the rule
	}

	c, ok := r.rules.Load(t.rule.ID)
	if !ok {
		c, _ = r.rules.LoadOrStore(t.rule.ID, &rolledOut{})
	}

	c.asked.Add(1)

	if answer.Taken == 0 && answer.Short && answer.Granted-answer.Spent <= 0 {
		c.refused.Add(1)
	}
}

// Rollout returns, since the start, how many asks this coordinator answered of
// keys that a rollout of the rule had reached, and how many of them found nothing left.
func (c *Coordinator) Rollout(ruleID string) (asked, refused int64) {
	if r, ok := c.rollouts.rules.Load(ruleID); ok {
		return r.asked.Load(), r.refused.Load()
	}

	return 0, 0
}

// reached returns the terms under which an ask is made if a rollout of its rule has reached its key; nil otherwise.
func (e *edition) reached(id, key string) *ruleTerms {
	t := e.rules[id]
	if t == nil || t.rule.Withheld == 0 || t.rule.For(rule.LiveKey(key)) != t.rule {
		return nil
	}

	return t
}
