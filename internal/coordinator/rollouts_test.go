package coordinator_test

import (
	"slices"
	"testing"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store/memory"
)

// rolling is a coordinator with a rule that half of the users have, and one that all have.
func rolling(t *testing.T) (c *coordinator.Coordinator, version uint64) {
	t.Helper()

	kept, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = kept.Close(t.Context()) })

	book := coordinator.NewBook(nil)
	if _, err := book.Apply(parse(t, "rules: [{id: half, keyBy: user, limit: 1, window: 1h, rollout: 50, before: {limit: 9}}, "+
		"{id: all, limit: 9, window: 1h}]")); err != nil {
		t.Fatal(err)
	}

	if c, err = coordinator.New(coordinator.Config{Store: kept, Book: book}); err != nil {
		t.Fatal(err)
	}

	return c, book.Current().Rule("half").Version
}

// What holders tell of requests is kept as it was last told, where it is about a rollout that is in force.
func TestTalliesAreThoseOfPresentRollouts(t *testing.T) {
	t.Parallel()

	c, version := rolling(t)
	good := ledger.Tally{Rule: "half", Version: version, Allowed: 7, Refused: 3}
	seq := uint64(0)
	tell := func(tallies ...ledger.Tally) {
		seq++
		acquire(t, c, &ledger.Batch{Holder: 1, Seq: seq, Name: "one", Version: version, Tallies: tallies})
	}
	kept := func(when string, want ...ledger.Tally) {
		t.Helper()

		if list, _ := c.Roster(10); len(list) != 1 || !slices.Equal(list[0].Tallies, want) {
			t.Errorf("%s: kept %+v, want %+v", when, list, want)
		}
	}

	tell()
	kept("before any")
	tell(good)
	kept("one", good)
	tell()
	kept("a batch without any", good)

	better := good
	better.Allowed = 70

	tell(
		ledger.Tally{Rule: "all", Version: version, Refused: 9},
		ledger.Tally{Rule: "none", Version: version, Refused: 9},
		ledger.Tally{Rule: "half", Version: version - 1, Refused: 9},
		ledger.Tally{Rule: "half", Version: version, Allowed: 1, Refused: -9},
		ledger.Tally{Rule: "half", Version: version, Refused: 1 << 60},
		better,
	)
	kept("of other rules, other versions, and out of bounds", better)
}

// A holder of an older release tells nothing of requests: what its keys ask stands in for them, of those alone that are reached.
func TestAsksStandInForRequests(t *testing.T) {
	t.Parallel()

	c, version := rolling(t)
	with := []string{}
	set := parse(t, "rules: [{id: half, keyBy: user, limit: 1, window: 1h, rollout: 50}]")

	for _, user := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		if set.Rules[0].For(user) != nil {
			with = append(with, user)
		}
	}

	if len(with) == 0 || len(with) == 8 {
		t.Fatalf("%q of eight users are reached: this would hold for nothing", with)
	}

	ask := func(holder, seq uint64, tallies ...ledger.Tally) {
		for _, user := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			seq++
			acquire(t, c, &ledger.Batch{Holder: holder, Seq: seq, Tallies: tallies, Asks: []ledger.KeyAsk{
				{Rule: "half", Key: user, Ask: ledger.Ask{Takes: []int64{1}}},
			}})
		}
	}

	ask(1, 0)
	ask(1, 100)

	n := int64(len(with)) // each once given, and once refused

	if got, want := c.Asked(), []ledger.Tally{{Rule: "half", Version: version, Allowed: n, Refused: n}}; !slices.Equal(got, want) {
		t.Errorf("asked %+v, want %+v", got, want)
	}

	before := c.Asked()

	ask(2, 0, ledger.Tally{Rule: "half", Version: version})
	ask(2, 100) // it tells them about once a second

	if got := c.Asked(); !slices.Equal(got, before) {
		t.Errorf("a holder that counts its requests is counted by its asks, too: %+v, then %+v", before, got)
	}
}
