package table

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// Rule is the table's side of one rule: its keys, across all versions of the rule.
type Rule struct {
	table   *Table
	id      string
	now     atomic.Pointer[rule.Rule]
	own     atomic.Pointer[limits] // of its keys without an override
	before  atomic.Pointer[limits] // of those that its rollout has not reached; nil without a version before
	keys    keys
	traces  atomic.Pointer[traces] // of those that rest; nil until one does
	lent    keys                   // those whose buckets are here, whole
	lending [keyParts]lending
	plain   atomic.Bool                   // see Plain
	shade   atomic.Bool                   // see PlainShadow
	noting  sync.Mutex                    // one note of plain and shade at a time
	version atomic.Uint64                 // of now
	terms   atomic.Pointer[ledger.Terms]  // which most keys share
	usual   atomic.Pointer[holder.Common] // of its traces
	brief   atomic.Int64                  // until when nothing is leased for long, µs: see Overridden
	hasty   atomic.Int64                  // parts of its keys whose long leases are to be hastened yet
	spare   atomic.Pointer[Entry]         // of all keys that found the table full, in an outage
	retired atomic.Bool                   // no rule set in force has it
	off     atomic.Int64                  // until when it is switched off, µs since the Unix epoch; 0: it is on
	test    atomic.Pointer[Rule]          // the same rule's budgets for requests of class test
	testing bool                          // it is the other's test
	counts  ruleCounts
	tally   atomic.Pointer[tally] // of the keys that its rollout has reached; nil without one
	slots   slotKeys              // of a rule that bounds what is in flight
}

// ID returns the rule's id.
func (r *Rule) ID() string { return r.id }

// Of returns the version of the rule that a key has, or the one in force if the
// rule does not apply to the key.
func (r *Rule) Of(key string) *rule.Rule {
	now := r.now.Load()
	if now.Withheld == 0 {
		return now
	}

	return r.versionOf(rule.Compact(key))
}

// versionOf is Of for a compact key.
func (r *Rule) versionOf(key string) *rule.Rule {
	now := r.now.Load()

	return cmp.Or(now.For(key), now)
}

// Applies reports whether the rule, as it is in force, has anything to say about a key.
func (r *Rule) Applies(key string) bool {
	now := r.now.Load()
	if now.Withheld == 0 {
		return now.Mode != rule.Off
	}

	def := now.For(rule.Compact(key))

	return def != nil && def.Mode != rule.Off
}

// Watches reports whether the rule is in shadow mode for a key: it decides and counts, and must not be obeyed.
func (r *Rule) Watches(key string) bool { return r.Of(key).Mode == rule.Shadow }

// SetRules puts set in force, whole. An older version than the present one is refused.
func (t *Table) SetRules(set *rule.Set) error {
	t.mu.Lock()
	defer t.mu.Unlock()

	old := t.running.Load()
	if set.Version < old.set.Version {
		return fmt.Errorf("rules of version %d are older than %d, which is in force", set.Version, old.set.Version)
	}

	next := &running{set: set, rules: make([]*Rule, len(set.Rules)), switches: set.Switches.With(&t.cfg.Switches)}
	present := make(map[string]bool, len(set.Rules))

	for i, def := range set.Rules {
		r := t.rules[def.ID]
		if r == nil {
			r = t.newRule(def.ID)
			t.rules[def.ID] = r
		}

		off := until(next.switches.OfRule(def))
		r.each(func(r *Rule) {
			r.follow(def)
			r.switchOff(off)
		})

		next.rules[i], present[def.ID] = r, true

		if r.tally.Load() != nil {
			next.rolled = append(next.rolled, r)
		}
	}

	t.own.each(func(r *Rule) { r.switchOff(until(next.switches.OfRule(rule.RequestLimits()))) })
	t.running.Store(next)
	t.fleet.follow(t, set)
	t.off.Store(until(next.switches.All))

	for id, r := range t.rules {
		if !present[id] {
			r.each(func(r *Rule) {
				if !r.retired.Swap(true) {
					t.retire(r)
				}
			})
		}
	}

	return nil
}

func (t *Table) newRule(id string) *Rule {
	r := &Rule{table: t, id: id}
	secret := newSecret()
	r.keys.init(secret)
	r.lent.init(secret)

	return r
}

// follow puts a version of the rule in force.
func (r *Rule) follow(def *rule.Rule) {
	own := r.plainLimits(def)
	own.tally = r.tallyOf(def)
	r.tally.Store(own.tally)
	r.own.Store(own)
	r.before.Store(nil)

	if def.Before != nil {
		r.before.Store(r.plainLimits(def.Before))
	}

	r.now.Store(def)
	r.version.Store(def.Version)
	r.retired.Store(false)
	r.note()
	r.table.recall(r)
}

