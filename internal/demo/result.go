package demo

import (
	"slices"
	"time"

	"github.com/leaseway/leaseway/internal/rate"
)

// Result is what was seen and judged. It is the JSON document of -o json; durations are in the unit that the name says.
type Result struct {
	Held        bool          `json:"held"` // no claim was missed
	Stopped     bool          `json:"stopped,omitempty"`
	Interrupted bool          `json:"interrupted,omitempty"` // stopped by Ctrl-C, not by q
	Seed        uint64        `json:"seed"`
	Seconds     float64       `json:"seconds"`
	Log         string        `json:"log,omitempty"`
	Traffic     Generator     `json:"traffic"`
	Notes       []string      `json:"notes,omitempty"`
	Redis       bool          `json:"redis,omitempty"` // has the counts
	Phases      []PhaseResult `json:"phases"`
	Claims      []Claim       `json:"claims"`
	Warnings    []string      `json:"warnings,omitempty"`
}

// Generator says how well the traffic kept to its schedule.
type Generator struct {
	Requests   int64   `json:"requests"`
	PerSecond  float64 `json:"perSecond"`
	Unanswered int64   `json:"unanswered"`
	LateP99Ms  float64 `json:"lateP99Ms"`
	LateMaxMs  float64 `json:"lateMaxMs"`
	Behind     bool    `json:"behind"` // too late to be what was meant
}

// PhaseResult is one phase.
type PhaseResult struct {
	Phase    Phase    `json:"phase"`
	Seconds  float64  `json:"seconds"`
	Judged   bool     `json:"judged"` // false if it was stopped too early for that
	Requests int64    `json:"requests"`
	Admitted int64    `json:"admitted"`
	Denied   int64    `json:"denied"`
	Failed   int64    `json:"failed"`                   // 5xx, or no answer
	Calls    int64    `json:"calls"`                    // of the API servers to the coordinator
	Late     int64    `json:"late"`                     // requests that waited for the coordinator in vain
	Local    int64    `json:"local"`                    // requests admitted by one server's share of a limit, beside the limit
	Runs     int64    `json:"redisFunctions,omitempty"` // that Redis ran for the coordinators
	Decision Decision `json:"decision"`
	Callers  []Line   `json:"callers"` // those with the most requests first
	Others   Line     `json:"others"`  // the rest together

	span  span
	redis bool   // has the counts
	lines []Line // all callers, in the order of the traffic
}

// CallsPer100 returns the calls to the coordinator for each 100 requests.
func (p *PhaseResult) CallsPer100() float64 { return per100(p.Calls, p.Requests) }

// Decision says how long decisions took, as the requests saw it: from the handler's first look to the first byte of an answer.
type Decision struct {
	P50Micros float64 `json:"p50Micros"`
	P99Micros float64 `json:"p99Micros"`
	MaxMicros float64 `json:"maxMicros"`
}

// Line is one caller in one phase, or several together.
type Line struct {
	Caller   string         `json:"caller"`
	Note     string         `json:"note,omitempty"`
	Limit    float64        `json:"limitPerSecond,omitempty"`
	Burst    int64          `json:"burst,omitempty"`
	Demand   int64          `json:"demand"` // requests
	Admitted int64          `json:"admitted"`
	Each     [servers]int64 `json:"admittedPerServer"`
	Denied   int64          `json:"denied"`
	Failed   int64          `json:"failed"`
	Ideal    int64          `json:"ideal"`   // what one bucket in one place would have admitted
	Waiting  int64          `json:"waiting"` // tokens in its bucket at the end
	Asks     int64          `json:"asks"`    // messages about it to the coordinator

	// Fullest is the most that any stretch of time, of any length, saw beyond the rate, tokens: Burst at most.
	Fullest int64 `json:"fullest,omitempty"`
	// Share is what all servers together may admit without a coordinator or its store; 0 but in an outage.
	Share int64 `json:"fallbackShare,omitempty"`
	// Alone is what they admitted of it.
	Alone int64 `json:"admittedAlone,omitempty"`

	bucket rate.Bucket
}

// Capped reports whether the caller wanted more than its limit allows.
func (l *Line) Capped() bool { return l.Ideal < l.Demand }

// AsksPer100 returns the messages to the coordinator for each 100 requests.
func (l *Line) AsksPer100() float64 { return per100(l.Asks, l.Demand) }

func per100(n, of int64) float64 {
	if of == 0 {
		return 0
	}

	return 100 * float64(n) / float64(of)
}

