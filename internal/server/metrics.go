package server

import (
	"math"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// source is something that adds its present counts to a scrape. Counts are pulled when somebody looks, never pushed by a
// request, and no label is made from a key: the number of series depends on the rules alone.
type source func(s *scrape)

// scrape takes counts by name, and hands them on in the form of the library.
type scrape struct {
	out chan<- prometheus.Metric
}

// label is one label of a series.
type label struct{ name, value string }

// ofRule labels a series with the rule that it is of.
func ofRule(id string) label { return label{"rule", id} }

func (s *scrape) counter(name, help string, value int64, labels ...label) {
	s.send(sample{prometheus.CounterValue, name, help, float64(value), labels})
}

func (s *scrape) gauge(name, help string, value int64, labels ...label) {
	s.send(sample{prometheus.GaugeValue, name, help, float64(value), labels})
}

// share is a gauge that is no whole number.
func (s *scrape) share(name, help string, value float64, labels ...label) {
	s.send(sample{prometheus.GaugeValue, name, help, value, labels})
}

// sample is one series at the moment of the scrape.
type sample struct {
	kind       prometheus.ValueType
	name, help string
	value      float64
	labels     []label
}

func (s *scrape) send(of sample) {
	names, values := make([]string, len(of.labels)), make([]string, len(of.labels))
	for i, l := range of.labels {
		names[i], values[i] = l.name, l.value
	}

	desc := prometheus.NewDesc("leaseway_"+of.name, of.help, names, nil)

	metric, err := prometheus.NewConstMetric(desc, of.kind, of.value, values...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}

	s.out <- metric
}

// collector is sources as the library calls them. It describes nothing beforehand: which series there are depends on the
// rules in force at the scrape.
type collector []source

// Describe sends nothing, which makes the collector an unchecked one.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect asks every source.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, src := range c {
		src(&scrape{out: out})
	}
}

// metricsHandler serves sources, and what is known of the process and of Go's runtime.
func metricsHandler(sources ...source) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collector(sources),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)

	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Registry: registry})
}

// limiterCounts are the decisions of this process, and what they cost.
func limiterCounts(limiter *leaseway.Limiter) source {
	return func(s *scrape) {
		stats := limiter.Stats()

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
		s.gauge("degraded", "1 while no coordinator answers.", flag(stats.Degraded))
		s.counter("calls_total", "Calls to a coordinator.", stats.Calls)
		s.counter("asks_total", "Keys asked about in these calls.", stats.Asks)
		s.counter("calls_failed_total", "Calls that failed.", stats.Failed)
		s.counter("requests_late_total", "Requests whose answer did not come within the deadline.", stats.Late)
		s.counter("recovered_panics_total", panicsHelp, stats.Panics, label{"in", "limiter"})
	}
}

// decisions are those under one rule. A source that never decided has no series.
func decisions(s *scrape, r *leaseway.RuleStats) {
	name, help := "decisions_total", "Decisions; what a shadow rule would have denied counts as denied."
	if r.Test {
		name, help = "test_decisions_total", "Decisions about requests of class test, which have budgets of their own."
	}

	if !r.Test && (r.Off || r.Passed > 0) {
		s.gauge("switched_off", "1 while a kill switch has a rule decide nothing.", flag(r.Off), ofRule(r.ID))
		s.counter("switched_off_requests_total", "Requests in scope of a rule while it was switched off.", r.Passed, ofRule(r.ID))
	}

	if r.Mode == rule.Off {
		return
	}

	for origin := range r.Allowed {
		from := leaseway.Origin(origin)
		id, source := ofRule(r.ID), label{"source", from.String()}

		for _, count := range [...]struct {
			outcome string
			n       int64
		}{{"allowed", r.Allowed[origin]}, {"denied", r.Denied[origin]}} {
			// A rule that nothing came to yet shows zeroes for the lease, so that rates begin at its first decision.
			if count.n > 0 || from == leaseway.OriginLease {
				s.counter(name, help, count.n, id, ofOutcome(count.outcome), label{"mode", r.Mode.String()}, source)
			}
		}
	}
}

// degraded are the decisions that were made without a coordinator, of each rule in all modes together.
func degraded(s *scrape, rules []leaseway.RuleStats) {
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
				n, ofRule(of.rule), label{"source", of.origin.String()})
		}
	}
}

// shedding is what one shedder refused, and why it does.
func shedding(s *scrape, d *leaseway.ShedderStats) {
	const (
		refused = "Requests refused by a shedder; in shadow mode, that would have been."
		level   = "How much is shed: 1 is all tests, 2 reads too, 3 writes too."
		share   = "How busy this process is by one signal: 1 is as much as it can bear. Left out while it is not known."
		stale   = "1 while a shedder lets everything pass because the load is not known."
	)

	who := label{"shedder", d.Limiter.String()}

	for class := rule.ClassTest; class < rule.ClassCritical; class++ {
		what := label{"class", class.String()}
		s.counter("shed_total", refused, d.Refused[class], who, what, label{"mode", rule.Enforce.String()})
		s.counter("shed_total", refused, d.Shadowed[class], who, what, label{"mode", rule.Shadow.String()})
	}

	if d.Limiter == rule.LimiterWorker {
		s.share("shed_level", level, d.Level, who)
		s.gauge("shed_stale", stale, flag(d.Stale), who)
	}

	if d.Limiter == rule.LimiterFleet {
		s.gauge("fleet_capacity", "Requests that the fleet serves at once, as last heard; 0 while that is not known.", d.Capacity)
		s.gauge("fleet_in_flight", "Requests in flight in this process that the fleet shedder counts.", d.InFlight)
	}

	s.gauge("shed_switched_off", "1 while a kill switch has a shedder decide nothing.", flag(d.Off), who)

	for _, l := range d.Loads {
		if !math.IsNaN(l.Value) {
			s.share("load_ratio", share, l.Value, label{"signal", l.Signal})
		}
	}
}

// ruleFileCounts say whether the rules in force are those of the file.
func ruleFileCounts(f *ruleFile) source {
	return func(s *scrape) {
		s.gauge("rules_reload_failed", "1 while the rule file is not what is in force: it is bad, or gone.", flag(f.failed.Load()))

		for outcome, n := range map[string]int64{
			"applied": f.good.Load(), "refused": f.refused.Load(), "unreadable": f.missed.Load(),
		} {
			s.counter("rules_reloads_total", "Changes of the rule file.", n, ofOutcome(outcome))
		}
	}
}

// ofOutcome labels a series with what came of what it counts.
func ofOutcome(outcome string) label { return label{"outcome", outcome} }

func flag(b bool) int64 {
	if b {
		return 1
	}

	return 0
}
