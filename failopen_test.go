package leaseway_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// everything has each limiter, and one key for all requests; %s is onUnavailable.
const everything = `
rules:
  - {id: slots, algorithm: concurrency, limit: 1000, onUnavailable: MODE}
  - {id: rate, limit: 10, window: 1h, onUnavailable: MODE}
  - {id: watched, limit: 1000, window: 1h, mode: shadow}
shedders:
  fleet: {capacity: 1000}
  worker: {}
`

// one is one rule alone, which a glance decides.
const one = "rules: [{id: rate, limit: 10, window: 1h, onUnavailable: MODE}]"

// trippable is a limiter under a document, of which what is logged is kept.
func trippable(t *testing.T, doc, mode string) (l *leaseway.Limiter, log *bytes.Buffer) {
	t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(strings.ReplaceAll(doc, "MODE", mode)))
	if err != nil {
		t.Fatal(err)
	}

	log = &bytes.Buffer{}

	l, err = leaseway.Embedded(set, leaseway.WithLogger(slog.New(slog.NewTextHandler(log, nil))), leaseway.WithWorkers(10),
		// Busy enough that the worker shedder is asked, and not so busy that it refuses what is not a test.
		leaseway.WithSignal("told", func() float64 { return 0.99 }))
	if err != nil {
		t.Fatal(err)
	}

	return l, log
}

func at(stage leaseway.Stage, do func()) func(leaseway.Stage) {
	return func(s leaseway.Stage) {
		if s == stage {
			do()
		}
	}
}

// A bug in any stage: the request is served, or what its rules say for an outage;
// it is counted each time, logged once, and what was taken is given back.
func TestABugInAnyStageIsNoOutage(t *testing.T) {
	const (
		tries = 20
		share = 8 // of 10, for a server alone
	)

	for name, c := range map[string]struct {
		doc   string
		stage leaseway.Stage
		// how many of the tries are served, by onUnavailable
		allow, local, deny int
		spent              int // tokens of 10 that the tries cost
	}{
		"kill switches": {everything, leaseway.StageSwitch, tries, tries, tries, 0},
		"matching":      {everything, leaseway.StageMatch, tries, tries, tries, 0},
		// The shedders alone are left out: the rules decide.
		"worker shedder": {everything, leaseway.StageWorker, 10, 10, 10, 10},
		"fleet shedder":  {everything, leaseway.StageFleet, 10, 10, 10, 10},
		// From here on it is an outage of the rules that matched, once their leases are spent.
		"keys":        {everything, leaseway.StageKeys, tries, tries, 0, 0},
		"concurrency": {everything, leaseway.StageSlots, tries, share, 0, 0},
		"rates":       {everything, leaseway.StageRate, tries, share, 0, 0},
		"after rates": {everything, leaseway.StageRated, tries, share, 0, 0},
		// What only watches changes nothing.
		"shadow":        {everything, leaseway.StageShadow, 10, 10, 10, 10},
		"at a glance":   {one, leaseway.StageQuick, tries, share, 0, 0},
		"before a rule": {one, leaseway.StageMatch, tries, tries, tries, 0},
	} {
		for mode, served := range map[string]int{"allow": c.allow, "local": c.local, "deny": c.deny} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, log := trippable(t, c.doc, mode)
					defer l.Close(context.Background())

					time.Sleep(time.Second) // until the level of the worker shedder is above 0
					l.Trip(at(c.stage, func() { panic("a bug") }))

					allowed := 0

					for range tries {
						d := l.Decide(t.Context(), leaseway.Request{Method: "POST", Finishes: true})
						if d.Allowed {
							allowed++
						} else if mode == "deny" && d.Reason == leaseway.ReasonUnavailable && d.RetryAfter <= 0 {
							t.Errorf("refused by %q without a time to come back", d.Rule)
						}

						l.Done(d)
					}

					// In an outage the lease is spent first, of which there may be none.
					if most := map[bool]int{true: 10, false: served}[served == share]; allowed < served || allowed > most {
						t.Errorf("%d of %d served, want %d to %d", allowed, tries, served, most)
					}

					s := l.Stats()

					bugs := tries
					if c.stage == leaseway.StageShadow { // who is refused is not watched
						bugs = 10
					}

					if s.Panics < int64(bugs) {
						t.Errorf("%d panics counted, want %d", s.Panics, bugs)
					}

					if n := strings.Count(log.String(), "recovered a panic"); n != 1 {
						t.Errorf("%d panics logged, want 1:\n%s", n, log)
					}

					l.Trip(nil)
					nothingInFlight(t, l)

					if mode != "allow" {
						return
					}

					left := 0
					for l.Decide(t.Context(), leaseway.Request{Method: "POST"}).Allowed {
						left++
					}

					if left != 10-c.spent {
						t.Errorf("%d tokens left, want %d", left, 10-c.spent)
					}
				})
			})
		}
	}
}

