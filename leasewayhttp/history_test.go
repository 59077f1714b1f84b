package leasewayhttp

import (
	"math"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The ring counts what a list of everything counts, whatever the pauses.
func TestHistoryForgetsWhatIsOld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			h    history
			all  []int64 // spans in which something happened
			now  int64
			last int64
		)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += rapid.SampledFrom([]int64{0, 1, historySpan, 7 * historySpan, 23 * historySpan, 24 * historySpan, 1000 * historySpan}).Draw(t, "pause")
			h.at(now).requests++
			last = now / historySpan
			all = append(all, last)
			want := int64(0)
			for _, span := range all {
				if span > last-historySpans {
					want++
				}
			}
			if got := h.sum(now); got.requests != want {
				t.Fatalf("%d requests in the last two minutes, want %d", got.requests, want)
			}
		}
	})
}

// The formula, on paper.
func TestThrottledShare(t *testing.T) {
	for _, c := range []struct {
		requests, accepts int64
		want              float64
	}{
		{0, 0, 0},
		{fewest - 1, 0, 0},
		{100, 100, 0},
		{100, 50, 0},
		{99, 0, 0.99},
		{99, 40, 0.19},
	} {
		tally := tally{requests: c.requests, accepts: c.accepts}
		if got := tally.throttled(2); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d of %d accepted: %v held back, want %v", c.accepts, c.requests, got, c.want)
		}
	}
}

func TestRetryAfterIsRead(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		retryAfter, date string
		want             time.Duration
		ok               bool
	}{
		{"", "", 0, false},
		{"0", "", 0, true},
		{" 120 ", "", 2 * time.Minute, true},
		{"-1", "", 0, false},
		{"1.5", "", 0, false},
		{"soon", "", 0, false},
		{"Thu, 01 Jan 2026 12:00:30 GMT", "", 30 * time.Second, true},
		{"Thu, 01 Jan 2026 11:00:00 GMT", "", 0, true},
		// The server's clock is an hour ahead of ours.
		{"Thu, 01 Jan 2026 13:00:30 GMT", "Thu, 01 Jan 2026 13:00:00 GMT", 30 * time.Second, true},
	} {
		h := http.Header{"Retry-After": {c.retryAfter}, "Date": {c.date}}
		if got, ok := parseRetryAfter(h, now); got != c.want || ok != c.ok {
			t.Errorf("Retry-After %q, Date %q: %v %v, want %v %v", c.retryAfter, c.date, got, ok, c.want, c.ok)
		}
	}
}

func TestRateLimitIsRead(t *testing.T) {
	for field, want := range map[string]time.Duration{
		``: -1, `"a";r=1;t=5`: -1, `"a";r=0`: -1, `"a";t=5`: -1, `"a";r=0;t=-5`: -1, `nonsense(`: -1, `("a";r=0;t=5)`: -1,
		`"a";r=0;t=5`: 5 * time.Second, `"a";r=0;t=5, "b";r=0;t=9`: 9 * time.Second, `"a";r=0;t=0`: 0,
	} {
		got, ok := parseRateLimit(http.Header{fieldRateLimit: {field}})
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("RateLimit %s: %v, want %v", field, got, want)
		}
	}
}
