package leasewayhttp

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway/internal/phrase"
)

// until sleeps until an instant after the start of the bubble, which is a whole day.
func until(start time.Time, after time.Duration) { time.Sleep(time.Until(start.Add(after))) }

// Retry-After is a whole number, rounded up, and never 0; t is the same number.
func TestRetryAfterTowardsTheEndOfAWindow(t *testing.T) {
	for _, c := range []struct {
		at   time.Duration
		want string
	}{
		{time.Millisecond, "60"},
		{30_400 * time.Millisecond, "30"},
		{59_200 * time.Millisecond, "1"},
		{59_999 * time.Millisecond, "1"},
	} {
		withAPI(t, "rules: [{id: r, algorithm: fixed_window, limit: 5, window: 60s}]", []Option{WithoutJitter()}, func(a *api) {
			start := time.Now()
			a.expect("the limit", "AAAAA", get("/v1/x"))
			until(start, c.at)
			h := a.send(get("/v1/x")).Header()
			if got := h.Get("Retry-After"); got != c.want || h.Get("Ratelimit") != `"r";r=0;t=`+c.want {
				a.t.Errorf("after %v: Retry-After %q, RateLimit %q, want %s", c.at, got, h.Get("Ratelimit"), c.want)
			}
			seconds, err := strconv.Atoi(h.Get("Retry-After"))
			if err != nil {
				a.t.Fatal(err)
			}
			time.Sleep(time.Duration(seconds) * time.Second)
			a.expect("after waiting as told", "AAAAA", get("/v1/x"))
		})
	}
}

// The fields of windows speak of the window's end; those of a log, of when all in it is forgotten.
func TestFieldsOfWindows(t *testing.T) {
	for algorithm, want := range map[string][2]string{ // t after one request at 10.5 s, and after another at 40 s
		"fixed_window":   {"50", "20"},
		"sliding_window": {"50", "20"},
		"sliding_log":    {"60", "60"},
	} {
		t.Run(algorithm, func(t *testing.T) {
			withAPI(t, "rules: [{id: r, algorithm: "+algorithm+", limit: 5, window: 60s}]", nil, func(a *api) {
				start := time.Now()
				for i, at := range []time.Duration{10_500 * time.Millisecond, 40 * time.Second} {
					until(start, at)
					h := a.send(get("/v1/x")).Header()
					left, err := strconv.Atoi(want[i])
					if err != nil {
						a.t.Fatal(err)
					}
					end := start.Unix() + int64((at+time.Duration(left)*time.Second)/time.Second)
					for name, value := range map[string]string{
						"RateLimit-Policy":      `"r";q=5;w=60`,
						"RateLimit":             `"r";r=` + strconv.Itoa(4-i) + `;t=` + want[i],
						"X-RateLimit-Limit":     "5",
						"X-RateLimit-Remaining": strconv.Itoa(4 - i),
					} {
						if got := h.Get(name); got != value {
							a.t.Errorf("after %v: %s is %s, want %s", at, name, got, value)
						}
					}
					// Half a second is rounded up, whichever of the two fields says it.
					if got := h.Get("X-Ratelimit-Reset"); got != strconv.FormatInt(end, 10) && got != strconv.FormatInt(end+1, 10) {
						a.t.Errorf("after %v: X-RateLimit-Reset is %s, want %d", at, got, end)
					}
				}
			})
		})
	}
}

// The end of a day or month is exact, in its own zone; its length in the policy is nominal, since it has none.
func TestFieldsOfACalendar(t *testing.T) {
	// Bubbles begin on 2000-01-01T00:00:00Z, a leap year.
	for _, c := range []struct {
		rule   string
		at     time.Time
		reset  time.Time
		policy string
		every  string
	}{
		{
			"window: 1d, timeZone: Asia/Shanghai", time.Date(2000, 1, 1, 15, 0, 0, 0, time.UTC),
			time.Date(2000, 1, 1, 16, 0, 0, 0, time.UTC), `"r";q=1;w=86400`, "a day",
		},
		{
			"window: 1mo", time.Date(2000, 2, 28, 12, 0, 0, 0, time.UTC),
			time.Date(2000, 3, 1, 0, 0, 0, 0, time.UTC), `"r";q=1;w=2592000`, "a month",
		},
		{
			"window: 1d, timeZone: Europe/Berlin", time.Date(2000, 3, 25, 23, 0, 0, 0, time.UTC), // 23 hours
			time.Date(2000, 3, 26, 22, 0, 0, 0, time.UTC), `"r";q=1;w=86400`, "a day",
		},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(c.at))
				set := mustParse(t, "rules: [{id: r, algorithm: fixed_window, limit: 1, "+c.rule+"}]")
				m := newMiddleware(limiters()["leases"](t, set), []Option{WithoutJitter()})
				left := strconv.FormatInt(int64(c.reset.Sub(c.at)/time.Second), 10)
				for i, want := range []string{`"r";r=0;t=` + left, `"r";r=0;t=` + left} {
					w := serve(m, get("/v1/x"))
					if got := w.Header().Get("Ratelimit"); got != want {
						t.Errorf("request %d: RateLimit %s, want %s", i, got, want)
					}
					if got := w.Header().Get("Ratelimit-Policy"); got != c.policy {
						t.Errorf("request %d: RateLimit-Policy %s, want %s", i, got, c.policy)
					}
					if got := w.Header().Get("X-Ratelimit-Reset"); got != strconv.FormatInt(c.reset.Unix(), 10) {
						t.Errorf("request %d: X-RateLimit-Reset %s, want %d", i, got, c.reset.Unix())
					}
					if i == 1 {
						if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != left {
							t.Errorf("status %d, Retry-After %s, want %s", w.Code, w.Header().Get("Retry-After"), left)
						}
						checkProblem(t, w, map[string]any{"detail": `Rule "r" allows 1 request ` + c.every + `. It is used up. Try again in ` +
							string(phrase.AppendSpan(nil, c.reset.Sub(c.at))) + `. To stay within the limit spread requests out, or ask for a higher one.`})
					}
				}
			})
		})
	}
}

// 500 callers are refused in the same second: without jitter all of them come back at once, with it they are spread, and
// never early.
func TestCallersRefusedTogetherComeBackApart(t *testing.T) {
	const document = "rules: [{id: r, algorithm: fixed_window, limit: 100, window: 60s}]"
	for name, opts := range map[string][]Option{"jitter": nil, "none": {WithoutJitter()}} {
		withAPI(t, document, opts, func(a *api) {
			for range 100 {
				a.send(get("/v1/x"))
			}
			time.Sleep(time.Second)
			back := map[string]int{}
			for range 500 {
				back[a.send(get("/v1/x")).Header().Get("Retry-After")]++
			}
			if name == "none" {
				if back["59"] != 500 {
					a.t.Errorf("without jitter: %v, want all after 59 s", back)
				}
				return
			}
			for after, callers := range back {
				seconds, err := strconv.Atoi(after)
				if err != nil || seconds < 59 || seconds > 65 || callers > 500/4 {
					a.t.Errorf("%d of 500 callers come back after %q s", callers, after)
				}
			}
		})
	}
}
