package table

import (
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/mishap"
	"github.com/leaseway/leaseway/rule"
)

// ruleCounts are a rule's decisions by origin. What leases admit and deny, and
// loans admit, is counted by them and folded in now and then.
type ruleCounts struct {
	enforced, shadowed decided // by the mode that the rule had for the key
	asks               atomic.Int64
	off                atomic.Int64 // requests that passed because the rule is switched off
}

// decided are decisions by origin.
type decided struct {
	allowed [origins]atomic.Int64
	denied  [origins]atomic.Int64
	loans   atomic.Pointer[striped] // denied by loans, beside those; nil as long as none were
}

// byLoans returns the count of what loans denied, made if need be.
func (c *decided) byLoans() *striped {
	if c.loans.Load() == nil {
		c.loans.CompareAndSwap(nil, &striped{})
	}

	return c.loans.Load()
}

// deniedBy returns the requests that were denied from an origin.
func (c *decided) deniedBy(from Origin) int64 {
	n := c.denied[from].Load()
	if s := c.loans.Load(); s != nil && from == FromLease {
		n += s.sum()
	}

	return n
}

// of returns the counts of decisions in a mode.
func (c *ruleCounts) of(mode rule.Mode) *decided {
	if mode == rule.Shadow {
		return &c.shadowed
	}

	return &c.enforced
}

// Bar counts a request that this version of the rule refuses without a look at any budget: it is blocked, or has no key.
func (r *Rule) Bar(def *rule.Rule) {
	r.counts.of(def.Mode).denied[FromLease].Add(1)

	if t := r.reached(def); t != nil {
		t.refused.Add(1)
	}
}

// count counts n requests of the entry's key that came out so; -1 takes one back.
func (e *Entry) count(out *Outcome, n int64) {
	e.limits.Load().count(out, n)
}

// count counts n requests of a key under l.
func (l *limits) count(out *Outcome, n int64) {
	l.counts.add(out, n)
	l.tally.add(out, n)
}

// admitted counts n requests more that were let pass from memory.
func (l *limits) admitted(n int64) { l.count(&Outcome{Kind: Allowed, Origin: FromLease}, n) }

// count counts a request of a key that has no entry, under the version that it has.
func (r *Rule) count(key string, out *Outcome) {
	def := r.Of(key)
	r.counts.of(def.Mode).add(out, 1)
	r.reached(def).add(out, 1)
}

func (c *decided) add(out *Outcome, n int64) {
	if out.Kind == Allowed {
		c.allowed[out.Origin].Add(n)
	} else {
		c.denied[out.Origin].Add(n)
	}
}

// fold moves what the lease counted into the rule's counts; under the lock.
func (e *Entry) fold() {
	l, allowed := e.limits.Load(), e.Admitted()
	denied, quick := e.Refused()
	l.counts.allowed[FromLease].Add(allowed)
	l.counts.denied[FromLease].Add(denied)
	l.tally.fold(allowed, denied)

	if quick > 0 {
		e.use(e.rule().table.clock.Now()) // which they did not read
	}
}

// Stats are counts since the start, and the state now.
type Stats struct {
	Rules    []RuleStats
	Version  uint64
	Leases   int64 // loans among them
	Keys     int64
	Live     int64
	Calls    int64
	Asks     int64
	Failed   int64
	Late     int64
	Panics   int64
	Overflow int64
	Off      int64 // requests that passed while everything was switched off
	Down     bool
}

// RuleStats are the counts of one rule in one mode.
type RuleStats struct {
	ID      string
	Mode    rule.Mode
	Test    bool // of its budgets for requests of class test
	Allowed [origins]int64
	Denied  [origins]int64
	Asks    int64
	Off     bool  // switched off now
	Passed  int64 // while it was switched off
}

// Stats counts everything, which looks at every key: it is meant for a scrape.
func (t *Table) Stats() Stats {
	now := t.clock.Now()
	s := Stats{
		Version: t.Set().Version, Keys: t.keys.Load(), Live: t.live.Load(),
		Calls: t.counts.calls.Load() + t.counts.lent.Load(), Asks: t.counts.asks.Load(), Failed: t.counts.failed.Load(),
		Late: t.counts.late.Load(), Panics: t.mishaps.Count(), Overflow: t.counts.overflow.Load(), Off: t.counts.off.Load(),
		Down: t.out.down(now),
	}

	for _, r := range t.running.Load().rules {
		r.each(func(r *Rule) {
			s.Leases += r.fold(now)
			s.Rules = r.appendStats(s.Rules)
		})
	}

	t.own.each(func(r *Rule) {
		s.Leases += r.fold(now)

		if seen, some := r.statsIn(rule.Enforce); some || r.counts.off.Load() > 0 {
			seen.Asks, seen.Off, seen.Passed = r.counts.asks.Load(), r.SwitchedOff(), r.counts.off.Load()
			s.Rules = append(s.Rules, seen)
		}
	})

	return s
}

// fold brings the rule's counts up to date, and returns how many leases it has.
func (r *Rule) fold(now int64) (leases int64) {
	r.keys.all(func(n *name) {
		e := n.entry()

		e.mu.Lock()
		defer e.mu.Unlock()

		e.fold()

		if e.Until() > now {
			leases++
		}
	})

	return leases + r.countLoans()
}

// appendStats appends the rule's counts in its present mode, and those in the other if there are any.
func (r *Rule) appendStats(stats []RuleStats) []RuleStats {
	mode, other := r.now.Load().Mode, rule.Shadow
	if mode == rule.Shadow {
		other = rule.Enforce
	}

	now, _ := r.statsIn(mode)
	now.Asks, now.Off, now.Passed = r.counts.asks.Load(), r.SwitchedOff(), r.counts.off.Load()
	stats = append(stats, now)

	if before, some := r.statsIn(other); some {
		stats = append(stats, before)
	}

	return stats
}

// statsIn returns what was decided in a mode, and whether anything was.
func (r *Rule) statsIn(mode rule.Mode) (s RuleStats, some bool) {
	s = RuleStats{ID: r.id, Mode: mode, Test: r.testing}
	c := r.counts.of(mode)

	for i := range s.Allowed {
		s.Allowed[i], s.Denied[i] = c.allowed[i].Load(), c.deniedBy(Origin(i))
		some = some || s.Allowed[i] != 0 || s.Denied[i] != 0
	}

	return s, some
}

// Mishaps counts the panics that are recovered here and above the table.
func (t *Table) Mishaps() *mishap.Log { return &t.mishaps }

// KeyStats are what is known of one key.
type KeyStats struct {
	Asks      int64 // messages about it since it came
	Balance   int64 // tokens leased and not yet spent
	Remaining int64
	Local     bool // decided without a coordinator
}

// Key looks at one key of the rule; ok is false if it is not remembered.
func (r *Rule) Key(key string) (s KeyStats, ok bool) {
	if l := r.lent.find(key).loan(); l != nil {
		return l.stats(), true
	}

	e := r.keys.find(key).entry()
	if e == nil {
		if e = r.restored(key); e == nil {
			return s, false
		}
	}

	e.mu.Lock()
	defer e.mu.Unlock()

	return KeyStats{
		Asks: int64(e.asks), Balance: e.Balance(), Remaining: e.Remaining(r.table.clock.Now()), Local: e.Local(),
	}, true
}