// newResult judges what s has seen.
func newResult(s *show) *Result {
	r := &Result{
		Stopped: s.stopped, Interrupted: s.interrupted, Seed: s.cfg.Seed, Log: s.cfg.Log, Redis: s.cfg.Redis, Notes: s.traffic.notes,
		Seconds: max(0, float64(s.marks.end-s.marks.start)/1e6),
	}

	var (
		spans = s.marks.spans(s.cfg.Redis)
		all   = arrivals(s.sender.events, len(s.traffic.callers))
	)

	for i, span := range spans {
		cut := s.stopped && i == len(spans)-1
		r.Phases = append(r.Phases, PhaseResult{
			Phase: span.phase, Seconds: span.seconds(), Judged: !cut || span.seconds() >= judgedFrom,
			span: span, redis: s.cfg.Redis, lines: make([]Line, len(all)),
		})
	}

	for i, c := range s.traffic.callers {
		for j, v := range compare(c.bucket, all[i], spans, i < len(s.out) && s.out[i]) {
			p := &r.Phases[j]
			p.lines[i] = s.line(i, within(all[i], p.span), p.Phase)
			p.lines[i].Ideal, p.lines[i].Waiting = v.ideal, v.waiting
		}
	}

	for i := range r.Phases {
		s.sum(&r.Phases[i])
	}

	r.Traffic = generator(s.sender.events, r.Seconds)
	r.judge()
	r.warn(s.lost)

	return r
}

// line is caller i in a phase, but for what the ideal says.
func (s *show) line(i int, a []arrival, p Phase) Line {
	c := s.traffic.callers[i]
	l := Line{Caller: c.key, Note: c.note, Limit: c.limit, Burst: c.bucket.Burst, bucket: c.bucket, Demand: int64(len(a))}

	for _, x := range a {
		if x.admitted {
			l.Admitted++
			l.Each[x.server]++
		}
	}

	polls := s.polls[p]
	if polls == nil {
		return l
	}

	for j := range servers {
		l.Asks += max(0, polls[1].stats[j].Keys[i].Asks-polls[0].stats[j].Keys[i].Asks)
	}

	if p != Outage {
		l.Fullest = fullest(c.bucket, admissions(a))
		if p == Failover && i < len(s.out) && s.out[i] {
			l.Share = fallbackShare(c.bucket, make([]int64, servers), s.marks.out())
		}

		return l
	}

	balances := make([]int64, servers)
	for j := range servers {
		balances[j] = polls[0].stats[j].Keys[i].Balance
	}

	since := within(a, span{from: polls[0].to, to: 1 << 62})
	l.Alone = int64(len(admissions(since)))

	if len(since) > 0 {
		l.Share = fallbackShare(c.bucket, balances, since[len(since)-1].after-polls[0].to)
	}

	return l
}

// shown is how many callers have a line of their own.
const shown = 8

// sum adds up what the phase's requests met.
func (s *show) sum(p *PhaseResult) {
	index := make([]int, len(p.lines))
	for i := range index {
		index[i] = i
	}

	var nanos []int32

	for _, e := range s.sender.events {
		if e.before < p.span.from || e.before >= p.span.to {
			continue
		}

		p.Requests++
		l := &p.lines[e.caller]

		switch {
		case e.admitted():
			p.Admitted++
		case e.denied():
			p.Denied++
			l.Denied++
		default:
			p.Failed++
			l.Failed++
		}

		if e.status != 0 {
			nanos = append(nanos, e.nanos)
		}
	}

	slices.Sort(nanos)
	p.Decision = Decision{
		P50Micros: micros(percentile(nanos, 50)), P99Micros: micros(percentile(nanos, 99)), MaxMicros: micros(percentile(nanos, 100)),
	}

	if polls := s.polls[p.Phase]; polls != nil {
		for j := range servers {
			p.Calls += polls[1].stats[j].Calls - polls[0].stats[j].Calls
			p.Late += polls[1].stats[j].Late - polls[0].stats[j].Late
			p.Local += polls[1].stats[j].Local - polls[0].stats[j].Local
		}

		p.Runs = polls[1].runs - polls[0].runs
	}

	slices.SortStableFunc(index, func(a, b int) int { return int(p.lines[b].Demand - p.lines[a].Demand) })

	for n, i := range index {
		if n < shown {
			p.Callers = append(p.Callers, p.lines[i])
		} else {
			p.Others.add(p.lines[i])
		}
	}
}

func (l *Line) add(o Line) {
	l.Caller = "all others"
	l.Demand += o.Demand
	l.Admitted += o.Admitted
	l.Denied += o.Denied
	l.Failed += o.Failed
	l.Ideal += o.Ideal
	l.Asks += o.Asks

	for i, n := range o.Each {
		l.Each[i] += n
	}
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// lateMost is the lateness, of 99 in 100 requests, up to which traffic still counts as what was meant.
const lateMost = 50 * time.Millisecond

func generator(events []event, seconds float64) Generator {
	g := Generator{Requests: int64(len(events))}

	late := make([]int32, 0, len(events))
	for _, e := range events {
		late = append(late, e.late)

		if e.status == 0 {
			g.Unanswered++
		}
	}

	slices.Sort(late)

	g.PerSecond = float64(g.Requests) / max(seconds, 1e-6)
	p99, most := percentile(late, 99), percentile(late, 100) // µs, where durations count ns
	g.LateP99Ms, g.LateMaxMs = float64(p99)/1e3, float64(most)/1e3
	g.Behind = p99 > time.Duration(lateMost.Microseconds())

	return g
}
