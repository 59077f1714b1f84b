package rulespec

// sheddersFields are the keys of shedders.
func sheddersFields() []Field {
	share := func() Value {
		return Value{Type: "percentage", Low: "1%", High: "99%", schema: object{"type": "string", "pattern": "^[1-9][0-9]?%$"}}
	}
	mode := Field{
		Name: "mode", Value: words("enforce", "shadow", "off"), Default: `"enforce"`,
		Doc: "`shadow` decides and counts, and never refuses.",
	}
	return []Field{
		{Name: "worker", Value: mapOf([]Field{
			mode,
			{
				Name: "high", Value: Value{Type: "percentage", Low: "2%", High: "100%", schema: object{"type": "string", "pattern": "^([2-9]|[1-9][0-9]|100)%$"}},
				Default: `"90%"`, Doc: "Above this load more is shed.",
			},
			{Name: "low", Value: share(), Default: `"75%"`, Doc: "Below this load less is shed; between the two nothing changes."},
			{Name: "rise", Value: span("100ms", "10m"), Default: `"2s"`, Doc: "How long the load must be high until one class more is shed as a whole."},
			{Name: "fall", Value: span("100ms", "10m"), Default: `"10s"`, Doc: "How long it must be low until one class is back. No shorter than `rise`."},
			{
				Name: "hold", Value: span("100ms", "10m"), Doc: "Instead of `fall`: how long it must be low until nothing is shed any more, however much it was; " +
					"shedding does not begin again for as long after that. [Short ones](decisions/0036-what-was-shed-comes-back-slowly.md) let the load swing.",
			},
			{Name: "stale", Value: span("1s", "10m"), Default: `"5s"`, Doc: "For how long the last load is believed when nothing is heard of it any more. Then nothing is shed."},
			{Name: "inFlight", Value: whole("1", "1000000000"), Doc: "How many requests at once are a load of 100 %. Left out, they are not looked at."},
			{Name: "queueWait", Value: span("1ms", "10m"), Doc: "The mean wait before a request begins that is a load of 100 %. Left out, it is not looked at."},
		}), Doc: "In each server by itself: while it is busy, what matters less is refused."},
		{Name: "fleet", Value: mapOf([]Field{
			mode,
			{Name: "reserve", Value: share(), Default: `"20%"`, Doc: "The share of the capacity that only critical requests get."},
			{
				Name: "capacity", Default: `"workers"`, Value: Value{
					Type: "whole number, or `workers`", schema: object{"anyOf": list{object{"type": "integer", "minimum": 1, "maximum": 1_000_000_000}, object{"const": "workers"}}},
				},
				Doc: "How many requests the whole fleet serves at once; `workers` is the sum of what live servers announce.",
			},
		}), Doc: "Over all servers: a share of what they can do stays free for critical requests."},
	}
}

// sheddersText is what the page says about shedders.
const sheddersText = `
### Shedders

A rule protects an API from a caller. A shedder protects it from all of them together: while the system is busy, what matters
less is refused with 503 and a ` + "`Retry-After`" + `, whoever asks. Critical requests are never shed.

The **worker shedder** is in each server by itself. While the load of that server is above ` + "`high`" + ` it drops test traffic, then
reads, then writes, a whole class more in each ` + "`rise`" + `; while it is below ` + "`low`" + ` they come back, one class in each ` + "`fall`" + `; in between
nothing changes. Within a class callers are dropped one after the other, always the same ones first, and the others notice
nothing. The load is smoothed over half of ` + "`rise`" + `. It is the highest that the server knows of:

| load | how the server knows it |
|---|---|
| busy workers / workers | ` + "`leaseway.WithWorkers(n)`, `leaseway proxy --workers`" + `, and the middleware, which counts the requests that handlers are at |
| requests in flight / ` + "`inFlight`" + ` | the middleware |
| wait before a request begins / ` + "`queueWait`" + ` | the middleware, by the ` + "`X-Request-Start`" + ` of a trusted proxy; ` + "`Limiter.Begin`" + `; for a wait behind the middleware, as for a worker of a pool, ` + "`Limiter.Waited`" + ` |
| processor time used / allowed, by the cgroup or else the machine | ` + "`leaseway.WithCPU()`, `--measure-cpu` of `leaseway serve` and `leaseway proxy`" + ` |
| anything else, as a share of 1 | ` + "`leaseway.WithSignal(name, function)`" + ` |

A load that is not known sheds nothing: after ` + "`stale`" + ` the shedder is off, and says so in the log and in
` + "`leaseway_shed_stale`" + `. ` + "`leaseway_shed_total`" + ` counts what was refused and what would have been in shadow mode, by class;
` + "`leaseway_shed_level`" + ` is how much is shed now.

` + "```yaml" + `
shedders:
  worker: {high: 85%, low: 70%, mode: shadow}
` + "```" + `

The fleet shedder lets a request that is not critical begin while fewer such requests than the capacity without the reserve, and
fewer requests than the capacity, are in flight over all servers. Critical ones are counted and never refused. Servers announce
what they can do with ` + "`leaseway.WithWorkers(n)`, a proxy with `leaseway proxy --workers`" + `; when one comes or goes the capacity follows without a jump, over some
seven seconds. One that stops in good order says so; one that crashes counts, as does what was in flight there, until the fleet
gives it up, ten seconds after it was last heard of. It counts what is served behind the middleware, and requests of programs that set ` + "`Request.Finishes`" + ` and call
` + "`Limiter.Done`" + `. While no coordinator answers, or nobody has announced anything, it lets everything pass.

A request goes through one chain: kill switch, worker shedder, fleet shedder, ` + "`concurrency`" + ` rules, all other rules. What an earlier
stage took is given back when a later one refuses.
`