// A bug while a request ends, or is refunded, loses neither its slots nor its tokens.
func TestABugAtTheEndGivesBackAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := trippable(t, everything, "allow")
		defer l.Close(context.Background())

		for _, stage := range []leaseway.Stage{leaseway.StageDone, leaseway.StageRefund} {
			bugs := 0

			l.Trip(at(stage, func() {
				bugs++
				if bugs%2 == 1 {
					panic("a bug")
				}
			}))

			for range 20 {
				d := l.Decide(t.Context(), leaseway.Request{Method: "POST", Finishes: true})
				if !d.Allowed {
					t.Fatalf("refused by %q: what was refunded did not come back", d.Rule)
				}

				l.Refund(d)
			}

			if bugs != 40 {
				t.Errorf("%d times at the stage, want 40: each once more after a bug", bugs)
			}
		}

		l.Trip(nil)
		nothingInFlight(t, l)
	})
}

// A request that is stuck in any stage keeps nobody else, and gives back what it has when it goes on.
func TestARequestThatIsStuckKeepsNobodyElse(t *testing.T) {
	for stage := leaseway.StageSwitch; stage <= leaseway.StageRefund; stage++ {
		synctest.Test(t, func(t *testing.T) {
			l, _ := trippable(t, everything, "allow")
			defer l.Close(context.Background())

			time.Sleep(time.Second)

			goOn, stuck := make(chan struct{}), 0

			l.Trip(at(stage, func() {
				stuck++
				if stuck == 1 {
					<-goOn
				}
			}))

			decide := func() {
				l.Refund(l.Decide(t.Context(), leaseway.Request{Method: "POST", Finishes: true}))
			}

			go decide()
			synctest.Wait()

			for range 3 {
				decide()
			}

			close(goOn)
			synctest.Wait()

			// A glance is not enough under these rules, and they let nothing be asked at one.
			if want := map[bool]int{true: 0, false: 4}[stage == leaseway.StageQuick]; stuck != want {
				t.Errorf("%d requests came to stage %d, want %d", stuck, stage, want)
			}

			l.Trip(nil)
			nothingInFlight(t, l)
		})
	}
}

// faulty is a source that panics, blocks or fails when it is asked.
type faulty struct {
	rules   *rule.Set
	acquire func(ctx context.Context) error
	watches int
}

func (f *faulty) Acquire(ctx context.Context, _ *ledger.Batch) (*ledger.Answers, error) {
	return nil, f.acquire(ctx)
}

// Watch panics the first time.
func (f *faulty) Watch(ctx context.Context, _ uint64, apply func(*rule.Set) error) error {
	f.watches++
	if f.watches == 1 {
		panic("a bug in watching")
	}

	if err := apply(f.rules); err != nil {
		return err
	}

	<-ctx.Done()

	return ctx.Err()
}

// A source that panics, blocks or fails is an outage: nobody waits longer than
// the deadline, and each rule says what then happens.
func TestASourceThatDoesNotWorkIsAnOutage(t *testing.T) {
	faults := map[string]func(context.Context) error{
		"panics": func(context.Context) error { panic("a bug in the source") },
		"blocks": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"fails":  func(context.Context) error { return errAbsent },
	}
	for name, fault := range faults {
		for mode, served := range map[string]int{"allow": 20, "local": 8, "deny": 0} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					set, err := rule.Parse("rules.yaml", []byte(strings.ReplaceAll(everything, "MODE", mode)))
					if err != nil {
						t.Fatal(err)
					}

					var log bytes.Buffer

					// The watching, too, begins again after a bug.
					l, err := leaseway.Over(t.Context(), &faulty{rules: set, acquire: fault},
						leaseway.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
					if err != nil {
						t.Fatal(err)
					}
					defer l.Close(context.Background())

					allowed := 0

					for range 20 {
						start := time.Now()

						d := l.Decide(t.Context(), leaseway.Request{Method: "POST", Finishes: true})
						if took := time.Since(start); took > 20*time.Millisecond {
							t.Errorf("a decision took %v, more than the deadline", took)
						}

						if d.Allowed {
							allowed++
						}

						l.Done(d)
					}

					if allowed != served {
						t.Errorf("%d of 20 served, want %d", allowed, served)
					}

					nothingInFlight(t, l)

					if err := l.Close(context.Background()); err != nil { // and with it whoever else logs
						t.Error(err)
					}

					if n := strings.Count(log.String(), "recovered a panic"); n != 1 {
						t.Errorf("%d panics logged, want that of watching alone:\n%s", n, log.String())
					}
				})
			})
		}
	}
}

