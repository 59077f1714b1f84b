package leasewayhttp

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// answer is what became of one attempt: a response, or an error.
type answer struct {
	resp *http.Response
	err  error
}

// status is 0 without a response.
func (a *answer) status() int {
	if a.err != nil || a.resp == nil {
		return 0
	}
	return a.resp.StatusCode
}

// refused says whether a limiter or an overloaded server refused the request.
func (a *answer) refused() bool {
	return a.status() == http.StatusTooManyRequests || a.status() == http.StatusServiceUnavailable
}

// repeatable says whether r may be sent again after the answer, and does no harm if the server sees it twice.
func (a *answer) repeatable(r *http.Request) bool {
	if !isRewindable(r) {
		return false
	}
	switch a.status() {
	case http.StatusTooManyRequests: // not carried out
		return true
	case http.StatusServiceUnavailable:
		return a.resp.Header.Get(fieldReason) != "" || mayHappenTwice(r)
	case http.StatusBadGateway, http.StatusGatewayTimeout, 0:
		return mayHappenTwice(r)
	default:
		return false
	}
}

// isRewindable says whether the body of r, if any, can be had again.
func isRewindable(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// mayHappenTwice tells the idempotent methods (RFC 9110, 9.2.2) and keys, as net/http does for its own retries.
func mayHappenTwice(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	default:
		return r.Header.Get("Idempotency-Key") != "" || r.Header.Get("X-Idempotency-Key") != ""
	}
}

// told is how long the server asks to wait; ok is false if it does not say.
func (a *answer) told() (wait time.Duration, ok bool) {
	if a.resp == nil {
		return 0, false
	}
	h := a.resp.Header
	if wait, ok = parseRetryAfter(h, time.Now()); ok {
		return wait, true
	}
	return parseRateLimit(h)
}

// parseRetryAfter reads Retry-After (RFC 9110, 10.2.3). A date is meant by the server's own clock, as its Date shows it.
func parseRetryAfter(h http.Header, now time.Time) (wait time.Duration, ok bool) {
	text := strings.TrimSpace(h.Get(fieldRetryAfter))
	if text == "" {
		return 0, false
	}
	if isDigits(text) {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			seconds = math.MaxInt64 // so many digits that nobody will wait
		}
		return inSeconds(seconds), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now)), true
}

// parseRateLimit reads the longest t of RateLimit (draft-ietf-httpapi-ratelimit-headers) among policies of which
// nothing remains.
func parseRateLimit(h http.Header) (wait time.Duration, ok bool) {
	list, err := httpsfv.UnmarshalList(h.Values(fieldRateLimit))
	if err != nil {
		return 0, false
	}
	for _, member := range list {
		item, isItem := member.(httpsfv.Item)
		if !isItem {
			continue
		}
		left, _ := item.Params.Get("r")
		seconds, _ := item.Params.Get("t")
		if n, isInt := left.(int64); !isInt || n > 0 {
			continue
		}
		if n, isInt := seconds.(int64); isInt && n >= 0 {
			wait, ok = max(wait, inSeconds(n)), true
		}
	}
	return wait, ok
}

// inSeconds bounds what a server says to what a Duration holds, with room for a pause on top.
func inSeconds(n int64) time.Duration {
	const most = math.MaxInt64 / 2 / int64(time.Second)
	return time.Duration(min(n, most)) * time.Second
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
