package leaseway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/leasewayhttp"
	"github.com/leaseway/leaseway/rule"
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

// Requests that each bring a limit along, from as many addresses: the metrics have as many series as before and name nobody, and an
// address takes the few bytes of any key, until its window is over.
func TestLimitsOfManyAddressesMakeNoSeries(t *testing.T) {
	if testing.Short() {
		t.Skip("200,000 requests; run without -short")
	}

	synctest.Test(t, func(t *testing.T) {
		const (
			addresses = 200_000
			bytesAKey = 64  // once it rests, in the store, which is in this process
			bytesHot  = 200 // on the average of some seconds, with what is under way
		)

		l, err := leaseway.Embedded(parsedRules(t, `rules:
  - {id: per-address, scope: {domain: edge, entries: [remote_address]}, keyBy: descriptor:remote_address, limit: 5, window: 1h}
`), leaseway.WithMaxKeys(2*addresses))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())

		ask := func(address string, limit int64) leaseway.Decision {
			return l.Decide(t.Context(), leaseway.Request{
				Domain: "edge", Entries: []rule.Entry{{Key: "remote_address", Value: address}},
				Limit: &leaseway.RequestLimit{Requests: limit, Window: time.Hour},
			})
		}
		page := func() string {
			w := httptest.NewRecorder()
			leasewayhttp.Metrics(l).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))

			return w.Body.String()
		}
		series := func(text string) (n int) {
			for line := range strings.Lines(text) {
				if !strings.HasPrefix(line, "#") {
					n++
				}
			}

			return n
		}

		for range 3 {
			ask("192.0.2.1", 2) // both outcomes, so that their series exist
		}

		series0, base := series(page()), heap()

		for i := range addresses {
			if d := ask(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), int64(1+i%3)); !d.Allowed {
				t.Fatalf("address %d got %+v", i, d)
			}

			if i%1000 == 0 {
				time.Sleep(60 * time.Millisecond)
			}
		}

		hot := heap() - base

		time.Sleep(time.Minute)

		rested := heap() - base

		if n := l.Stats().Overflow; n > 0 || hot > addresses*bytesHot || rested > addresses*bytesAKey {
			t.Errorf("%d bytes an address, and %d a minute later; %d were not remembered", hot/addresses, rested/addresses, n)
		}

		time.Sleep(2 * time.Hour)

		left := heap() - base
		t.Logf("%d bytes an address, %d a minute later, %d two windows later", hot/addresses, rested/addresses, left/addresses)

		if left > 4<<20 {
			t.Errorf("two windows later the heap is still %d KiB larger", left>>10)
		}

		text := page()
		if n := series(text); n != series0 || n < 10 {
			t.Errorf("%d series became %d by %d addresses", series0, n, addresses)
		}

		for _, part := range []string{"192.0.2.", "10.1.", "remote_address", "3600000000"} {
			if strings.Contains(text, part) {
				t.Errorf("the metrics have %s in them", part)
			}
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
