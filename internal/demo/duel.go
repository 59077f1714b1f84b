package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The durations that a scenario can take, and the usual one.
const (
	MinScenario   = 6 * time.Second
	UsualScenario = 9 * time.Second
	MaxScenario   = 10 * time.Minute
)

const (
	// settled is from when on requests are judged: by then the queue is as long as it gets without Leaseway, and a shedder has seen
	// that the load lasts.
	settled = 3 * time.Second
	// tellEvery is how often it is told how things stand.
	tellEvery = 2 * time.Second
	// emptyWithin is within which time after the last answer nothing may be in flight any more.
	emptyWithin = 3 * time.Second
)

// ScenarioConfig says which scenario to show.
type ScenarioConfig struct {
	Program  string        // the leaseway executable
	Scenario string        // one of Scenarios
	Duration time.Duration // of the traffic; from MinScenario to MaxScenario
	Seed     uint64        // of the traffic: the same seed, the same requests
	Say      func(line string)
}

// RunScenario sends the same requests at the same time to two APIs that differ in one thing, Leaseway, and judges what became of
// those who did nothing wrong. It ends with ctx. No process and no file is left behind. The error is for what could not be run.
//
//	                  ┌─HTTP─▶ servers without
//	crowds ──▶ each ──┤
//	                  └─HTTP─▶ servers with leasewayhttp ─gRPC─▶ coordinator
func RunScenario(ctx context.Context, cfg ScenarioConfig) (*Duel, error) {
	s, ok := scenarioOf(cfg.Scenario)
	if !ok {
		return nil, fmt.Errorf("there is no scenario %q: they are %s", cfg.Scenario, strings.Join(Scenarios(), ", "))
	}

	if cfg.Duration < MinScenario || cfg.Duration > MaxScenario {
		return nil, fmt.Errorf("a duration of %v is not within %v and %v", cfg.Duration, MinScenario, MaxScenario)
	}

	d := &duel{cfg: cfg, scenario: &s, fleet: &fleet{program: cfg.Program, client: &http.Client{Timeout: askWithin}}}
	defer d.close()

	if err := d.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, tooEarly(context.Cause(ctx))
		}

		return nil, err
	}

	d.introduce()
	d.send(ctx)

	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w before the end", ErrStopped)
	}

	return d.judge(ctx)
}

// duel is a scenario that runs.
type duel struct {
	cfg      ScenarioConfig
	scenario *scenario
	fleet    *fleet // its coordinator
	sides    [2]*side
}

// The sides.
const (
	without = iota
	with
)

func (d *duel) start(ctx context.Context) (err error) {
	if err := d.fleet.prepare(d.scenario.rules, 1); err != nil {
		return err
	}

	if err := d.fleet.startCoordinator(ctx, 0); err != nil {
		return err
	}

	if d.sides[without], err = startSide(ctx, d.cfg.Program, d.scenario); err != nil {
		return err
	}

	d.sides[with], err = startSide(ctx, d.cfg.Program, d.scenario,
		"--coordinator", d.fleet.grpc[0], "--coordinator-key", d.fleet.key)

	return err
}

func (d *duel) close() {
	for _, s := range d.sides {
		if s != nil {
			s.close()
		}
	}

	d.fleet.close()
}

func (d *duel) introduce() {
	d.cfg.Say(d.scenario.about)
	d.cfg.Say(fmt.Sprintf("A caller gives up after %v. The same requests go to two such APIs at once. One has Leaseway: %s.",
		patience, d.scenario.remedy))
}

// plan is one request of the schedule.
type plan struct {
	at     time.Duration
	crowd  int
	caller int
}

// schedule is when each crowd sends: evenly, but for a jitter of one interval.
func (d *duel) schedule() (all []plan) {
	rng := rand.New(rand.NewPCG(d.cfg.Seed, 0xd0e1))

	for i := range d.scenario.crowds {
		c := &d.scenario.crowds[i]
		every := float64(time.Second) / c.rate

		for n := range int(d.cfg.Duration.Seconds() * c.rate) {
			all = append(all, plan{
				at: time.Duration((float64(n) + rng.Float64()) * every), crowd: i, caller: n % c.callers,
			})
		}
	}

	slices.SortStableFunc(all, func(a, b plan) int { return int(a.at - b.at) })

	return all
}

// send sends everything to both sides, and returns when every answer is in, or soon after ctx has ended.
func (d *duel) send(ctx context.Context) {
	var (
		sending, telling sync.WaitGroup
		over             = make(chan struct{})
		start            = time.Now()
		timer            = time.NewTimer(0)
	)
	defer timer.Stop()

	telling.Go(func() { d.tell(start, over) })

	for i, next := range d.schedule() {
		if wait := time.Until(start.Add(next.at)); wait > 0 {
			timer.Reset(wait)

			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}

		if ctx.Err() != nil {
			break
		}

		c := &d.scenario.crowds[next.crowd]
		header := http.Header{"X-Api-Key": {c.keys + strconv.Itoa(next.caller)}}
		m := meeting{sent: next.at, late: time.Since(start) - next.at, crowd: next.crowd}

		for _, s := range d.sides {
			req := c.target.request("")
			req.Header = header

			s.address(req, i)
			sending.Go(func() { s.send(ctx, m, c, req) })
		}
	}

	sending.Wait()
	close(over)
	telling.Wait()
}

// tell says now and then how things stand, until over is closed.
func (d *duel) tell(start time.Time, over <-chan struct{}) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()

	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}

		words := func(share float64) string {
			if math.IsNaN(share) {
				return "no answer yet"
			}

			return fmt.Sprintf("%.0f %%", 100*share)
		}

		d.cfg.Say(fmt.Sprintf("%.0f s: served of the innocent since the last line: %s without Leaseway, %s with it.",
			time.Since(start).Seconds(), words(d.sides[without].share()), words(d.sides[with].share())))
	}
}

// empty waits until the servers with Leaseway have nothing in flight, and returns what they said last.
func (d *duel) empty(ctx context.Context) (workplaceStats, error) {
	const every = 50 * time.Millisecond

	deadline := time.Now().Add(emptyWithin)

	for {
		s, err := d.sides[with].stats(ctx)
		if err != nil || s.InFlight == 0 || time.Now().After(deadline) {
			return s, err
		}

		select {
		case <-ctx.Done():
			return s, errors.Join(ErrStopped, ctx.Err())
		case <-time.After(every):
		}
	}
}
