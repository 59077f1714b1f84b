package leaseway_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// A thousand at once, of whom ten may be in flight: ten are, and all slots come back.
func TestAThousandAtABarrier(t *testing.T) {
	t.Parallel()

	l := embedded(t, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 10}]")

	var (
		inFlight, most, admitted atomic.Int64
		start                    = make(chan struct{})
		over                     = make(chan struct{})
		decided, work            sync.WaitGroup
	)

	for range 1000 {
		decided.Add(1)
		work.Go(func() {
			<-start

			d := l.Decide(t.Context(), leaseway.Request{User: "u"})
			if d.Allowed {
				admitted.Add(1)
				raise(&most, inFlight.Add(1))
			} else if d.Reason != leaseway.ReasonTooManyInFlight || d.RetryAfter <= 0 || d.HoldsSlot() {
				t.Errorf("refused with %+v", d)
			}

			decided.Done()
			<-over

			if d.Allowed {
				inFlight.Add(-1)
			}

			l.Done(d)
		})
	}

	close(start)
	decided.Wait()

	if admitted.Load() != 10 || most.Load() != 10 {
		t.Errorf("%d of 1000 were admitted, %d at a time; want 10", admitted.Load(), most.Load())
	}

	close(over)
	work.Wait()

	d := l.Decide(t.Context(), leaseway.Request{User: "u"})
	if !d.Allowed || d.Remaining != 9 || !d.InFlight() || d.Limit != 10 {
		t.Errorf("after all were done: %+v, want 9 more", d)
	}
}

func raise(most *atomic.Int64, n int64) {
	for {
		if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
			return
		}
	}
}

// A cost is that many slots.
func TestACostIsThatManySlots(t *testing.T) {
	t.Parallel()

	l := embedded(t, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 10}]")

	var ds []leaseway.Decision
	for range 4 {
		ds = append(ds, l.Decide(t.Context(), leaseway.Request{User: "u", Cost: 8}))
	}

	if !ds[0].Allowed || ds[1].Allowed || ds[2].Allowed || ds[3].Allowed {
		t.Errorf("four of 8 slots under a limit of 10: %+v", ds)
	}

	if n := l.Stats().Slots[0].InFlight; n != 8 {
		t.Errorf("%d are in flight, want the 8 of the first", n)
	}

	if d := l.Decide(t.Context(), leaseway.Request{User: "u", Cost: 11}); d.Reason != leaseway.ReasonCostExceedsLimit || d.RetryAfter != 0 {
		t.Errorf("11 slots under a limit of 10: %+v", d)
	}

	for range 3 { // once is enough, more does no harm
		l.Done(ds[0])
	}

	a := l.Decide(t.Context(), leaseway.Request{User: "u", Cost: 8})
	l.Done(ds[0]) // another's slot by now

	if b := l.Decide(t.Context(), leaseway.Request{User: "u", Cost: 8}); !a.Allowed || b.Allowed {
		t.Errorf("8 of 10 are in flight again, and 8 more are: %v", b.Allowed)
	}
}

// A slot is given back once, and by the decision that got it: by none that was refused, is empty, or is another process's.
func TestASlotIsGivenBackByWhoGotIt(t *testing.T) {
	t.Parallel()

	const rules = "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 5}]"

	l, other := embedded(t, rules), embedded(t, rules)
	req := leaseway.Request{User: "u"}

	var ds []leaseway.Decision
	for range 6 {
		ds = append(ds, l.Decide(t.Context(), req))
	}

	if !ds[4].Allowed || ds[5].Allowed {
		t.Fatalf("of six under a limit of 5: %+v", ds)
	}

	foreign := other.Decide(t.Context(), req)

	for range 3 {
		l.Done(leaseway.Decision{})
		l.Done(leaseway.Decision{Allowed: true, Rule: "r"})
		l.Done(ds[5])
		l.Done(foreign)
	}

	if n := l.Stats().Slots[0].InFlight; n != 5 || l.Decide(t.Context(), req).Allowed {
		t.Errorf("%d are in flight, want all 5, and no sixth", n)
	}

	for range 3 {
		l.Done(ds[0])
	}

	if n := l.Stats().Slots[0].InFlight; n != 4 {
		t.Errorf("%d are in flight after one was given back three times, want 4", n)
	}
}

// What one rule took comes back when another refuses.
func TestAllOrNothingWithOtherRules(t *testing.T) {
	t.Parallel()

	l := embedded(t, `rules:
  - {id: both, keyBy: user, algorithm: concurrency, limit: 5}
  - {id: all, algorithm: concurrency, limit: 3}
  - {id: rate, keyBy: user, limit: 2, window: 1h}`)

	req := leaseway.Request{User: "u"}
	first, second := l.Decide(t.Context(), req), l.Decide(t.Context(), req)

	if third := l.Decide(t.Context(), req); third.Allowed || third.Rule != "rate" || third.HoldsSlot() {
		t.Errorf("a third in the hour: %+v", third)
	}

	other := l.Decide(t.Context(), leaseway.Request{User: "v"})
	if !first.Allowed || !second.Allowed || !other.Allowed {
		t.Fatalf("three that all rules allow: %+v, %+v, %+v", first, second, other)
	}

	if d := l.Decide(t.Context(), leaseway.Request{User: "w"}); d.Allowed || d.Rule != "all" {
		t.Errorf("a fourth in flight: %+v", d)
	}

	l.Refund(first) // gives back the token, and the slot
	l.Done(second)

	if d := l.Decide(t.Context(), req); !d.Allowed {
		t.Errorf("after a refund and a release: %+v", d)
	}
}

