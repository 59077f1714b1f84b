package leasewayhttp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

func TestRefusals(t *testing.T) {
	of := func(reason leaseway.Reason, change func(*leaseway.Decision)) leaseway.Decision {
		d := overLimit()
		d.Reason, d.RetryAfter = reason, 0
		change(&d)
		return d
	}
	for _, c := range []struct {
		name       string
		decision   leaseway.Decision
		status     int
		retryAfter string // "" is none
		title      string
		detail     string
	}{
		{
			"over the limit", overLimit(), 429, "5",
			"The limit for this caller is used up",
			`Rule "search" allows 100 requests a minute, and at most 150 at once. They are used up. Try again in 5 seconds. ` +
				`To stay within the limit spread requests out, or ask for a higher one.`,
		},
		{
			"over a limit whose burst is the limit",
			of(leaseway.ReasonOverLimit, func(d *leaseway.Decision) {
				d.Limit, d.RetryAfter, d.Window = 100, time.Nanosecond, 90*time.Second
			}),
			429, "1",
			"The limit for this caller is used up",
			`Rule "search" allows 100 requests every 90 seconds. They are used up. Try again in 1 second. ` +
				`To stay within the limit spread requests out, or ask for a higher one.`,
		},
		{
			"a cost above what is left", of(leaseway.ReasonOverLimit, func(d *leaseway.Decision) {
				d.Remaining, d.RetryAfter = 4, 5*time.Second
			}), 429, "5",
			"The limit for this caller is used up",
			`Rule "search" allows 100 requests a minute, and at most 150 at once. This one costs more than what is left, which is 4. ` +
				`Try again in 5 seconds. To stay within the limit spread requests out, or ask for a higher one.`,
		},
		{
			"a cost above the capacity", of(leaseway.ReasonCostExceedsLimit, func(d *leaseway.Decision) { d.Remaining = 150 }), 429, "",
			"The request costs more than the limit",
			`Rule "search" holds at most 150 tokens, and this request costs more. ` +
				`Waiting does not help: split the request into smaller ones, or ask for a higher limit.`,
		},
		{
			"blocked", of(leaseway.ReasonBlocked, func(d *leaseway.Decision) { d.Limit, d.Quota, d.Window, d.Reset = 0, 0, 0, 0 }), 429, "",
			"Too Many Requests",
			`Rule "search" blocks this caller. Waiting does not help: ask whoever runs this API.`,
		},
		{
			"no key", of(leaseway.ReasonMissingKey, func(*leaseway.Decision) {}), 429, "",
			"Too Many Requests",
			`Rule "search" needs to know who is calling, and the request does not say. ` +
				`Waiting does not help: send the credential or the header that this API asks for.`,
		},
		{
			"fail closed", of(leaseway.ReasonUnavailable, func(d *leaseway.Decision) { d.RetryAfter = 2 * time.Second }), 503, "2",
			"Limits cannot be checked at the moment",
			`Rule "search" cannot be checked at the moment, and lets nothing through until it can. ` +
				`It is not your doing: try again in 2 seconds.`,
		},
		{
			"fail closed, nobody knows for how long", of(leaseway.ReasonUnavailable, func(d *leaseway.Decision) { d.Rule = "" }), 503, "1",
			"Limits cannot be checked at the moment",
			`A rule cannot be checked at the moment, and lets nothing through until it can. ` +
				`It is not your doing: try again in 1 second.`,
		},
		{
			"no request at all", of(leaseway.ReasonInvalid, func(d *leaseway.Decision) { d.Rule = "" }), 400, "",
			"Bad Request",
			`The request cannot be counted, since its cost is not a number of tokens. Waiting does not help: correct the cost.`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := serve(newMiddleware(&verdict{decision: c.decision}, nil), get("/"))
			h := w.Header()
			if w.Code != c.status || StatusCode(c.decision) != c.status {
				t.Errorf("status %d, want %d", w.Code, c.status)
			}
			if got := h.Get("Retry-After"); got != c.retryAfter {
				t.Errorf("Retry-After %q, want %q", got, c.retryAfter)
			}
			if got := h.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type %q", got)
			}
			if got := h.Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control %q", got)
			}
			if limit := h.Get("Ratelimit"); strings.Contains(limit, ";t=") != (c.retryAfter != "" && c.decision.Rule != "") {
				t.Errorf("RateLimit %q beside Retry-After %q", limit, c.retryAfter)
			}
			checkProblem(t, w, map[string]any{
				"title": c.title, "detail": c.detail, "status": float64(c.status), "reason": c.decision.Reason.String(),
			})
		})
	}
}

