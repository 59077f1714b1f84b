package table

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// Rule is the table's side of one rule: its keys, across all versions of the rule.
type Rule struct {
	table   *Table
	id      string
	now     atomic.Pointer[rule.Rule]
	entries *xsync.Map[string, *Entry]
	spare   atomic.Pointer[Entry] // of all keys that found the table full, in an outage
	counts  ruleCounts
}

// ID returns the rule's id.
func (r *Rule) ID() string { return r.id }

// Current returns the rule as it is in force.
func (r *Rule) Current() *rule.Rule { return r.now.Load() }

// SetRules puts set in force, whole. An older version than the present one is refused.
func (t *Table) SetRules(set *rule.Set) error {
	t.mu.Lock()
	defer t.mu.Unlock()

	old := t.running.Load()
	if set.Version < old.set.Version {
		return fmt.Errorf("rules of version %d are older than %d, which is in force", set.Version, old.set.Version)
	}

	next := &running{set: set, rules: make([]*Rule, len(set.Rules))}
	rules := make(map[string]*Rule, len(set.Rules))

	for i, def := range set.Rules {
		r := t.rules[def.ID]
		if r == nil {
			r = &Rule{table: t, id: def.ID, entries: xsync.NewMap[string, *Entry]()}
		}

		r.now.Store(def)
		next.rules[i], rules[def.ID] = r, r
	}

	t.running.Store(next)

	for id, r := range t.rules {
		if rules[id] == nil {
			t.retire(r)
		}
	}

	t.rules = rules

	return nil
}

// Rule returns the rule with id, nil if there is none.
func (t *Table) Rule(id string) *Rule {
	t.mu.Lock()
	defer t.mu.Unlock()

	return t.rules[id]
}

// Match returns the rules in force and what req matches of them.
func (t *Table) Match(req *rule.Request, buf []rule.Match) ([]rule.Match, []*Rule) {
	now := t.running.Load()

	return now.set.Match(req, buf), now.rules
}

// retire gives back the leases of a rule that is gone.
func (t *Table) retire(r *Rule) {
	r.entries.Range(func(_ string, e *Entry) bool {
		e.mu.Lock()
		e.leaving = true
		holds := e.Holds()
		e.mu.Unlock()

		if holds {
			t.enqueue(e, false)
		}

		return true
	})
}

// view is what an answer says about the key besides yes or no.
type view struct {
	version uint64 // of the rule it was made from
	burst   int64
	quota   int64
	window  time.Duration
	avail   int64 // the store's, when it last answered
	full    int64 // when the bucket is full, on the holder's clock
}

// quotaView returns the view of a key that no answer was heard about.
func quotaView(def *rule.Rule, key string) (view, rate.Bucket, int64) {
	q := def.Quota([]byte(key))
	v := view{version: def.Version, burst: q.Burst, quota: q.Limit, window: q.Window, avail: q.Burst}

	// A rule that was saved has a bucket; a blocked one has none and is never asked about.
	b, err := rate.NewBucket(q.Limit, q.Window.Microseconds(), q.Burst)
	if err != nil {
		b = rate.Bucket{}
	}

	return v, b, q.LeaseTTL.Microseconds()
}
