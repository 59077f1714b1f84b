package leaseway_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
)

// A million callers who come once each within a minute, nearly all of whom a rule for all refuses: the server remembers no more than
// it may, and two windows later it is as small as it was before them.
func TestAMillionCallersLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("1,000,000 requests; run without -short")
	}

	synctest.Test(t, func(t *testing.T) {
		const callers, most, window = 1_000_000, 100_000, time.Minute

		l, err := leaseway.Embedded(parsedRules(t, `rules:
  - {id: each, keyBy: user, limit: 1, window: 1m}
  - {id: all, algorithm: fixed_window, limit: 10000, window: 1m}
`), leaseway.WithMaxKeys(most))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())

		l.Decide(t.Context(), leaseway.Request{User: "first"})

		base, allowed := heap(), 0

		for i := range callers {
			if l.Decide(t.Context(), leaseway.Request{User: strconv.Itoa(i)}).Allowed {
				allowed++
			}

			if i%1000 == 0 {
				time.Sleep(window * 1000 / callers)
			}
		}

		s := l.Stats()
		grown := heap() - base
		t.Logf("%d allowed, %d keys, %d not remembered, %.1f MiB more", allowed, s.Keys, s.Overflow, float64(grown)/(1<<20))

		if s.Keys > most+1 || grown > 64<<20 {
			t.Errorf("%d keys are remembered, %d MiB more", s.Keys, grown>>20)
		}

		time.Sleep(2 * window)

		left := heap() - base
		keys := l.Stats().Keys
		t.Logf("two windows later %d keys and %.1f MiB more", keys, float64(left)/(1<<20))

		if keys > 1 || left > 8<<20 {
			t.Errorf("two windows later %d keys are remembered, and the heap is still %d MiB larger", keys, left>>20)
		}
	})
}

// What a sliding log takes is what was admitted, not what might be: here it is the highest limit that a log may have.
func TestASlidingLogTakesWhatItHolds(t *testing.T) {
	l := embedded(t, "rules: [{id: log, keyBy: user, algorithm: sliding_log, limit: 10000, window: 60s}]")
	l.Decide(t.Context(), leaseway.Request{User: "first"})

	base := heap()

	for i := range 1000 {
		if d := l.Decide(t.Context(), leaseway.Request{User: strconv.Itoa(i)}); !d.Allowed {
			t.Fatalf("caller %d got %+v", i, d)
		}
	}

	if grown := heap() - base; grown > 2<<20 {
		t.Errorf("1000 callers with a request each take %d KiB", grown>>10)
	} else {
		t.Logf("1000 callers with a request each take %d KiB", grown>>10)
	}
}
