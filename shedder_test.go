package leaseway_test

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

const shedding = "rules: [{id: r, keyBy: user, limit: 1000000, window: 1m}]\nshedders: {worker: {}}"

func TestAShedRequestSaysWhyAndWhenToComeBack(t *testing.T) {
	l := newStepped(t, shedding)
	l.SetLoad(1)
	l.after(4 * time.Second)

	d := l.Decide(t.Context(), leaseway.Request{User: "acme", Class: rule.ClassTest})
	if d.Allowed || d.Reason != leaseway.ReasonShedWorker || d.Class != rule.ClassTest || d.Matched() {
		t.Errorf("got %+v", d)
	}

	// S is 2.0, and acme's place among callers 0.227: it passes again when S has fallen so far.
	if want := 17*time.Second + 729*time.Millisecond; d.RetryAfter < want-5*time.Millisecond || d.RetryAfter > want+5*time.Millisecond {
		t.Errorf("the wait is %v, want %v", d.RetryAfter, want)
	}

	l.SetLoad(0.1)
	l.after(d.RetryAfter + time.Second) // the smoothed load is high for a moment still

	if d := l.Decide(t.Context(), leaseway.Request{User: "acme", Class: rule.ClassTest}); !d.Allowed {
		t.Errorf("still refused after the wait: %+v", d)
	}
}

func TestAWaitIsFromOneSecondToThirty(t *testing.T) {
	l := newStepped(t, "rules: []\nshedders: {worker: {fall: 5m, rise: 100ms}}")
	l.SetLoad(1)
	l.after(time.Second)

	if d := l.Decide(t.Context(), leaseway.Request{User: "acme", Class: rule.ClassTest}); d.RetryAfter != 30*time.Second {
		t.Errorf("got %v, want 30 s", d.RetryAfter)
	}

	l.rules("rules: []\nshedders: {worker: {fall: 100ms, rise: 100ms}}")

	if d := l.Decide(t.Context(), leaseway.Request{User: "acme", Class: rule.ClassWrite}); d.RetryAfter != time.Second {
		t.Errorf("got %v, want 1 s", d.RetryAfter)
	}
}

func TestSheddingIsCountedByClassAndMode(t *testing.T) {
	l := newStepped(t, shedding)
	l.SetLoad(1)
	l.after(9 * time.Second)

	for range 3 {
		l.Decide(t.Context(), leaseway.Request{Class: rule.ClassTest})
	}

	l.Decide(t.Context(), leaseway.Request{Method: "GET"})
	l.Decide(t.Context(), leaseway.Request{Method: "GET", Class: rule.ClassCritical, LowerTo: rule.ClassRead})
	l.Decide(t.Context(), leaseway.Request{Class: rule.ClassCritical})
	l.Decide(t.Context(), leaseway.Request{Class: rule.ClassTest, Peek: true})

	l.rules("rules: []\nshedders: {worker: {mode: shadow}}")
	l.Decide(t.Context(), leaseway.Request{Method: "POST"})

	s := l.Stats().Shedders
	if len(s) != 1 || s[0].Limiter != rule.LimiterWorker || s[0].Mode != rule.Shadow || s[0].Level != 3 || s[0].Stale {
		t.Fatalf("got %+v", s)
	}

	if got := s[0].Refused; got != [5]int64{rule.ClassTest: 3, rule.ClassRead: 2} {
		t.Errorf("refused %v", got)
	}

	if got := s[0].Shadowed; got != [5]int64{rule.ClassWrite: 1} {
		t.Errorf("would have refused %v", got)
	}

	if len(s[0].Loads) != 1 || s[0].Loads[0] != (leaseway.Load{Signal: "told", Value: 1}) {
		t.Errorf("the loads are %v", s[0].Loads)
	}

	l.rules("rules: []")

	if s := l.Stats().Shedders; len(s) != 0 {
		t.Errorf("without a shedder there are counts: %+v", s)
	}

	if !l.Decide(t.Context(), leaseway.Request{Class: rule.ClassTest}).Allowed {
		t.Error("without a shedder a request is shed")
	}
}

