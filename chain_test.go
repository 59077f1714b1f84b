package leaseway_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// A thousand at a barrier go through the whole chain, shedders, slots with a queue, rates and shadows, and are canceled, ended
// twice, refunded or looked at, at random: never are more in flight than may be, and in the end nothing is.
func TestAThousandThroughTheWholeChain(t *testing.T) {
	t.Parallel()

	const slots, capacity = 20, 60

	l := embedded(t, `
classes: [{class: critical, scope: /critical}]
rules:
  - {id: slots, scope: [/slots, /critical], algorithm: concurrency, limit: 20, queue: {size: 100, wait: 50ms}}
  - {id: per-user, keyBy: user, algorithm: concurrency, limit: 5}
  - {id: rate, keyBy: user, limit: 1000, window: 1s}
  - {id: all, limit: 100000, window: 1s}
  - {id: watching, keyBy: user, algorithm: concurrency, limit: 1, mode: shadow}
  - {id: shadow, keyBy: user, limit: 1, window: 1h, mode: shadow}
shedders: {worker: {high: 50%, low: 40%, rise: 100ms, fall: 100ms, inFlight: 40}, fleet: {capacity: 60}}
`)

	var (
		inSlots, inFleet atomic.Int64
		mostSlots, most  atomic.Int64
		refused          sync.Map // by reason
		start            = make(chan struct{})
		crowded          = make(chan struct{}) // once half of the slots were taken at a time, which no machine is too slow for
		crowd            sync.Once
		work             sync.WaitGroup
	)

	for i := range 1000 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(11, uint64(i)))

			<-start

			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(20_000))*time.Microsecond)
				req := leaseway.Request{
					Path: []string{"/slots", "/critical", "/other"}[random.IntN(3)], Method: []string{"GET", "POST"}[random.IntN(2)],
					User: string(rune('a' + random.IntN(20))), Finishes: random.IntN(20) > 0, Peek: random.IntN(10) == 0,
					Class: []rule.Class{rule.ClassUnset, rule.ClassUnset, rule.ClassUnset, rule.ClassTest}[random.IntN(4)],
				}

				d := l.Decide(ctx, req)

				switch {
				case !d.Allowed:
					refused.Store(d.Reason, true)
				case !req.Peek:
					serve(l, random, &req, func() {
						if req.Path != "/other" && req.Class != rule.ClassTest {
							n := inSlots.Add(1)
							defer inSlots.Add(-1)

							raise(&mostSlots, n)

							if n >= slots/2 {
								crowd.Do(func() { close(crowded) })
							}

							select {
							case <-crowded:
							case <-time.After(time.Minute):
							}
						}

						if d.Class != rule.ClassCritical && req.Finishes {
							raise(&most, inFleet.Add(1))
							defer inFleet.Add(-1)
						}

						if random.IntN(2) == 0 {
							<-ctx.Done()
						}
					})
				}

				if random.IntN(5) == 0 {
					l.Refund(d)
				}

				l.Done(d)

				if random.IntN(3) == 0 {
					l.Done(d)
				}

				cancel()
			}
		})
	}

	close(start)
	work.Wait()

	s := l.Stats()
	for _, r := range s.Slots {
		if r.InFlight != 0 || r.Queued != 0 {
			t.Errorf("in the end %+v", r)
		}
	}

	for i := range s.Shedders {
		if s.Shedders[i].InFlight != 0 {
			t.Errorf("in the end %+v", s.Shedders[i])
		}
	}

	if m := mostSlots.Load(); m > slots || m < slots/2 {
		t.Errorf("up to %d had one of %d slots", m, slots)
	}

	if m := most.Load(); m > capacity*80/100 {
		t.Errorf("up to %d that are not critical were in flight, want %d at most", m, capacity*80/100)
	}

	for _, reason := range []leaseway.Reason{leaseway.ReasonTooManyInFlight, leaseway.ReasonShedFleet, leaseway.ReasonShedWorker} {
		if _, ok := refused.Load(reason); !ok {
			t.Logf("nobody was refused for %s", reason) // it depends on the machine
		}
	}

	if s.Panics != 0 {
		t.Errorf("%d panics", s.Panics)
	}
}

// serve is a handler's time: half of the requests are measured, as by the middleware.
func serve(l *leaseway.Limiter, random *rand.Rand, req *leaseway.Request, handler func()) {
	if req.Finishes || random.IntN(2) == 0 {
		l.Begin(time.Duration(random.IntN(1000)) * time.Microsecond)
		defer l.End()
	}

	handler()
}
