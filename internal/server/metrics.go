package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/counts"
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

func (s *scrape) counter(name, help string, value int64, labels ...label) {
	s.send(sample{prometheus.CounterValue, name, help, float64(value), labels})
}

func (s *scrape) gauge(name, help string, value int64, labels ...label) {
	s.send(sample{prometheus.GaugeValue, name, help, float64(value), labels})
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

	desc := prometheus.NewDesc(counts.Prefix+of.name, of.help, names, nil)

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
		counts.Of(&stats, func(of counts.Sample) {
			out := sample{kind: prometheus.CounterValue, name: of.Name, help: of.Help, value: of.Value}
			if of.Gauge {
				out.kind = prometheus.GaugeValue
			}

			for _, l := range of.Labels {
				out.labels = append(out.labels, label{l.Name, l.Value})
			}

			s.send(out)
		})
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

func flag(b bool) int64 { return counts.Flag(b) }
