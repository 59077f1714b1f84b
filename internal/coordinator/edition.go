package coordinator

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// An edition is one numbered rule set with the terms of its rules worked out. It
// never changes, but for what it remembers of overrides.
type edition struct {
	set   *rule.Set
	rules map[string]*ruleTerms
	done  chan struct{} // closed when a newer one has come
}

// ruleTerms are the terms under which a rule's keys are charged.
type ruleTerms struct {
	rule      *rule.Rule
	before    *ruleTerms    // of the keys that the rollout has not reached; nil if the rule does not apply to them
	least     time.Duration // of a lease's TTL
	own       ledger.Terms
	window    atomic.Pointer[ledger.Calendar]
	overrides *xsync.Map[rule.Quota, ledger.Terms] // filled as keys are asked for, up to maxTerms
}

// newEdition works out the terms of a numbered set. The error names the rule
// whose numbers no bucket can count.
func newEdition(set *rule.Set, least time.Duration) (*edition, error) {
	e := &edition{set: set, rules: make(map[string]*ruleTerms, len(set.Rules)), done: make(chan struct{})}

	for _, r := range set.Rules {
		t, err := newRuleTerms(r, least)
		if err == nil && r.Before != nil {
			t.before, err = newRuleTerms(r.Before, least)
		}

		if err != nil {
			return nil, err
		}

		e.rules[r.ID] = t
	}

	for _, r := range fleetRules(set) {
		t := &ruleTerms{rule: r.Rule, least: least}
		t.own, _ = t.of(rule.Quota{Limit: r.Limit, Burst: r.Burst, LeaseTTL: r.LeaseTTL}) // without a rate nothing can be wrong
		t.own.Share = r.Share
		e.rules[r.ID] = t
	}

	brought := rule.RequestLimits()
	e.rules[brought.ID] = &ruleTerms{rule: brought, least: least, overrides: xsync.NewMap[rule.Quota, ledger.Terms]()}

	return e, nil
}

// newRuleTerms works out the terms of one version of a rule.
func newRuleTerms(r *rule.Rule, least time.Duration) (*ruleTerms, error) {
	t := &ruleTerms{rule: r, least: least}

	if !r.Block {
		own, err := t.of(rule.Quota{Limit: r.Limit, Window: r.Window, Burst: r.Burst, LeaseTTL: r.LeaseTTL})
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w (change its limit, window or burst)", r.ID, err)
		}

		t.own = own
	}

	t.overrides = xsync.NewMap[rule.Quota, ledger.Terms]()

	return t, nil
}

// fleetRules are those that the fleet shedder is made of.
func fleetRules(set *rule.Set) []*rule.FleetRule {
	if all, rest := set.FleetRules(); all != nil {
		return []*rule.FleetRule{all, rest}
	}

	return nil
}

// terms returns what an ask's key is charged under at now, or why it cannot be asked for.
func (e *edition) terms(asked *ledger.KeyAsk, now func() time.Time, found *remembered) (ledger.Terms, ledger.KeyCode) {
	if !inBounds(asked) {
		return ledger.Terms{}, ledger.KeyInvalid
	}

	t, ok := e.rules[asked.Rule]
	if !ok {
		return ledger.Terms{}, ledger.KeyUnknownRule
	}

	key := rule.LiveKey(asked.Key)
	t = t.version(key)

	terms, code := t.find(key, found)
	if t.rule.Calendar != rule.CalendarNone {
		terms.Calendar = t.calendar(now())
	}

	return terms, code
}

// overridable appends to wanted the keys of asks that may have overrides from outside the document.
func (e *edition) overridable(asks []ledger.KeyAsk, wanted []wanted) []wanted {
	for i := range asks {
		if t, ok := e.rules[asks[i].Rule]; ok && t.negotiable() && inBounds(&asks[i]) {
			wanted = append(wanted, want(asks[i].Rule, asks[i].Key, i))
		}
	}

	return wanted
}

// version returns the terms of the version that a key has. A key that the rule
// does not apply to has leases to give back, or a holder of other rules: it gets the newer version.
func (t *ruleTerms) version(key string) *ruleTerms {
	if t.before != nil && t.rule.For(key) == t.before.rule {
		return t.before
	}

	return t
}

func (t *ruleTerms) find(key string, found *remembered) (ledger.Terms, ledger.KeyCode) {
	if found == nil {
		return t.plain(key)
	}

	if found.override != (rule.Override{}) {
		if terms, ok := t.negotiated(found); ok {
			return terms, ledger.KeyOK
		}

		found.unfit = true // the rule has changed since it was saved
	}

	terms, code := t.plain(key)
	terms.Revision = found.revision

	return terms, code
}

