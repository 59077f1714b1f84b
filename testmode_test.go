package leaseway_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// testModeRules has every algorithm, with and without a burst, an override and a queue.
const testModeRules = `
classes: [{class: test, apikeyPrefix: sk_test_}]
rules:
  - {id: bucket, scope: /bucket, keyBy: user, limit: 10, window: 1s, burst: 15, overrides: [{key: big, limit: 50}]}
  - {id: fixed, scope: /fixed, keyBy: user, algorithm: fixed_window, limit: 10, window: 1s}
  - {id: sliding, scope: /sliding, keyBy: user, algorithm: sliding_window, limit: 10, window: 1s}
  - {id: log, scope: /log, keyBy: user, algorithm: sliding_log, limit: 10, window: 1s}
  - {id: leaky, scope: /leaky, keyBy: user, algorithm: leaky_bucket, limit: 10, window: 1s, burst: 3}
  - {id: slots, scope: /slots, keyBy: user, algorithm: concurrency, limit: 3}
  - {id: one, scope: /both, keyBy: user, limit: 10, window: 1s}
  - {id: other, scope: /both, limit: 25, window: 1s}
  - {id: gone, scope: /gone, block: true}
`

// transcript sends the same requests at the same times with an API key, and writes down every answer.
func transcript(t *testing.T, apikey string) string {
	t.Helper()

	var (
		l      = newStepped(t, testModeRules)
		random = rand.New(rand.NewPCG(7, 7))
		lines  strings.Builder
		held   []leaseway.Decision
		paths  = []string{"/bucket", "/fixed", "/sliding", "/log", "/leaky", "/slots", "/both", "/gone", "/none"}
	)

	for range 4000 {
		l.after(time.Duration(random.IntN(8)) * time.Millisecond)

		req := leaseway.Request{
			APIKey: apikey, Path: paths[random.IntN(len(paths))], User: []string{"a", "big"}[random.IntN(2)],
			Cost: int64(random.IntN(3)), Peek: random.IntN(10) == 0,
		}
		d := l.Decide(t.Context(), req)

		fmt.Fprintf(&lines, "%d µs %s %s cost %d peek %v: %v %s %s %d of %d, reset %v, retry %v, delay %v\n", l.now, req.Path, req.User,
			req.Cost, req.Peek, d.Allowed, d.Rule, d.Reason, d.Remaining, d.Limit, d.Reset, d.RetryAfter, d.Delay)

		switch {
		case d.HoldsSlot():
			held = append(held, d)
		case d.Allowed && random.IntN(10) == 0:
			l.Refund(d)
		}

		if n := len(held); n > 0 && random.IntN(10) == 0 {
			l.Done(held[n-1])
			held = held[:n-1]
		}
	}

	return lines.String()
}

// A test-mode key gets, request for request, the answer that a live one would get: by every algorithm, with costs, refunds, looks
// and overrides.
func TestTestModeGetsEqualAnswers(t *testing.T) {
	live, test := strings.Split(transcript(t, "sk_live_1"), "\n"), strings.Split(transcript(t, "sk_test_1"), "\n")
	if len(live) != 4001 || len(live) != len(test) {
		t.Fatalf("%d and %d answers", len(live), len(test))
	}

	for i := range live {
		if live[i] != test[i] {
			t.Fatalf("answer %d\nlive: %s\ntest: %s", i, live[i], test[i])
		}
	}

	all := strings.Join(live, "\n")
	for _, r := range parsedRules(t, testModeRules).Rules {
		if r.ID != "other" && !strings.Contains(all, ": false "+r.ID+" ") {
			t.Errorf("rule %s refused nothing, so it shows nothing", r.ID)
		}
	}
}

// Beside live traffic of the same callers test mode gets them, too: neither takes anything from the other.
func TestTestModeTakesNothingFromLiveTraffic(t *testing.T) {
	l := newStepped(t, testModeRules)
	count := func(class rule.Class) (n int) {
		for range 30 {
			if l.Decide(t.Context(), leaseway.Request{Path: "/bucket", User: "a", Class: class}).Allowed {
				n++
			}
		}

		return n
	}

	if live, test := count(rule.ClassWrite), count(rule.ClassTest); live != 15 || test != 15 {
		t.Errorf("%d live requests and %d tests were admitted, want 15 each", live, test)
	}
}