// crooked is a context that panics when it is waited for.
type crooked struct{ context.Context } //nolint:containedctx // it is one

func (crooked) Done() <-chan struct{} { panic("a bug of theirs") }

// Who panics while it waits for a slot leaves the line, and does not keep a slot that comes later.
func TestWhoPanicsInLineLeavesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := trippable(t, `rules: [{id: r, algorithm: concurrency, limit: 1, onUnavailable: MODE, queue: {size: 10, wait: 1m}}]`, "allow")
		defer l.Close(context.Background())

		first := l.Decide(t.Context(), leaseway.Request{})

		for range 5 {
			if d := l.Decide(crooked{t.Context()}, leaseway.Request{}); !d.Allowed || d.HoldsSlot() {
				t.Errorf("%+v, want it served without a slot", d)
			}
		}

		if n := l.Stats().Slots[0].Queued; n != 0 {
			t.Errorf("%d wait in line, and nobody is there", n)
		}

		l.Done(first)

		start := time.Now()

		d := l.Decide(t.Context(), leaseway.Request{})
		if !d.HoldsSlot() || time.Since(start) != 0 {
			t.Errorf("%+v after %v, want a slot at once", d, time.Since(start))
		}

		l.Done(d)
		nothingInFlight(t, l)

		if n := l.Stats().Panics; n != 5 || strings.Count(log.String(), "recovered a panic") != 1 {
			t.Errorf("%d panics counted, want 5; the log:\n%s", n, log)
		}
	})
}

// Who panics while it waits for tokens is served as in an outage, and whoever waits beside it gets its answer all the same.
func TestWhoPanicsWhileItWaitsIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := rule.Parse("rules.yaml", []byte(strings.ReplaceAll(one, "MODE", "allow")))
		if err != nil {
			t.Fatal(err)
		}

		l, err := leaseway.Over(t.Context(), &faulty{rules: set, acquire: func(ctx context.Context) error {
			<-ctx.Done()

			return ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())

		beside := make(chan leaseway.Decision, 1)

		go func() { beside <- l.Decide(t.Context(), leaseway.Request{}) }()

		synctest.Wait()

		start := time.Now()
		if d := l.Decide(crooked{t.Context()}, leaseway.Request{}); !d.Allowed || d.Origin != leaseway.OriginOpen || time.Since(start) != 0 {
			t.Errorf("%+v after %v, want it let through at once", d, time.Since(start))
		}

		if d := <-beside; !d.Allowed || d.Origin != leaseway.OriginOpen || time.Since(start) != 20*time.Millisecond {
			t.Errorf("beside it: %+v after %v, want it let through after the deadline", d, time.Since(start))
		}
	})
}

// A rule that is asked by its id fails open as well, even if nothing of it is left.
func TestABugInARuleIsNoOutage(t *testing.T) {
	l, log := trippable(t, one, "allow")
	defer l.Close(context.Background())

	r := l.Bug()

	for range 3 {
		if d := r.Take("k"); !d.Allowed || d.Origin != leaseway.OriginOpen {
			t.Errorf("Take: %+v, want it let through", d)
		}

		if d := r.Peek("k"); !d.Allowed {
			t.Errorf("Peek: %+v, want it let through", d)
		}
	}

	if n := strings.Count(log.String(), "recovered a panic"); n != 1 || l.Stats().Panics < 6 {
		t.Errorf("%d panics logged, %d counted; want 1, and 6 or more", n, l.Stats().Panics)
	}
}

func nothingInFlight(t *testing.T, l *leaseway.Limiter) {
	t.Helper()

	s := l.Stats()
	for _, r := range s.Slots {
		if r.InFlight != 0 {
			t.Errorf("%d of rule %q are still in flight", r.InFlight, r.Rule)
		}
	}

	for _, sh := range s.Shedders {
		if sh.InFlight != 0 {
			t.Errorf("%d are still in flight of the %v shedder", sh.InFlight, sh.Limiter)
		}
	}
}