// As many callers are hit as the level says, whichever attribute tells them apart, and those are hit every time.
func TestCallersAreToldApart(t *testing.T) {
	l := newStepped(t, shedding)
	l.SetLoad(0.95)
	l.after(600 * time.Millisecond)
	l.SetLoad(0.8)
	l.after(3 * time.Second)
	l.Decide(t.Context(), leaseway.Request{})

	want := int(200 * l.Stats().Shedders[0].Level)
	ip := netip.MustParseAddr("10.0.0.0")

	for name, request := range map[string]func(i byte) leaseway.Request{
		"apikey": func(i byte) leaseway.Request { return leaseway.Request{APIKey: string(rune('a' + i)), User: "one"} },
		"user":   func(i byte) leaseway.Request { return leaseway.Request{User: string(rune('a' + i)), IP: ip} },
		"ipv4":   func(i byte) leaseway.Request { return leaseway.Request{IP: netip.AddrFrom4([4]byte{10, 0, 0, i})} },
		"ipv6": func(i byte) leaseway.Request {
			return leaseway.Request{IP: netip.AddrFrom16([16]byte{0x20, 1, 7: i, 15: i})}
		},
		"unknown": func(byte) leaseway.Request { return leaseway.Request{} },
	} {
		hit := 0

		for i := range byte(200) {
			req := request(i)
			req.Class = rule.ClassTest

			first := l.Decide(t.Context(), req).Allowed
			if !first {
				hit++
			}

			if name != "unknown" && l.Decide(t.Context(), req).Allowed != first {
				t.Errorf("%s %d is hit once and then not", name, i)
			}
		}

		if want < 50 || want > 150 || hit < want-25 || hit > want+25 {
			t.Errorf("%s: %d of 200 callers are hit, want about %d", name, hit, want)
		}
	}

	// A network of IPv6 is one caller.
	one := leaseway.Request{Class: rule.ClassTest, IP: netip.MustParseAddr("2001:db8::1")}
	two := leaseway.Request{Class: rule.ClassTest, IP: netip.MustParseAddr("2001:db8::2")}

	if l.Decide(t.Context(), one).Allowed != l.Decide(t.Context(), two).Allowed {
		t.Error("two addresses of one network are two callers")
	}
}

func parsedRules(t *testing.T, doc string) *rule.Set {
	t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}

	return set
}

// A process measures itself: workers that are busy, and a function of the program's own.
func TestAProcessMeasuresItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			share atomic.Uint64
			log   bytes.Buffer
		)

		share.Store(math.Float64bits(0.2))

		l, err := leaseway.Embedded(parsedRules(t, "rules: []\nshedders: {worker: {inFlight: 100, queueWait: 100ms}}"),
			leaseway.WithWorkers(10), leaseway.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
			leaseway.WithSignal("own", func() float64 { return math.Float64frombits(share.Load()) }))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())

		if !l.Measures() {
			t.Error("a process with workers does not measure")
		}

		for range 10 {
			l.Begin(50 * time.Millisecond)
		}

		time.Sleep(150 * time.Millisecond) // one sample with the beginnings in it
		synctest.Wait()

		loads := map[string]float64{}
		for _, load := range l.Stats().Shedders[0].Loads {
			loads[load.Signal] = load.Value
		}

		if len(loads) != 4 || loads["workers"] < 0.9 || loads["inFlight"] < 0.09 || loads["inFlight"] > 0.1 || loads["own"] != 0.2 {
			t.Errorf("the loads are %v", loads)
		}

		time.Sleep(5 * time.Second) // from idle the smoothed load takes two of them to be high

		test := leaseway.Request{Class: rule.ClassTest}
		if d := l.Decide(t.Context(), test); d.Reason != leaseway.ReasonShedWorker {
			t.Errorf("all workers are busy, and a test got %+v", d)
		}

		for range 10 {
			l.End()
		}

		// The function takes over: the highest load counts.
		share.Store(math.Float64bits(2))
		time.Sleep(5 * time.Second)

		if d := l.Decide(t.Context(), leaseway.Request{Method: "POST"}); d.Reason != leaseway.ReasonShedWorker {
			t.Errorf("a write got %+v at a load of 2", d)
		}

		share.Store(math.Float64bits(0))
		time.Sleep(40 * time.Second)

		if d := l.Decide(t.Context(), test); !d.Allowed {
			t.Errorf("got %+v when nobody is busy any more", d)
		}
	})
}

