package leaseway

import (
	"context"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/load"
	"github.com/leaseway/leaseway/internal/shed"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// shedder is the worker shedder of a Limiter: it measures the load of the
// process now and then, moves the level, and drops requests by it.
type shedder struct {
	table   *table.Table
	logger  *slog.Logger
	workers int64
	meter   load.Meter
	cpu     *load.CPU // nil: not measured
	signals []signal
	tells   atomic.Bool   // of a Stepped: it is told a load
	told    atomic.Uint64 // which one, as bits of a float64

	level    atomic.Uint64 // S as bits of a float64; 0 while nothing is shed
	stepped  atomic.Int64  // when, µs on the table's clock
	measures atomic.Bool   // Begin and End are of use
	unknown  atomic.Uint64 // requests whose callers nobody can tell apart
	refused  [classes]atomic.Int64
	shadowed [classes]atomic.Int64
	seen     atomic.Pointer[sight]

	worker shed.Worker // of the goroutine that samples alone
	said   bool        // that there is no signal; likewise
}

// classes is how many classes there are, ClassUnset included.
const classes = int(rule.ClassCritical) + 1

// signal is a load that the program tells.
type signal struct {
	name    string
	read    func() float64
	watched *load.Watched
}

// sight is what was last seen of the load.
type sight struct {
	stale bool
	loads []Load
}

const (
	sampleEvery = 100 * time.Millisecond
	sampleIdle  = time.Second // without a shedder in the rules
	// answerWithin is how long the loads that the program tells are waited for.
	answerWithin = 50 * time.Millisecond

	shedLeast = time.Second
	shedMost  = 30 * time.Second
)

func newShedder(t *table.Table, o *options) *shedder {
	s := &shedder{table: t, logger: o.logger, workers: o.workers}
	s.measures.Store(o.workers > 0)

	if o.cpu {
		s.cpu = load.NewCPU(os.DirFS("/"))
	}

	for _, told := range o.signals {
		told.watched = load.Watch(told.read)
		s.signals = append(s.signals, told)
	}

	return s
}

// run samples until ctx ends.
func (s *shedder) run(ctx context.Context) {
	pause := time.NewTimer(sampleIdle)
	defer pause.Stop()

	for {
		config := s.table.Set().Shedders.Worker
		s.sample(ctx, s.table.Now(), config)

		if config != nil {
			pause.Reset(sampleEvery)
		} else {
			pause.Reset(sampleIdle)
		}

		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// sample looks at the load since the last time, and moves the level.
func (s *shedder) sample(ctx context.Context, now int64, c *rule.WorkerShedder) {
	if c == nil || c.Mode == rule.Off {
		s.worker = shed.Worker{}
		s.level.Store(0)
		s.seen.Store(nil)
		s.measures.Store(s.workers > 0)

		return
	}

	s.measures.Store(s.workers > 0 || c.InFlight > 0 || c.QueueWait > 0)

	loads := s.loads(ctx, now, c)
	if len(loads) == 0 {
		s.deaf()

		return
	}

	was := s.worker.Stale()
	s.worker.Step(now, shedConfig(c), highest(loads))
	s.level.Store(math.Float64bits(s.worker.Level()))
	s.stepped.Store(now)
	s.seen.Store(&sight{stale: s.worker.Stale(), loads: loads})

	switch is := s.worker.Stale(); {
	case is && !was:
		s.logger.Warn("the load of this process is not known any more: the worker shedder lets everything pass until it is")
	case was && !is:
		s.logger.Info("the load of this process is known again")
	}
}

// deaf is a process without any signal. It is said once: not all that follow the
// rules of an API serve it, such as its coordinators.
func (s *shedder) deaf() {
	if s.seen.Swap(nil) != nil || !s.said {
		s.said = true

		s.logger.Info("the rules have a worker shedder, which sheds nothing in this process: " +
			"WithWorkers (--workers of leaseway proxy), WithCPU (--measure-cpu) or WithSignal would tell it the load")
	}

	s.worker = shed.Worker{}
	s.level.Store(0)
}

// loads are those of every signal that the process has, as shares of 1.
func (s *shedder) loads(ctx context.Context, now int64, c *rule.WorkerShedder) (loads []Load) {
	reading := s.meter.Read(now)

	if s.workers > 0 {
		loads = append(loads, Load{"workers", reading.Busy / float64(s.workers)})
	}

	if c.InFlight > 0 {
		loads = append(loads, Load{"inFlight", reading.Busy / float64(c.InFlight)})
	}

	if c.QueueWait > 0 {
		loads = append(loads, Load{"queueWait", reading.Wait / float64(c.QueueWait.Microseconds())})
	}

	if s.cpu != nil {
		loads = append(loads, Load{"cpu", s.cpu.Read(now)})
	}

	if s.tells.Load() {
		loads = append(loads, Load{"told", math.Float64frombits(s.told.Load())})
	}

	if len(s.signals) == 0 {
		return loads
	}

	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()

	for i := range s.signals {
		s.signals[i].watched.Ask()
	}

	for i := range s.signals {
		loads = append(loads, Load{s.signals[i].name, s.signals[i].watched.Answer(ctx.Done())})
	}

	return loads
}

// highest is the highest load that is known; NaN for none.
func highest(loads []Load) float64 {
	most := math.NaN()

	for _, l := range loads {
		if math.IsNaN(most) || l.Value > most {
			most = l.Value
		}
	}

	return most
}

func shedConfig(c *rule.WorkerShedder) shed.Config {
	return shed.Config{
		High: float64(c.High) / 100, Low: float64(c.Low) / 100,
		Rise: c.Rise.Microseconds(), Fall: c.Fall.Microseconds(), Hold: c.Hold.Microseconds(), Stale: c.Stale.Microseconds(),
	}
}

// sheds reports whether the worker shedder refuses the request, with d as its
// answer; if that meets a bug, it does not.
func (l *Limiter) sheds(s *scratch, d *Decision) bool {
	defer l.survived("deciding by the worker shedder")

	l.at(stageWorker)

	refused, refuses, shadowed := l.shedder.drops(&s.req, s.class.Lowered(s.req.LowerTo))

	switch {
	case refuses:
		*d = refused
	case shadowed:
		s.shed = ReasonShedWorker
		l.shadowed.shed(rule.LimiterWorker, &s.req)
	}

	return refuses
}

// drops decides a request of a class while the level is above 0. refused is for
// its answer, shadowed for what a shedder that only watches would have answered.
func (s *shedder) drops(req *Request, class rule.Class) (refused Decision, refuses, shadowed bool) {
	c := s.table.Set().Shedders.Worker
	if c == nil || class == rule.ClassCritical || class == rule.ClassUnset {
		return refused, false, false
	}

	// A sampler that has stopped sheds no more than a load that is not known.
	if s.table.Now()-s.stepped.Load() > c.Stale.Microseconds() {
		return refused, false, false
	}

	if off := s.table.Switches().OfLimiter(rule.LimiterWorker); off.Off && off.OffAt(time.UnixMicro(s.table.Wall())) {
		return refused, false, false
	}

	level, k, place := math.Float64frombits(s.level.Load()), int(class-rule.ClassTest), s.place(req)
	if !shed.Drops(level, k, place) {
		return refused, false, false
	}

	counts := &s.refused
	if c.Mode == rule.Shadow {
		counts = &s.shadowed
	}

	if !req.Peek {
		counts[class].Add(1)
	}

	if c.Mode == rule.Shadow {
		return refused, false, true
	}

	wait := time.Duration(shed.Wait(level, k, place, shedConfig(c))) * time.Microsecond

	return Decision{
		Reason: ReasonShedWorker, Class: class, RetryAfter: max(shedLeast, min(wait, shedMost)),
	}, true, false
}

// place is the place of a request's caller among all: its key, else its user,
// else its address (of IPv6 the network of 64 bits).
func (s *shedder) place(req *Request) float64 {
	switch {
	case req.APIKey != "":
		return shed.Place(req.APIKey)
	case req.User != "":
		return shed.Place(req.User)
	case req.IP.IsValid():
		return placeOf(req.IP.Unmap())
	default:
		return shed.Spread(s.unknown.Add(1))
	}
}

func placeOf(ip netip.Addr) float64 {
	const network = 8 // bytes

	if ip.Is4() {
		b := ip.As4()

		return shed.Place(text(b[:]))
	}

	b := ip.As16()

	return shed.Place(text(b[:network]))
}
