package leasewayhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/leaseway/leaseway"
)

// The fields of a response, as the keys of http.Header must be spelled. Names are compared without regard to case.
const (
	fieldLimit      = "X-Ratelimit-Limit"
	fieldRemaining  = "X-Ratelimit-Remaining"
	fieldReset      = "X-Ratelimit-Reset"
	fieldPolicy     = "Ratelimit-Policy"
	fieldRateLimit  = "Ratelimit"
	fieldRetryAfter = "Retry-After"
)

// setFields puts the decision into h. It is on the way of every request, so the values cost two allocations in all: one
// text that they are cut from, and one array that h points into. The array is the response's own, since handlers may
// write to what they find in a header.
func (m *Middleware) setFields(h http.Header, d *leaseway.Decision, wait int64, headers Headers) {
	p := m.policies.of(d)
	hasReset := d.Allowed || d.Reset > 0

	var room [160]byte
	text := append(room[:0], p.left...)
	remainingAt := len(text)
	text = strconv.AppendInt(text, min(max(d.Remaining, 0), maxInteger), 10)
	remainingTo := len(text)
	if seconds, ok := effectiveWindow(d, wait); ok {
		text = strconv.AppendInt(append(text, ";t="...), seconds, 10)
	}
	rateLimitTo := len(text)
	if hasReset && headers != HeadersIETF {
		text = strconv.AppendInt(text, ceilUnix(time.Now().Add(d.Reset)), 10)
	}

	all := string(text)
	values := &[...]string{p.limit, all[remainingAt:remainingTo], all[rateLimitTo:], p.field, all[:rateLimitTo]}
	// A capacity of one each: Header.Add copies instead of writing over the neighbour.
	if headers != HeadersIETF {
		h[fieldLimit] = values[0:1:1]
		h[fieldRemaining] = values[1:2:2]
		if hasReset {
			h[fieldReset] = values[2:3:3]
		}
	}
	if headers != HeadersLegacy {
		h[fieldPolicy] = values[3:4:4]
		h[fieldRateLimit] = values[4:5:5]
	}
}

// effectiveWindow is the t of RateLimit in seconds: when the budget is whole again, or on a refusal when to come back. A
// refusal that waiting does not mend has none, else clients would retry for ever.
func effectiveWindow(d *leaseway.Decision, wait int64) (seconds int64, ok bool) {
	if d.Allowed {
		return ceilSeconds(d.Reset), true
	}
	return wait, wait > 0
}

// ceilSeconds rounds up to whole seconds; what is past is 0.
func ceilSeconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// ceilUnix is the first whole second since the Unix epoch that is not before t.
func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() == 0 {
		return t.Unix()
	}
	return t.Unix() + 1
}