// Rule returns the rule with id, nil if none is in force.
func (t *Table) Rule(id string) *Rule {
	t.mu.Lock()
	defer t.mu.Unlock()

	if r := t.rules[id]; r != nil && !r.retired.Load() {
		return r
	}

	return nil
}

// Match returns the rules in force and what req matches of them.
func (t *Table) Match(req *rule.Request, buf []rule.Match) ([]rule.Match, []*Rule) {
	now := t.running.Load()

	return now.set.Match(req, buf), now.rules
}

// retire gives back the leases of a rule that is gone. The rule itself is kept:
// programs may hold it, and if it comes back it must be the one they hold.
func (t *Table) retire(r *Rule) {
	r.returnLoans()
	r.keys.all(func(n *name) {
		e := n.entry()

		e.mu.Lock()
		holds := e.Holds()
		e.mu.Unlock()

		if holds {
			t.enqueue(e, false)
		}
	})
}

// limits are what an answer says about a key besides yes or no. Keys without an
// override share their rule's.
type limits struct {
	rule    *Rule
	version uint64   // of the rule they were made from
	counts  *decided // of the rule, in the mode of that version
	burst   int64
	quota   int64
	window  time.Duration
	bucket  holder.Bucket           // zero for a blocked rule, which is never asked about
	ttl     int64                   // of a lease, µs
	leases  bool                    // tokens can be had in advance
	drains  bool                    // a bucket: each token that is not spent brings its end nearer
	tally   *tally                  // nil unless a rollout has reached the key
	lent    *ledger.Terms           // of a loan: those of its ledger
	loans   *atomic.Pointer[limits] // of limits that keys share: those of most of their loans
}

// plainLimits are those of keys without an override.
func (r *Rule) plainLimits(def *rule.Rule) *limits {
	l := r.newLimits(def, rule.Quota{Limit: def.Limit, Window: def.Window, Burst: def.Burst, LeaseTTL: def.LeaseTTL})
	l.loans = &atomic.Pointer[limits]{}

	return l
}

func (r *Rule) newLimits(def *rule.Rule, q rule.Quota) *limits {
	l := &limits{
		rule: r, version: def.Version, counts: r.counts.of(def.Mode),
		burst: q.Burst, quota: q.Limit, window: q.Window, ttl: q.LeaseTTL.Microseconds(),
	}

	algorithm := rate.Algorithm(def.Algorithm)
	l.leases, l.drains = algorithm.Leases(), def.Algorithm.HasBurst()

	if b, err := newBucket(&q); err == nil { // always so for a rule that was parsed, unless it blocks
		l.bucket.Bucket = b
	}

	return l
}

// limitsOf returns the limits of key under the rule as it is in force.
func (r *Rule) limitsOf(key string) *limits {
	own, def := r.own.Load(), r.now.Load()

	if def.Withheld != 0 && def.For(key) == def.Before && def.Before != nil {
		own, def = r.before.Load(), def.Before
	}

	if q := def.Quota([]byte(key)); q.Overridden || own == nil || own.version != def.Version {
		l := r.newLimits(def, q)
		l.tally = r.reached(def)

		return l
	}

	return own
}

// loaned returns the limits of a key whose bucket was lent under terms. Keys that share their limits share these, too.
func (r *Rule) loaned(key string, terms *ledger.Terms) *limits {
	from := r.limitsOf(key)

	if from.loans != nil {
		if l := from.loans.Load(); l != nil && *l.lent == *terms {
			return l
		}
	}

	own := *terms
	l := from.under(&own)
	l.lent = &own

	if from.loans != nil {
		from.loans.Store(l)
	}

	return l
}

// striped returns l for one loan, which has stripes.
func (l *limits) striped(stripes *holder.Stripes) *limits {
	next := *l
	next.bucket.Stripes = stripes

	return &next
}

// under returns l as the terms of an answer have them: others than the rule's are an
// override's, or of rules newer than those that were pushed.
func (l *limits) under(terms *ledger.Terms) *limits {
	next := *l
	next.burst, next.bucket.Bucket, next.ttl = terms.Bucket.Burst, terms.Bucket, terms.TTL

	switch {
	case next.bucket == l.bucket:
	case next.drains:
		next.quota = max(1, int64(float64(next.window.Microseconds())*float64(next.bucket.Q)/float64(next.bucket.P)))
	default:
		next.quota = next.burst // of a window, whose bucket may be rounded
	}

	return &next
}