// negotiable reports whether keys of the rule can have overrides of their own.
func (t *ruleTerms) negotiable() bool {
	return len(t.rule.KeyBy) > 0 && t.rule.KeyBy[0].Kind != rule.KeyGlobal
}

// negotiated returns the terms of an override from outside the document.
func (t *ruleTerms) negotiated(found *remembered) (ledger.Terms, bool) {
	quota, err := t.rule.Resolve(found.override)
	if err != nil {
		return ledger.Terms{}, false
	}

	terms, code := t.override(quota)
	terms.Revision = found.revision

	return terms, code == ledger.KeyOK
}

// plain returns the terms that the document says.
func (t *ruleTerms) plain(key string) (ledger.Terms, ledger.KeyCode) {
	if t.rule.HasQuotas() && t.overrides != nil {
		if quota := t.rule.Quota([]byte(key)); quota.Overridden {
			return t.override(quota)
		}
	}

	if t.own.Bucket.Burst == 0 {
		// Blocked: holders refuse by themselves, there is no ledger. Or a key that should bring its limit, and does not.
		return ledger.Terms{}, ledger.KeyInvalid
	}

	return t.own, ledger.KeyOK
}

// override returns the terms of one override's quota.
func (t *ruleTerms) override(quota rule.Quota) (ledger.Terms, ledger.KeyCode) {
	if terms, ok := t.overrides.Load(quota); ok {
		return terms, ledger.KeyOK
	}

	terms, err := t.of(quota)
	if err != nil {
		return ledger.Terms{}, ledger.KeyInvalid // blocked as well, or what rule.Parse refuses
	}

	if t.overrides.Size() < maxTerms {
		t.overrides.Store(quota, terms)
	}

	return terms, ledger.KeyOK
}

// of turns a quota into terms. The revision stays 0: overrides in the document
// move the rule's version when they change, so versions order them too.
func (t *ruleTerms) of(quota rule.Quota) (ledger.Terms, error) {
	r := t.rule
	terms := ledger.Terms{
		Algorithm: rate.Algorithm(r.Algorithm), Version: r.Version, Whole: r.AfterLoss == rule.Full,
		TTL: max(quota.LeaseTTL, t.least).Microseconds(),
	}
	bucket := rate.NewBucket

	if r.Algorithm == rule.Concurrency {
		// Nothing comes back with time: only the capacity counts.
		terms.Bucket = rate.Bucket{P: 1, Q: 1, Burst: quota.Limit}

		return terms, nil
	}

	if !r.Algorithm.HasBurst() {
		bucket = rate.Average

		if r.Calendar == rule.CalendarNone {
			terms.Length = quota.Window.Microseconds()
		}
	}

	var err error

	terms.Bucket, err = bucket(quota.Limit, quota.Window.Microseconds(), quota.Burst)

	return terms, err
}

// calendarSlack is by how much clocks of coordinators may differ from their store's, and so from each other. No calendar window is
// shorter than twice that.
const calendarSlack = 11 * time.Hour

// calendar returns the calendar window of the rule that was calendarSlack before now, and the end of the next: which of the two it
// is now, the store's clock says. Who told only the later one, ahead of that clock, would end the earlier one too soon.
func (t *ruleTerms) calendar(now time.Time) ledger.Calendar {
	now = now.Add(-calendarSlack)
	if c := t.window.Load(); c != nil && now.UnixMicro() >= c.Start && now.UnixMicro() < c.End {
		return *c
	}

	start, end, next := t.rule.Span(now)
	c := &ledger.Calendar{Start: start.UnixMicro(), End: end.UnixMicro(), Next: next.UnixMicro()}
	t.window.Store(c)

	return *c
}

// TermsOf returns what key, as rule.Compact gives it, is charged under at now by the rule id of set, as a Coordinator would
// charge it; false if there is no such rule, or it blocks. For those who look at ledgers without asking for anything.
func TermsOf(set *rule.Set, id, key string, now time.Time) (ledger.Terms, bool) {
	e, err := newEdition(set, 0)
	if err != nil {
		return ledger.Terms{}, false
	}

	terms, code := e.terms(&ledger.KeyAsk{Rule: id, Key: key}, func() time.Time { return now }, nil)

	return terms, code == ledger.KeyOK
}