func checkProblem(t *testing.T, w *httptest.ResponseRecorder, want map[string]any) {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	for member, value := range want {
		if body[member] != value {
			t.Errorf("%s is %v,\nwant %v", member, body[member], value)
		}
	}
}

func TestProblemMembers(t *testing.T) {
	w := serve(newMiddleware(&verdict{decision: overLimit()}, nil), get("/"))
	checkProblem(t, w, map[string]any{
		"type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"rule": "search", "limit": 150.0, "remaining": 0.0, "retryAfterSec": 5.0,
	})
	w = serve(newMiddleware(&verdict{decision: leaseway.Decision{Reason: leaseway.ReasonInvalid}}, nil), get("/"))
	for _, member := range []string{`"rule"`, `"limit"`, `"remaining"`, `"retryAfterSec"`, `"violated-policies"`} {
		if strings.Contains(w.Body.String(), member) {
			t.Errorf("%s of no rule: %s", member, w.Body)
		}
	}
}

// A blocked caller is told no time at all: whatever is in the past would be a time to come back.
func TestBlockedCallersAreToldNoTime(t *testing.T) {
	d := leaseway.Decision{Reason: leaseway.ReasonBlocked, Rule: "b"}
	h := serve(newMiddleware(&verdict{decision: d}, nil), get("/")).Header()
	for name, want := range map[string]string{
		"X-RateLimit-Limit": "0", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "", "Retry-After": "",
		"RateLimit": `"b";r=0`, "RateLimit-Policy": `"b";q=0`,
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestRetryAfterIsWholeSecondsRoundedUp(t *testing.T) {
	m := newMiddleware(nil, []Option{WithoutJitter()})
	for _, c := range []struct {
		wait time.Duration
		want int64
	}{
		{59_999 * time.Millisecond, 60},
		{29_600 * time.Millisecond, 30},
		{800 * time.Millisecond, 1},
		{time.Millisecond, 1},
		{time.Second / 3, 1},
		{time.Nanosecond, 1},
		{59 * time.Second, 59},
		{0, 0},
		{-time.Hour, 0},
	} {
		if got := m.retryAfterSec(&leaseway.Decision{Reason: leaseway.ReasonOverLimit, RetryAfter: c.wait}); got != c.want {
			t.Errorf("%v: %d, want %d", c.wait, got, c.want)
		}
	}
}

// 500 callers who are refused with 59 s to wait come back spread, and none of them early.
func TestJitterSpreadsCallers(t *testing.T) {
	m := newMiddleware(nil, nil)
	d := leaseway.Decision{Reason: leaseway.ReasonOverLimit, RetryAfter: 59 * time.Second}
	back := map[int64]int{}
	for range 500 {
		back[m.retryAfterSec(&d)]++
	}
	for wait, callers := range back {
		if wait < 59 || wait > 65 {
			t.Errorf("%d callers are told %d s, want 59 to 65", callers, wait)
		}
		if callers > 500/4 {
			t.Errorf("%d of 500 callers come back after %d s", callers, wait)
		}
	}
}

func TestJitterIsATenthAndAtMostHalfAMinute(t *testing.T) {
	for wait, want := range map[int64]int64{1: 0, 9: 0, 10: 1, 59: 5, 299: 29, 300: 30, 86400: 30} {
		if got := maxJitter(wait); got != want {
			t.Errorf("%d s: up to %d more, want %d", wait, got, want)
		}
	}
}

// One number: clients read it in the field, in RateLimit or in the body.
func TestRetryAfterIsTheSameEverywhere(t *testing.T) {
	d := overLimit()
	d.RetryAfter = time.Hour
	for range 50 {
		w := serve(newMiddleware(&verdict{decision: d}, nil), get("/"))
		after := w.Header().Get("Retry-After")
		if got, want := w.Header().Get("Ratelimit"), `"search";r=0;t=`+after; got != want {
			t.Fatalf("RateLimit %s, want %s", got, want)
		}
		seconds, err := strconv.Atoi(after)
		if err != nil || seconds < 3600 || seconds > 3630 {
			t.Fatalf("Retry-After %q: %v", after, err)
		}
		checkProblem(t, w, map[string]any{"retryAfterSec": float64(seconds)})
	}
}

func TestHeadHasNoBody(t *testing.T) {
	w := serve(newMiddleware(&verdict{decision: overLimit()}, nil), httptest.NewRequest(http.MethodHead, "/", http.NoBody))
	if w.Code != 429 || w.Body.Len() != 0 || w.Header().Get("Retry-After") != "5" || w.Header().Get("Content-Type") == "" {
		t.Errorf("status %d, fields %v, body %q", w.Code, w.Header(), w.Body)
	}
}

func TestWithDeniedWritesTheAnswer(t *testing.T) {
	m := newMiddleware(&verdict{decision: overLimit()}, []Option{
		WithDenied(func(w http.ResponseWriter, r *http.Request, d leaseway.Decision) {
			http.Error(w, "slow down, "+r.URL.Path+" by "+d.Rule+", "+w.Header().Get("Retry-After"), StatusCode(d))
		}),
	})
	w := serve(m, get("/x"))
	if w.Code != 429 || strings.TrimSpace(w.Body.String()) != "slow down, /x by search, 5" {
		t.Errorf("status %d, body %q", w.Code, w.Body)
	}
}

// What an outer handler said about the response that is not sent would make clients misread this one.
func TestRefusalForgetsTheOtherResponse(t *testing.T) {
	m := newMiddleware(&verdict{decision: overLimit()}, nil)
	w := httptest.NewRecorder()
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Content-Length", "7")
	w.Header().Set("Cache-Control", "max-age=60")
	w.Header().Set("ETag", `"x"`)
	w.Header().Set("X-Trace", "kept")
	m.Handler(http.NotFoundHandler()).ServeHTTP(w, get("/"))
	for name, want := range map[string]string{
		"Content-Encoding": "", "Content-Length": "", "ETag": "", "Cache-Control": "no-store", "X-Trace": "kept",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Neither the body nor a field of a refusal shows whose budget it was.
func TestRefusalsDoNotShowKeys(t *testing.T) {
	r := get("/hush-path?token=hush")
	r.RemoteAddr = "203.0.113.77:4000"
	r.Header.Set("X-Api-Key", "hush-key")
	r.Header.Set("Authorization", "Bearer hush-token")
	r.Header.Set("X-User", "hush-user")
	identity := rule.Identity{APIKey: []rule.Credential{{Header: "X-Api-Key"}}, User: rule.UserSource{Header: "X-User", Trusted: true}}
	reasons := []leaseway.Reason{
		leaseway.ReasonOverLimit, leaseway.ReasonCostExceedsLimit, leaseway.ReasonBlocked, leaseway.ReasonMissingKey,
		leaseway.ReasonUnavailable, leaseway.ReasonInvalid,
	}
	for _, reason := range reasons {
		d := overLimit()
		d.Reason = reason
		w := serve(newMiddleware(&verdict{decision: d}, []Option{WithIdentity(identity)}), r)
		var all strings.Builder
		if err := w.Result().Write(&all); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(all.String(), "hush") || strings.Contains(all.String(), "203.0.113.77") {
			t.Errorf("%s shows the key: %s", reason, all.String())
		}
	}
}
