package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/admin"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/internal/rulestore/sqlite"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

// tended is a fleet of one holder in this process.
func tended(t *testing.T, text string) (fleet, *leaseway.Limiter) {
	t.Helper()

	set, err := rule.Parse("test", []byte(text))
	must(t, err)

	book := coordinator.NewBook(nil)
	_, err = book.Apply(set)
	must(t, err)

	kept, err := memory.New(memory.Config{})
	must(t, err)

	c, err := coordinator.New(coordinator.Config{Store: kept, Book: book})
	must(t, err)

	limiter, err := leaseway.Over(t.Context(), c, leaseway.WithName("one"))
	must(t, err)

	t.Cleanup(func() {
		must(t, limiter.Close(context.Background()))
		must(t, kept.Close(context.Background()))
	})

	heard := &notes{coordinator: c, rules: book.Current, now: time.Now, alone: true}

	return fleet{coordinator: c, rules: book.Current, notes: heard}, limiter
}

// What is left is looked at, given back and made whole, whatever the algorithm.
func TestABudgetIsLookedAfter(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log", "leaky_bucket"} {
		t.Run(algorithm, func(t *testing.T) {
			f, limiter := tended(t, "rules: [{id: r, keyBy: user, limit: 10, window: 12h, algorithm: "+algorithm+"}]")
			r, err := limiter.Rule("r")
			must(t, err)

			want := func(when string, remaining int64) {
				t.Helper()

				for range 3 { // to look takes nothing
					level, err := f.Level(t.Context(), "r", "ada")
					if err != nil || level.Remaining != remaining || level.Limit != 10 || level.Allowed != (remaining > 0) {
						t.Fatalf("%s: %+v, %v; want %d left", when, level, err, remaining)
					}

					// A sliding window that has just begun gives nothing until a tenth of the next one is over.
					const longest = 12*time.Hour + 12*time.Hour/10
					if !level.Allowed && (level.RetryAfter <= 0 || level.RetryAfter > longest || level.Reason != "over_limit") {
						t.Errorf("%s: %+v", when, level)
					}
				}
			}

			want("at first", 10)

			if d := r.TakeN("ada", 6); !d.Allowed && algorithm != "leaky_bucket" {
				t.Fatalf("6 of 10 were refused: %+v", d)
			} else if !d.Allowed {
				t.Skip("a leaky bucket that nobody waits for takes one by one")
			}

			want("after 6", 4)
			must(t, f.Refund(t.Context(), "r", "ada", 2))
			want("after a refund", 6)
			must(t, f.Refund(t.Context(), "r", "ada", 100))
			want("after more than was used", 10)
			r.TakeN("ada", 10)
			want("when nothing is left", 0)
			must(t, f.Reset(t.Context(), "r", "ada"))
			want("after a reset", 10)
			must(t, f.Reset(t.Context(), "r", "ada"))
			want("after another", 10)
		})
	}
}

func TestLookingAfterWhatIsNotThere(t *testing.T) {
	f, _ := tended(t, "rules: [{id: shut, block: true}, {id: off, mode: off, limit: 1, window: 1s}, "+
		"{id: flight, algorithm: concurrency, keyBy: user, limit: 5}]")

	if _, err := f.Level(t.Context(), "none", "ada"); !errors.Is(err, admin.ErrUnknownRule) {
		t.Errorf("an unknown rule: %v", err)
	}

	if level, err := f.Level(t.Context(), "shut", "ada"); err != nil || level.Allowed || level.Reason != "blocked" {
		t.Errorf("a rule that blocks: %+v, %v", level, err)
	}

	if level, err := f.Level(t.Context(), "off", "ada"); err != nil || !level.Allowed {
		t.Errorf("a rule that is off: %+v, %v", level, err)
	}

	if level, err := f.Level(t.Context(), "flight", "ada"); err != nil || level.Remaining != 5 {
		t.Errorf("a rule of concurrency: %+v, %v", level, err)
	}

	if f.Refund(t.Context(), "flight", "ada", 1) == nil || f.Reset(t.Context(), "flight", "ada") == nil {
		t.Error("what is in flight was given back")
	}
}

// A caller that was refused for hours gets more as soon as it is granted it, long before anybody would look for it again.
func TestAnOverrideIsInForceAtOnce(t *testing.T) {
	path := dataDir(t) + "/rules.db"

	// What a holder is too late to spend is lost, and comes again in hours: a machine that has other things to do gets more time.
	r := start(t, "--rule-store", "sqlite:"+path, "--rules-seed", file(t, strings.Replace(thingsRules, "12h", "12h, lease: {ttl: 10s}", 1)))
	holder := start(t, "--coordinator", r.GRPC, "--coordinator-key", r.Key, "--deadline", patience.String())

	store, err := sqlite.Open(context.Background(), sqlite.Config{Path: path})
	must(t, err)

	defer store.Close()

	if holder.admitted(t, 120, things("ada", 1)) != 100 {
		t.Fatal("not 100 of 120 were admitted")
	}

	set := func(o rulestore.OverrideChange) {
		t.Helper()

		o.Rule, o.Key = "things", "ada"
		_, err := store.Write(t.Context(), &rulestore.Change{
			Author: "ada", Action: "overrides.put",
			Overrides: func(yield func(rulestore.OverrideChange, error) bool) { yield(o, nil) },
		})
		must(t, err)
	}

	set(rulestore.OverrideChange{Override: rulestore.Override{Limit: 150}})

	eventually(t, "the override decides", func() bool { return holder.admitted(t, 1, things("ada", 1)) == 1 })

	if got := holder.admitted(t, 100, things("ada", 1)); got != 49 {
		t.Errorf("%d more were admitted, want 49 up to 150", got)
	}

	if got := holder.admitted(t, 101, things("bob", 1)); got != 100 {
		t.Errorf("another user got %d, want 100", got)
	}

	set(rulestore.OverrideChange{Delete: true})
	eventually(t, "the key has its rule's limit again", func() bool { return holder.limit(t) == "100" })
}

func TestInstancesSayWhatTheyRun(t *testing.T) {
	f, limiter := tended(t, "rules: [{id: r, limit: 10, window: 1m}]")
	r, err := limiter.Rule("r")
	must(t, err)
	r.Take("")

	roster, err := f.Instances(t.Context())
	must(t, err)

	if len(roster.Instances) != 1 || roster.Instances[0].Name != "one" || roster.Instances[0].Version != roster.Version || roster.Version == 0 {
		t.Errorf("%+v", roster)
	}

	if _, err := f.Level(t.Context(), "r", ""); err != nil {
		t.Error(err)
	}

	if roster, _ = f.Instances(t.Context()); len(roster.Instances) != 1 {
		t.Errorf("who looks after budgets counts as a holder: %+v", roster)
	}
}
