package envoyrls

import (
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

const (
	day = 24 * time.Hour

	// maxWindow is the longest that a rule has.
	maxWindow = 366 * day
)

// unit is a unit of Envoy's, and how long its windows are: months of 30 days and years of 365, as in envoyproxy/ratelimit.
type unit struct {
	code   rlsv3.RateLimitResponse_RateLimit_Unit
	length time.Duration
}

// units are the longest first.
func units() [7]unit {
	return [...]unit{
		{rlsv3.RateLimitResponse_RateLimit_YEAR, 365 * day},
		{rlsv3.RateLimitResponse_RateLimit_MONTH, 30 * day},
		{rlsv3.RateLimitResponse_RateLimit_WEEK, 7 * day},
		{rlsv3.RateLimitResponse_RateLimit_DAY, day},
		{rlsv3.RateLimitResponse_RateLimit_HOUR, time.Hour},
		{rlsv3.RateLimitResponse_RateLimit_MINUTE, time.Minute},
		{rlsv3.RateLimitResponse_RateLimit_SECOND, time.Second},
	}
}

// windowOf is how long a number of units are, 0 of which are 1; it is 0 for an unknown unit, and for what is longer than the
// windows that there are.
func windowOf(code rlsv3.RateLimitResponse_RateLimit_Unit, multiplier int64) time.Duration {
	for _, u := range units() {
		if n := max(1, multiplier); u.code == code && n <= int64(maxWindow/u.length) {
			return time.Duration(n) * u.length
		}
	}

	return 0
}

// rateOf says a quota in the longest unit of which the window is a whole number: 300 in 5 minutes are 300 requests, MINUTE,
// times 5. What is no whole second is said a second, rounded up.
func rateOf(quota int64, window time.Duration) (requests int64, code rlsv3.RateLimitResponse_RateLimit_Unit, multiplier int64) {
	for _, u := range units() {
		if window%u.length == 0 {
			return quota, u.code, int64(window / u.length)
		}
	}

	perSecond := float64(quota) * float64(time.Second) / float64(window)

	return int64(perSecond + 0.5), rlsv3.RateLimitResponse_RateLimit_SECOND, 1
}
