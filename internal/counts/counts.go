// Package counts says what a Limiter counted as series of metrics, in one list for all who show them: the server's /metrics, and the
// page that a program serves for itself (leasewayhttp.Metrics). They are pulled when somebody looks, never pushed by a request, and
// no label is made from a key: how many series there are depends on the rules alone. Keys are shown in one place, /shadow, of which
// the answer is here as well.
package counts

import (
	"math"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// Prefix is how the names of all series begin.
const Prefix = "leaseway_"

// Label is one label of a series.
type Label struct{ Name, Value string }

// Sample is one series at the moment of a scrape.
type Sample struct {
	Gauge      bool   // else a counter
	Name, Help string // the name without Prefix
	Value      float64
	Labels     []Label
}

// ofRule labels a series with the rule that it is of.
func ofRule(id string) Label { return Label{"rule", id} }

// Flag is a yes or no as a value.
func Flag(b bool) int64 {
	if b {
		return 1
	}

	return 0
}

// PanicsHelp is the help of recovered_panics_total, which has a series for each part of a program.
const PanicsHelp = "Bugs that were contained."

// sink takes samples by name.
type sink func(Sample)

func (s sink) counter(name, help string, value int64, labels ...Label) {
	s(Sample{Name: name, Help: help, Value: float64(value), Labels: labels})
}

func (s sink) gauge(name, help string, value int64, labels ...Label) {
	s.share(name, help, float64(value), labels...)
}

// share is a gauge that is no whole number.
func (s sink) share(name, help string, value float64, labels ...Label) {
	s(Sample{Gauge: true, Name: name, Help: help, Value: value, Labels: labels})
}

// Of hands on the decisions of a process, and what they cost, one series after the other.
func Of(stats *leaseway.Stats, to func(Sample)) {
	s := sink(to)

	for i := range stats.Rules {
		decisions(s, &stats.Rules[i])
	}

	degraded(s, stats.Rules)

	for i := range stats.Shedders {
		shedding(s, &stats.Shedders[i])
	}

	for i := range stats.Slots {
		inFlight(s, &stats.Slots[i])
	}

	s.gauge("leases", "Leases that this process holds.", stats.Leases)
	s.gauge("keys", "Keys that this process knows something about.", stats.Keys)
	s.counter("switched_off_all_requests_total", "Requests that passed while everything was switched off.", stats.Passed)
	s.counter("keys_overflow_total", "Requests for keys that were not remembered because there were too many.", stats.Overflow)
	s.gauge("holders", "Holders of the fleet that live, as last heard.", stats.Live)
	s.gauge("rules_version", "Version of the rules in force.", int64(stats.Version))
	s.gauge("degraded", "1 while no coordinator answers.", Flag(stats.Degraded))
	s.counter("calls_total", "Calls to a coordinator.", stats.Calls)
	s.counter("asks_total", "Keys asked about in these calls.", stats.Asks)
	s.counter("calls_failed_total", "Calls that failed.", stats.Failed)
	s.counter("requests_late_total", "Requests whose answer did not come within the deadline.", stats.Late)
	s.counter("recovered_panics_total", PanicsHelp, stats.Panics, Label{"in", "limiter"})
}

// decisions are those under one rule. A source that never decided has no series.
func decisions(s sink, r *leaseway.RuleStats) {
	name, help := "decisions_total", "Decisions; what a shadow rule would have denied counts as denied."
	if r.Test {
		name, help = "test_decisions_total", "Decisions about requests of class test, which have budgets of their own."
	}

	if !r.Test && (r.Off || r.Passed > 0) {
		s.gauge("switched_off", "1 while a kill switch has a rule decide nothing.", Flag(r.Off), ofRule(r.ID))
		s.counter("switched_off_requests_total", "Requests in scope of a rule while it was switched off.", r.Passed, ofRule(r.ID))
	}

	if r.Mode == rule.Off {
		return
	}

	for origin := range r.Allowed {
		from := leaseway.Origin(origin)
		id, source := ofRule(r.ID), Label{"source", from.String()}

		for _, count := range [...]struct {
			outcome string
			n       int64
		}{{"allowed", r.Allowed[origin]}, {"denied", r.Denied[origin]}} {
			// A rule that nothing came to yet shows zeroes for the lease, so that rates begin at its first decision.
			if count.n > 0 || from == leaseway.OriginLease {
				s.counter(name, help, count.n, id, Label{"outcome", count.outcome}, Label{"mode", r.Mode.String()}, source)
			}
		}
	}
}

// degraded are the decisions that were made without a coordinator, of each rule in all modes together.
func degraded(s sink, rules []leaseway.RuleStats) {
	type series struct {
		rule   string
		origin leaseway.Origin
	}

	counts := map[series]int64{}

	for i := range rules {
		r := &rules[i]
		for origin := range r.Allowed {
			if from := leaseway.Origin(origin); from.Degraded() {
				counts[series{r.ID, from}] += r.Allowed[origin] + r.Denied[origin]
			}
		}
	}

	for of, n := range counts {
		if n > 0 {
			s.counter("degraded_decisions_total", "Decisions made without a coordinator that should have been asked.",
				n, ofRule(of.rule), Label{"source", of.origin.String()})
		}
	}
}

// shedding is what one shedder refused, and why it does.
func shedding(s sink, d *leaseway.ShedderStats) {
	const (
		refused = "Requests refused by a shedder; in shadow mode, that would have been."
		level   = "How much is shed: 1 is all tests, 2 reads too, 3 writes too."
		share   = "How busy this process is by one signal: 1 is as much as it can bear. Left out while it is not known."
		stale   = "1 while a shedder lets everything pass because the load is not known."
	)

	who := Label{"shedder", d.Limiter.String()}

	for class := rule.ClassTest; class < rule.ClassCritical; class++ {
		what := Label{"class", class.String()}
		s.counter("shed_total", refused, d.Refused[class], who, what, Label{"mode", rule.Enforce.String()})
		s.counter("shed_total", refused, d.Shadowed[class], who, what, Label{"mode", rule.Shadow.String()})
	}

	if d.Limiter == rule.LimiterWorker {
		s.share("shed_level", level, d.Level, who)
		s.gauge("shed_stale", stale, Flag(d.Stale), who)
	}

	if d.Limiter == rule.LimiterFleet {
		s.gauge("fleet_capacity", "Requests that the fleet serves at once, as last heard; 0 while that is not known.", d.Capacity)
		s.gauge("fleet_in_flight", "Requests in flight in this process that the fleet shedder counts.", d.InFlight)
	}

	s.gauge("shed_switched_off", "1 while a kill switch has a shedder decide nothing.", Flag(d.Off), who)

	for _, l := range d.Loads {
		if !math.IsNaN(l.Value) {
			s.share("load_ratio", share, l.Value, Label{"signal", l.Signal})
		}
	}
}

// inFlight is how things stand with one rule that bounds what is in flight.
func inFlight(s sink, r *leaseway.SlotStats) {
	id := ofRule(r.Rule)

	s.gauge("in_flight", "Slots of a concurrency rule that requests in flight here occupy.", r.InFlight, id)
	s.gauge("slots", "Slots of a concurrency rule that this process has, those in flight included.", r.Held, id)
	s.gauge("queued", "Requests that wait here for a slot of a concurrency rule.", r.Queued, id)
	s.gauge("in_flight_longest_seconds",
		"How long the oldest request in flight has lasted; one that only grows is a decision that is never finished.",
		int64(r.Longest.Seconds()), id)
}