// A shadow rule counts what is in flight, and refuses nobody.
func TestAShadowOfWhatIsInFlight(t *testing.T) {
	t.Parallel()

	l := embedded(t, "rules: [{id: r, algorithm: concurrency, limit: 2, mode: shadow, queue: {size: 5, wait: 1m}}]")

	var ds []leaseway.Decision
	for range 3 {
		ds = append(ds, l.Decide(t.Context(), leaseway.Request{}))
	}

	if !ds[2].Allowed || ds[1].ShadowDenied != "" || ds[2].ShadowDenied != "r" {
		t.Errorf("a third under a shadow limit of 2: %+v", ds)
	}

	for _, d := range ds {
		l.Done(d)
	}

	if d := l.Decide(t.Context(), leaseway.Request{}); d.ShadowDenied != "" {
		t.Errorf("after all are done: %+v", d)
	}
}

// Those who wait are served by class, then in order; the queue has an end, and waiting too.
func TestAQueueServesByClass(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		l := embedded(t, "rules: [{id: r, algorithm: concurrency, limit: 1, queue: {size: 3, wait: 1m}}]")
		first := l.Decide(t.Context(), leaseway.Request{})

		served := make(chan string, 3)
		queue := func(name string, method string) {
			go func() {
				d := l.Decide(t.Context(), leaseway.Request{Method: method})
				if d.Allowed {
					served <- name
				}

				l.Done(d)
			}()

			synctest.Wait() // it stands in line
		}

		queue("read 1", "GET")
		queue("write", "POST")
		queue("read 2", "GET")

		if s := l.Stats().Slots[0]; s.Queued != 3 || s.InFlight != 1 {
			t.Errorf("one in flight and three wait: %+v", s)
		}

		if d := l.Decide(t.Context(), leaseway.Request{}); d.Allowed || d.Reason != leaseway.ReasonTooManyInFlight {
			t.Errorf("a fourth in a queue of 3: %+v", d)
		}

		l.Done(first)

		for _, want := range []string{"write", "read 1", "read 2"} {
			if got := <-served; got != want {
				t.Errorf("served %q, want %q", got, want)
			}
		}
	})
}

// Who has waited for as long as the rule says is refused, and who goes away leaves at once.
func TestWaitingInAQueueEnds(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		l := embedded(t, "rules: [{id: r, algorithm: concurrency, limit: 1, queue: {size: 3, wait: 5s}}]")
		first := l.Decide(t.Context(), leaseway.Request{})
		start := time.Now()

		if d := l.Decide(t.Context(), leaseway.Request{}); d.Allowed || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %+v, want a refusal after 5s", time.Since(start), d)
		}

		if s := l.Stats().Slots[0]; s.Longest < 5*time.Second || s.Longest > 6*time.Second {
			t.Errorf("one has been in flight for 5 s: %+v", s)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		start = time.Now()
		if d := l.Decide(ctx, leaseway.Request{}); d.Allowed || time.Since(start) != time.Second || l.Stats().Slots[0].Queued != 0 {
			t.Errorf("its caller left after 1s, and after %v: %+v", time.Since(start), d)
		}

		l.Done(first)

		if d := l.Decide(t.Context(), leaseway.Request{}); !d.Allowed {
			t.Errorf("after all: %+v", d)
		}
	})
}

// Requests that come, wait, are canceled and end at random leave nothing behind: no slot, no place in the queue, no goroutine. It is
// by itself, so that the goroutines are its own.
func TestCanceledWaitersLeaveNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()

	l, err := leaseway.Embedded(parsedRules(t, "rules: [{id: r, algorithm: concurrency, limit: 1, queue: {size: 100, wait: 1m}}]"))
	if err != nil {
		t.Fatal(err)
	}

	var (
		inFlight, most atomic.Int64
		work           sync.WaitGroup
	)

	for i := range 500 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(3, uint64(i)))

			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(2000))*time.Microsecond)
				d := l.Decide(ctx, leaseway.Request{})

				if d.Allowed {
					raise(&most, inFlight.Add(1))

					if random.IntN(2) == 0 {
						<-ctx.Done()
					}

					inFlight.Add(-1)
				}

				l.Done(d)
				cancel()
			}
		})
	}

	work.Wait()

	if s := l.Stats().Slots[0]; s.InFlight != 0 || s.Queued != 0 || most.Load() != 1 {
		t.Errorf("at the end %+v, and %d were in flight at a time; want none, and 1", s, most.Load())
	}

	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}

	goleak.VerifyNone(t, before)
}

