package leaseway

import (
	"math"
	"time"

	"github.com/leaseway/leaseway/rule"
)

// Stats are counts since the start, and the state now. They are pulled: a
// request counts nothing that a scrape could not see.
type Stats struct {
	Rules   []RuleStats // of the rules in force
	Slots   []SlotStats // of the concurrency rules among them
	Version uint64      // of the rule set in force

	Keys     int64 // keys remembered
	Leases   int64 // of them, those that hold tokens
	Live     int64 // holders that live in the fleet, as last heard
	Passed   int64 // requests that came while a kill switch had everything pass
	Overflow int64 // requests for keys that were not remembered because the table was full

	Shedders []ShedderStats // those of the rules in force

	Calls  int64 // calls to the source
	Asks   int64 // keys that they asked about
	Failed int64 // calls that brought nothing
	Late   int64 // requests whose answer did not come within the deadline

	Panics   int64 // recovered
	Degraded bool  // no coordinator answers now
}

// RuleStats are one rule's decisions in one mode since the start. Those in
// shadow mode are what it would have decided. A rule that decided in another
// mode than its present one, before or for other keys of a rollout, has a second entry for that.
type RuleStats struct {
	ID      string
	Mode    rule.Mode
	Test    bool     // of its budgets for requests of class test: a rule that had such has a second entry
	Allowed [6]int64 // by Origin
	Denied  [6]int64 // by Origin
	Asks    int64    // messages to the source about its keys
	Off     bool     // a kill switch has it decide nothing now
	Passed  int64    // requests that were in its scope while it was switched off
}

// Stats counts what happened so far. It looks at every key, so it is meant for
// a scrape every few seconds, not for a request.
func (l *Limiter) Stats() Stats {
	t := l.table.Stats()
	s := Stats{
		Version: t.Version, Keys: t.Keys, Leases: t.Leases, Live: t.Live, Overflow: t.Overflow, Passed: t.Off,
		Calls: t.Calls, Asks: t.Asks, Failed: t.Failed, Late: t.Late, Panics: t.Panics, Degraded: t.Down,
	}

	if worker, ok := l.shedder.stats(); ok {
		s.Shedders = append(s.Shedders, worker)
	}

	if fleet, ok := l.fleetStats(); ok {
		s.Shedders = append(s.Shedders, fleet)
	}

	for _, r := range t.Rules {
		s.Rules = append(s.Rules, RuleStats(r))
	}

	for _, r := range l.table.SlotStats() {
		s.Slots = append(s.Slots, SlotStats(r))
	}

	return s
}

// ShedderStats are one shedder's decisions since the start, and its state now.
type ShedderStats struct {
	Limiter  rule.Limiter // LimiterWorker or LimiterFleet
	Mode     rule.Mode
	Off      bool           // a kill switch has it decide nothing now
	Refused  [classes]int64 // by rule.Class
	Shadowed [classes]int64 // by rule.Class: what would have been refused in shadow mode

	// Of the worker shedder:

	Level float64 // from 0 to 3: the classes that are shed
	Stale bool    // nothing is shed, since the load is not known
	Loads []Load

	// Of the fleet shedder:

	Capacity int64 // requests that the fleet serves at once, as last heard; 0 while it is not known
	InFlight int64 // requests in flight in this process
}

// stats are those of the worker shedder; ok is false if the rules have none.
func (s *shedder) stats() (stats ShedderStats, ok bool) {
	c := s.table.Set().Shedders.Worker
	if c == nil {
		return stats, false
	}

	stats = ShedderStats{
		Limiter: rule.LimiterWorker, Mode: c.Mode, Level: math.Float64frombits(s.level.Load()),
		Off: s.table.Switches().OfLimiter(rule.LimiterWorker).OffAt(time.UnixMicro(s.table.Wall())),
	}

	for class := range classes {
		stats.Refused[class], stats.Shadowed[class] = s.refused[class].Load(), s.shadowed[class].Load()
	}

	if seen := s.seen.Load(); seen != nil {
		stats.Stale, stats.Loads = seen.stale, seen.loads
	}

	return stats, true
}

// KeyStats are what is known of one key of a rule.
type KeyStats struct {
	Asks      int64 // messages to the source about it, since it was last unknown
	Balance   int64 // tokens leased and not yet spent
	Remaining int64 // as a decision would say
	Local     bool  // it is decided without a coordinator now
}

// Key looks at one key of the rule; ok is false if it is not remembered.
func (r *Rule) Key(key string) (s KeyStats, ok bool) {
	t, ok := r.rule.Key(key)

	return KeyStats(t), ok
}
