package demo

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/leaseway/leaseway/rule"
)

// The callers of the traffic that is made up, and what each wants, in requests a second. Limits are to be seen at work, so
// callers are either well above theirs or well below. All together want 2,900 a second: a third of what two processors sustain,
// who run callers, servers and coordinator, so that the figures are the limiter's and not those of a busy machine.
const (
	tenants      = 55
	largest      = 35.0 // tenant-01; tenant k wants 1/k^0.8 of it, by Zipf's law
	zipf         = 0.8
	crawlers     = 3
	crawlDemand  = 80
	payrollIdle  = 100.0
	payrollBurst = 1800.0
	wildDemand   = 1000
)

// syntheticRules are the rules of the traffic that is made up.
const syntheticRules = `# The rules of this demo.
rules:
  - id: per-key
    description: what one API key may do, over all servers together
    keyBy: apikey
    limit: 50
    window: 1s
    burst: 50
    overrides:
      - {key: acme, limit: 200, burst: 200}   # negotiated
identity:
  apikey: [X-API-Key]
`

// synthetic makes up traffic: tenants of very different size, a payroll run that comes in bursts, and a script that runs wild.
func synthetic(whole time.Duration, seed uint64) (*traffic, error) {
	set, err := rule.Parse("rules.yaml", []byte(syntheticRules))
	if err != nil {
		return nil, fmt.Errorf("the demo's own rules: %w", err)
	}

	s := &schedule{whole: whole, rng: rand.New(rand.NewPCG(seed, 0x1ea5e))}
	t := &traffic{rules: syntheticRules, rule: set.Rules[0].ID, next: s.next}

	s.add("acme", poisson(func(at time.Duration) float64 {
		if inBurst(whole, at) {
			return payrollBurst
		}

		return payrollIdle
	}))
	s.add("wild-script", paced(wildDemand))

	notes := map[string]string{"acme": "negotiated limit, payroll runs", "wild-script": "a loop without a pause"}

	for k := 1; k <= crawlers; k++ {
		key := fmt.Sprintf("crawler-%d", k)
		notes[key] = "comes too often"

		s.add(key, paced(crawlDemand))
	}

	var sum float64

	for k := 1; k <= tenants; k++ {
		demand := largest * math.Pow(float64(k), -zipf)
		sum += demand

		s.add(fmt.Sprintf("tenant-%02d", k), poisson(func(time.Duration) float64 { return demand }))
	}

	for _, source := range s.sources {
		key := source.target.header.Get("X-Api-Key")

		c, err := newCaller(set.Rules[0], key, notes[key])
		if err != nil {
			return nil, err
		}

		t.callers = append(t.callers, c)
	}

	t.about = []string{
		fmt.Sprintf("%d callers, told apart by API key. Each may make 50 requests/s, over all servers together, and 50 at once.",
			len(t.callers)),
		fmt.Sprintf("%d tenants stay below that (%.0f/s in all); %d crawlers want %d/s each; wild-script wants %d/s.",
			tenants, sum, crawlers, crawlDemand, wildDemand),
		fmt.Sprintf("acme has negotiated 200/s, and wants %.0f/s, or %.0f/s in its payroll runs, of which each phase has one.",
			payrollIdle, payrollBurst),
	}

	return t, nil
}

// poisson returns arrivals at random, at a rate (1/s) that may change with time.
func poisson(rate func(at time.Duration) float64) func(*rand.Rand, time.Duration) time.Duration {
	return func(rng *rand.Rand, at time.Duration) time.Duration {
		return at + time.Duration(rng.ExpFloat64()/rate(at)*float64(time.Second))
	}
}

// paced returns arrivals of a loop with perSecond turns, each of which takes half to one and a half times its due.
func paced(perSecond int) func(*rand.Rand, time.Duration) time.Duration {
	turn := time.Second / time.Duration(perSecond)

	return func(rng *rand.Rand, at time.Duration) time.Duration {
		return at + turn/2 + time.Duration(rng.Int64N(int64(turn)))
	}
}

// source is one caller's arrivals.
type source struct {
	target target
	caller int
	at     time.Duration // of the next
	after  func(*rand.Rand, time.Duration) time.Duration
}

// schedule merges the arrivals of all callers, as a heap by time.
type schedule struct {
	whole   time.Duration
	rng     *rand.Rand
	sources []*source
	queue   queue
}

func (s *schedule) add(key string, after func(*rand.Rand, time.Duration) time.Duration) {
	from := &source{
		caller: len(s.sources), after: after,
		target: target{method: http.MethodGet, path: "/v1/invoices", header: http.Header{"X-Api-Key": {key}}},
	}
	from.at = after(s.rng, 0)
	s.sources = append(s.sources, from)
	heap.Push(&s.queue, from)
}

func (s *schedule) next() (shot, bool) {
	from := s.queue[0]
	if from.at >= s.whole {
		return shot{}, false
	}

	next := shot{at: from.at, caller: from.caller, server: s.rng.IntN(servers), target: &from.target}
	from.at = from.after(s.rng, from.at)
	heap.Fix(&s.queue, 0)

	return next, true
}

// queue is a heap.Interface of sources, the earliest first.
type queue []*source

// Len, Less and Swap are sort.Interface.
func (q *queue) Len() int           { return len(*q) }
func (q *queue) Less(i, j int) bool { return (*q)[i].at < (*q)[j].at }
func (q *queue) Swap(i, j int)      { (*q)[i], (*q)[j] = (*q)[j], (*q)[i] }

// Push adds a *source.
func (q *queue) Push(x any) { *q = append(*q, x.(*source)) } //nolint:forcetypeassert // only add calls it

// Pop removes the last one.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]

	return last
}
