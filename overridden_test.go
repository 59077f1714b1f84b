package leaseway_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

// negotiated is the override of one key, there or not.
type negotiated map[string]coordinator.Override

func (n negotiated) Overrides(context.Context, string, []string) (map[string]coordinator.Override, error) {
	return n, nil
}

func (n negotiated) Any(context.Context, string) (bool, error) { return len(n) > 0, nil }

// quiet is a Source that does not say when overrides change, as coordinators of an earlier version.
type quiet struct{ leaseway.Source }

// A server that uses little of a large limit has leased for seconds; the first override of one of the rule's keys, which lowers that
// limit, is in force there within a second nevertheless.
func TestALoweredOverrideHoldsWithinASecond(t *testing.T) {
	t.Parallel()

	const every, burst = 50 * time.Millisecond, 5

	for name, c := range map[string]struct {
		source func(leaseway.Source) leaseway.Source
		within time.Duration
	}{
		"told":     {func(s leaseway.Source) leaseway.Source { return s }, time.Second},
		"not told": {func(s leaseway.Source) leaseway.Source { return quiet{s} }, 8 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			kept, err := memory.New(memory.Config{Clock: func() int64 { return time.Now().UnixMicro() }})
			if err != nil {
				t.Fatal(err)
			}
			defer kept.Close(context.Background())

			book, has := coordinator.NewBook(nil), negotiated{}
			overrides := coordinator.NewOverrides(has, nil, nil)

			if _, err := book.Apply(parsedRules(t, `rules: [{id: r, keyBy: user, limit: 100000, window: 10s}]`)); err != nil {
				t.Fatal(err)
			}

			coord, err := coordinator.New(coordinator.Config{Store: kept, Book: book, Overrides: overrides})
			if err != nil {
				t.Fatal(err)
			}

			l, err := leaseway.Over(t.Context(), c.source(coord))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close(context.Background())

			used, err := l.Rule("r")
			if err != nil {
				t.Fatal(err)
			}

			send := func(d time.Duration) (allowed int) {
				for range d / every {
					if used.Take("acme").Allowed {
						allowed++
					}

					time.Sleep(every)
				}

				return allowed
			}

			send(10 * time.Second)

			for before := l.Stats().Asks; l.Stats().Asks == before; { // the next lease begins
				send(every)
			}

			synctest.Wait()

			has["acme"] = coordinator.Override{Override: rule.Override{Limit: burst, Window: time.Hour}, Version: 2}
			overrides.Changed(2, map[string][]string{"r": {"acme"}})

			send(c.within)

			if allowed := send(8 * time.Second); allowed > burst {
				t.Errorf("%s: %d requests passed later than %v after the override, which allows %d an hour", name, allowed, c.within, burst)
			}

			overrides.Wait()
		})
	}
}
