package heavy_test

import (
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/heavy"
)

func TestTheMostFrequentComeFirst(t *testing.T) {
	t.Parallel()

	k := heavy.New(3)
	for _, key := range []string{"b", "a", "c", "a", "b", "a"} {
		k.Add(key)
	}

	if got := fmt.Sprint(k.Top(2)); got != "[{a 3 0} {b 2 0}]" {
		t.Errorf("got %s", got)
	}

	k.Add("d") // takes the place of c, which came once

	if got := fmt.Sprint(k.Top(9)); got != "[{a 3 0} {b 2 0} {d 2 1}]" {
		t.Errorf("got %s", got)
	}
}

// No count is too low, or too high by more than it says; and who makes up more than one part in so many is never missed.
func TestCountsAreWithinTheirBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		counters := rapid.IntRange(1, 8).Draw(t, "counters")
		stream := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 400).Draw(t, "stream")
		k, came := heavy.New(counters), map[string]int64{}

		for _, n := range stream {
			// Squared, so that some keys come much more often than others.
			key := strconv.Itoa(n * n / 40)
			came[key]++
			k.Add(key)
		}

		top, found := k.Top(100), map[string]bool{}
		if len(top) > counters {
			t.Fatalf("%d counters, want %d", len(top), counters)
		}

		for _, c := range top {
			found[c.Key] = true
			if c.N < came[c.Key] || c.N-c.Over > came[c.Key] {
				t.Errorf("%+v, and it came %d times", c, came[c.Key])
			}
		}

		for key, n := range came {
			if n*int64(counters) > int64(len(stream)) && !found[key] {
				t.Errorf("%s came %d of %d times, and has none of %d counters", key, n, len(stream), counters)
			}
		}
	})
}

func TestAKnownKeyCostsNoMemory(t *testing.T) {
	k := heavy.New(10)
	k.Add("a")

	if n := testing.AllocsPerRun(100, func() { k.Add("a") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
