package demo

import (
	"slices"
	"time"
)

// scenario is a kind of trouble that an API can have, and the rules that protect it.
type scenario struct {
	name   string
	about  string // what happens
	remedy string // what the rules do about it
	rules  string // the rule document of the side with Leaseway
	crowds []crowd
	shape  shape
}

// shape is what the API of a scenario is built of.
type shape struct {
	servers int
	workers int // of each server
}

// crowd is callers who do the same.
type crowd struct {
	name     string
	innocent bool    // they do nothing wrong, and are to be protected
	callers  int     // with an API key each
	rate     float64 // requests a second of all of them together
	keys     string  // how their API keys begin
	target   target
}

// Scenarios are the names of what RunScenario can show.
func Scenarios() []string {
	names := make([]string, 0, len(scenarios()))
	for _, s := range scenarios() {
		names = append(names, s.name)
	}

	return names
}

func scenarioOf(name string) (scenario, bool) {
	all := scenarios()
	i := slices.IndexFunc(all, func(s scenario) bool { return s.name == name })

	if i < 0 {
		return scenario{}, false
	}

	return all[i], true
}

// The work that the API does. It keeps a worker and no processor, so that the figures are those of the queue for workers, and
// hardly those of the machine.
const (
	usualWork  = 80 * time.Millisecond
	reportWork = time.Second
	reportPath = "/v1/reports"
)

// patience is after how long a caller gives up.
const patience = 3 * time.Second

// The loads are a multiple of what the workers can do without Leaseway, and with it well below: neither is a close call.
func scenarios() []scenario {
	get := func(path string) target { return target{method: "GET", path: path} }
	charge := target{method: "POST", path: "/v1/charges"}

	return []scenario{
		{
			name: "noisy-neighbour",
			about: "One server with 8 workers; a request takes one for 80 ms, so they do 100 requests/s. Nine callers send 5/s each, " +
				"and one sends 200/s.",
			remedy: "a rate limit for each API key",
			rules:  "rules:\n  - {id: per-key, keyBy: apikey, limit: 10, window: 1s, burst: 20}\n",
			shape:  shape{servers: 1, workers: 8},
			crowds: []crowd{
				{name: "nine callers", innocent: true, callers: 9, rate: 45, keys: "sk_live_", target: get("/v1/items")},
				{name: "the neighbour", callers: 1, rate: 200, keys: "sk_noisy_", target: get("/v1/items")},
			},
		},
		{
			name: "expensive-endpoint",
			about: "One server with 8 workers; a request takes one for 80 ms, but a report takes one for 1 s. Nine callers send 4 " +
				"requests/s each, and one asks for 20 reports/s: few requests, and far too much work.",
			remedy: "at most two reports in flight for each API key",
			rules:  "rules:\n  - {id: reports, scope: /v1/reports, keyBy: apikey, algorithm: concurrency, limit: 2}\n",
			shape:  shape{servers: 1, workers: 8},
			crowds: []crowd{
				{name: "nine callers", innocent: true, callers: 9, rate: 36, keys: "sk_live_", target: get("/v1/items")},
				{name: "the reporter", callers: 1, rate: 20, keys: "sk_report_", target: get(reportPath)},
			},
		},
		{
			name: "fleet-full",
			about: "Three servers with 4 workers each, which do 150 requests/s together. Twelve shops send 24 charges/s, and forty " +
				"batch jobs 250 reads/s, none of them much by itself.",
			remedy: "40 % of the fleet stays free for critical requests, which charges are",
			rules: "rules: []\nclasses:\n  - {class: critical, scope: {paths: /v1/charges, methods: POST}}\n" +
				"shedders:\n  fleet: {capacity: 12, reserve: 40%}\n",
			shape: shape{servers: 3, workers: 4},
			crowds: []crowd{
				{name: "charges", innocent: true, callers: 12, rate: 24, keys: "sk_shop_", target: charge},
				{name: "batch jobs", callers: 40, rate: 250, keys: "sk_batch_", target: get("/v1/items")},
			},
		},
		{
			name: "workers-busy",
			about: "One server with 8 workers, which do 100 requests/s. Ten shops send 15 charges/s, thirty callers 60 reads/s, and " +
				"forty test suites 150/s with test-mode keys.",
			remedy: "when its workers are busy the server sheds test traffic first, then reads, and charges never",
			rules: "rules: []\nclasses:\n  - {class: test, apikeyPrefix: sk_test_}\n" +
				"  - {class: critical, scope: {paths: /v1/charges, methods: POST}}\n" +
				"shedders:\n  worker: {high: 80%, low: 60%, rise: 300ms, fall: 1s}\n",
			shape: shape{servers: 1, workers: 8},
			crowds: []crowd{
				{name: "charges", innocent: true, callers: 10, rate: 15, keys: "sk_shop_", target: charge},
				{name: "reads", callers: 30, rate: 60, keys: "sk_live_", target: get("/v1/items")},
				{name: "test suites", callers: 40, rate: 150, keys: "sk_test_", target: get("/v1/items")},
			},
		},
	}
}