// What a request waits behind the middleware, for a worker of a pool, is part of the wait; it makes nobody busy.
func TestTheWaitForAWorkerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := leaseway.Embedded(parsedRules(t, "rules: []\nshedders: {worker: {queueWait: 100ms, rise: 500ms}}"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())

		// A pool is behind: each of ten requests a second begins at once, and has waited 400 ms for a worker.
		time.Sleep(50 * time.Millisecond) // between two samples

		for range 30 {
			l.Begin(0)
			l.Waited(400 * time.Millisecond)
			l.End()
			time.Sleep(100 * time.Millisecond)
		}

		synctest.Wait()

		loads := l.Stats().Shedders[0].Loads
		if len(loads) != 1 || loads[0].Signal != "queueWait" || loads[0].Value != 4 {
			t.Errorf("the loads are %v, want a queueWait of 4", loads)
		}

		if d := l.Decide(t.Context(), leaseway.Request{Class: rule.ClassTest}); d.Reason != leaseway.ReasonShedWorker {
			t.Errorf("all wait four times too long, and a test got %+v", d)
		}
	})
}

// Whatever the program's own function does, requests are served, and it is said once.
func TestASignalThatIsOfNoUseShedsNothing(t *testing.T) {
	for name, read := range map[string]func(done chan struct{}) float64{
		"hangs":  func(done chan struct{}) float64 { <-done; return 1 },
		"panics": func(chan struct{}) float64 { panic("a bug of theirs") },
		"is NaN": func(chan struct{}) float64 { return math.NaN() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var (
					log    bytes.Buffer
					useful atomic.Bool
				)

				done := make(chan struct{})
				useful.Store(true)

				l, err := leaseway.Embedded(parsedRules(t, "rules: []\nshedders: {worker: {rise: 100ms, fall: 100ms}}"),
					leaseway.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), leaseway.WithSignal("own", func() float64 {
						if useful.Load() {
							return 1
						}

						return read(done)
					}))
				if err != nil {
					t.Fatal(err)
				}

				time.Sleep(3 * time.Second)

				req := leaseway.Request{Method: "POST"}
				if d := l.Decide(t.Context(), req); d.Allowed {
					t.Errorf("got %+v at a load of 1", d)
				}

				useful.Store(false)
				time.Sleep(7 * time.Second)

				if d := l.Decide(t.Context(), req); !d.Allowed || !l.Stats().Shedders[0].Stale {
					t.Errorf("got %+v without a load, %+v", d, l.Stats().Shedders)
				}

				close(done)

				if err := l.Close(t.Context()); err != nil {
					t.Error(err)
				}

				if n := strings.Count(log.String(), "the load of this process is not known any more"); n != 1 {
					t.Errorf("it was said %d times: %s", n, log.String())
				}
			})
		})
	}
}

func TestCPUIsMeasuredWhereThereIsOne(t *testing.T) {
	l := embedded(t, "rules: []\nshedders: {worker: {}}", leaseway.WithCPU())
	deadline := time.Now().Add(10 * time.Second)

	for {
		if s := l.Stats().Shedders; len(s) == 1 && len(s[0].Loads) == 1 && s[0].Loads[0].Signal == "cpu" {
			if v := s[0].Loads[0].Value; v >= 0 {
				return
			}
		}

		if time.Now().After(deadline) {
			t.Skip("no processor time can be read here")
		}
	}
}

// Coordinators follow the rules of an API, and serve none of its requests.
func TestAProcessWithoutASignalSaysSoOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer

		l, err := leaseway.Embedded(parsedRules(t, shedding), leaseway.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if err != nil {
			t.Fatal(err)
		}

		time.Sleep(20 * time.Second)

		if d := l.Decide(t.Context(), leaseway.Request{Class: rule.ClassTest}); !d.Allowed {
			t.Errorf("got %+v", d)
		}

		if s := l.Stats().Shedders[0]; s.Stale || len(s.Loads) > 0 || s.Level != 0 {
			t.Errorf("got %+v", s)
		}

		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}

		if n := strings.Count(log.String(), "sheds nothing in this process"); n != 1 || strings.Contains(log.String(), "WARN") {
			t.Errorf("it was said %d times: %s", n, log.String())
		}
	})
}
