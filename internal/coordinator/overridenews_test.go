package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
)

// told is what a watcher heard, and when.
type told struct {
	at    time.Duration
	rules []string
}

// watch notes what is told of overrides until stop.
func (n *negotiation) watch() (heard *[]told, stop func()) {
	ctx, cancel := context.WithCancel(n.t.Context())
	heard, ended, began := new([]told), make(chan error, 1), time.Now()

	go func() {
		ended <- n.c.WatchOverrides(ctx, func(rules []string) {
			slices.Sort(rules)
			*heard = append(*heard, told{time.Since(began), rules})
		})
	}()

	synctest.Wait()

	return heard, func() {
		cancel()

		if err := <-ended; !errors.Is(err, context.Canceled) {
			n.t.Errorf("WatchOverrides ended with %v", err)
		}
	}
}

func TestWhoWatchesHearsOfChangedOverrides(t *testing.T) {
	negotiate(t, func(n *negotiation) {
		n.overrides.Changed(1, map[string][]string{"before": {}})

		heard, stop := n.watch()
		defer stop()

		one := map[string][]string{"r": {"acme"}}

		check := func(what string, rules ...[]string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()

			if got := len(*heard); got != len(rules) {
				t.Errorf("%s: told %v, want %v", what, *heard, rules)
			} else {
				for i := range rules {
					if !slices.Equal((*heard)[i].rules, rules[i]) {
						t.Errorf("%s: told %v, want %v", what, *heard, rules)
					}
				}
			}

			*heard = nil
		}

		check("what was before")

		n.overrides.Changed(2, one)
		n.overrides.Changed(3, map[string][]string{"s": {}})
		n.overrides.Changed(4, one)
		check("three at once", []string{"r", "s"})

		n.overrides.Changed(5, one)
		n.overrides.Changed(6, nil)
		check("one and all", []string(nil))

		n.overrides.Changed(7, one)
		check("one after all", []string{"r"})

		n.overrides.Changed(7, nil)
		n.overrides.Changed(7, one)
		check("all and one", []string(nil))

		many := map[string][]string{}
		for i := range 101 {
			many[fmt.Sprint("rule", i)] = nil
		}

		n.overrides.Changed(8, many)
		check("very many", []string(nil))
	})
}

// An import in many parts, or somebody who changes overrides all the time, is told of now and then.
func TestChangesAreToldTogether(t *testing.T) {
	negotiate(t, func(n *negotiation) {
		heard, stop := n.watch()
		defer stop()

		for v := range uint64(1000) {
			n.overrides.Changed(v+1, map[string][]string{"r": {"acme"}})
			time.Sleep(10 * time.Millisecond)
		}

		time.Sleep(time.Second)
		synctest.Wait()

		if got := len(*heard); got < 40 || got > 51 || (*heard)[0].at > 200*time.Millisecond {
			t.Errorf("told %d times in 10 s, first after %v: want five a second, and soon", got, (*heard)[0].at)
		}
	})
}

// What is leased for long does not outlive the override that it is leased under: nobody tells the holder of its end.
func TestNoLeaseOutlivesItsOverrideByMuch(t *testing.T) {
	negotiate(t, func(n *negotiation) {
		o := of(100_000, 1)
		o.Expires = time.Now().Add(20 * time.Second)
		n.set("acme", o)

		if ttl := n.lends("acme"); ttl != 8_000_000 {
			t.Errorf("a lease of %d µs 20 s before the end, want 8 s", ttl)
		}

		time.Sleep(13 * time.Second)

		if ttl := n.lends("acme"); ttl != 500_000 {
			t.Errorf("a lease of %d µs 7 s before the end, want 0.5 s", ttl)
		}
	})
}

// lends returns how long a small lease lives that a holder would have for long, µs.
func (n *negotiation) lends(key string) (ttl int64) {
	n.t.Helper()

	n.seq++
	batch := &ledger.Batch{Holder: 7, Seq: n.seq, Asks: []ledger.KeyAsk{{Rule: "r", Key: key, Ask: ledger.Ask{RaiseTo: 10, Long: true}}}}

	answers, err := n.c.Acquire(n.t.Context(), batch)
	if err != nil || answers.Keys[0].Code != ledger.KeyOK {
		n.t.Fatalf("%+v, %v", answers, err)
	}

	return answers.Keys[0].Answer.TTL
}