// What an admission and its end cost when a slot is idle here.
func BenchmarkSlot(b *testing.B) {
	l := embedded(b, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 1000000}]")
	r, err := l.Rule("r")
	if err != nil {
		b.Fatal(err)
	}

	b.Run("Take and Done", func(b *testing.B) {
		b.ReportAllocs()

		for b.Loop() {
			l.Done(r.Take("u"))
		}
	})
	b.Run("Decide and Done", func(b *testing.B) {
		b.ReportAllocs()

		for b.Loop() {
			l.Done(l.Decide(b.Context(), leaseway.Request{User: "u"}))
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				l.Done(r.Take("u"))
			}
		})
	})
}

// hanging is a coordinator that never answers, though it takes every call.
type hanging struct{ rules *rule.Set }

func (hanging) Acquire(ctx context.Context, _ *ledger.Batch) (*ledger.Answers, error) {
	<-ctx.Done()

	return nil, ctx.Err()
}

func (h hanging) Watch(ctx context.Context, _ uint64, apply func(*rule.Set) error) error {
	if err := apply(h.rules); err != nil {
		return err
	}

	<-ctx.Done()

	return ctx.Err()
}

// While a coordinator hangs nobody waits for longer than the deadline, and what is
// in flight stays within this server's share.
func TestACoordinatorThatHangsHoldsNobodyUp(t *testing.T) {
	t.Parallel()

	synctest.Test(t, func(t *testing.T) {
		set, err := rule.Parse("r", []byte("rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 10}]"))
		if err != nil {
			t.Fatal(err)
		}

		l, err := leaseway.Over(t.Context(), hanging{set.Next(nil, 1)}, leaseway.WithDeadline(20*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}

		var (
			work    sync.WaitGroup
			allowed atomic.Int64
		)

		for i := range 300 {
			work.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // virtual time

				start := time.Now()
				d := l.Decide(t.Context(), leaseway.Request{User: "u"})

				if took := time.Since(start); took > 25*time.Millisecond {
					t.Errorf("a request waited %v", took)
				}

				if d.Allowed {
					allowed.Add(1)
				}
			})
		}

		work.Wait()

		if n := allowed.Load(); n != 10 {
			t.Errorf("%d are in flight, want the share of a lone server, which is all 10", n)
		}

		if err := l.Close(t.Context()); err != nil && t.Context().Err() != nil {
			t.Error(err)
		}
	})
}

// The fleet shedder counts those that say when they are over, and nobody else.
func TestTheFleetShedder(t *testing.T) {
	t.Parallel()

	l := embedded(t, "rules: []\nshedders: {fleet: {capacity: 10}}")

	for range 100 {
		if d := l.Decide(t.Context(), leaseway.Request{Method: "GET"}); !d.Allowed || d.HoldsSlot() {
			t.Fatalf("a request that may never be done: %+v", d)
		}
	}

	req := leaseway.Request{Method: "GET", Finishes: true}

	var ds []leaseway.Decision
	for range 8 {
		ds = append(ds, l.Decide(t.Context(), req))
	}

	d := l.Decide(t.Context(), req)
	if d.Allowed || d.Reason != leaseway.ReasonShedFleet || d.RetryAfter != time.Second || d.Matched() || !ds[7].HoldsSlot() {
		t.Errorf("a ninth read: %+v", d)
	}

	critical := req
	critical.Class = rule.ClassCritical

	for range 20 {
		if d := l.Decide(t.Context(), critical); !d.Allowed || !d.HoldsSlot() {
			t.Errorf("a critical one: %+v", d)
		}
	}

	s := l.Stats().Shedders
	if len(s) != 1 || s[0].Limiter != rule.LimiterFleet || s[0].Refused[rule.ClassRead] != 1 || s[0].InFlight != 28 || s[0].Capacity != 10 {
		t.Errorf("got %+v", s)
	}
}

// Who has waited in a queue still gets all the time that there is to hear of its other rules.
func TestAQueueDoesNotUseUpTheDeadline(t *testing.T) {
	t.Parallel()

	f := newFleet(t, `rules:
  - {id: slots, keyBy: global, algorithm: concurrency, limit: 1, queue: {size: 5, wait: 1m}}
  - {id: a, keyBy: user, limit: 10, window: 1h, onUnavailable: deny}
  - {id: b, keyBy: user, limit: 10, window: 1m, onUnavailable: deny}`, 1, leaseway.WithDeadline(5*time.Second))
	l := f.holders[0]
	first := l.Decide(t.Context(), leaseway.Request{User: "first"})
	waited := make(chan leaseway.Decision)

	go func() { waited <- l.Decide(t.Context(), leaseway.Request{User: "second"}) }()

	time.AfterFunc(6*time.Second, func() { l.Done(first) })

	if d := <-waited; !d.Allowed {
		t.Errorf("after six seconds in a queue: %+v", d)
	}
}
