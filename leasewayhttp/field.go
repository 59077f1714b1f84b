package leasewayhttp

import (
	"net/http"
	"strconv"
	"time"
	"unsafe"

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
	fieldClass      = "Leaseway-Class" // of a request
	fieldReason     = "Leaseway-Reason"
	fieldLink       = "Link"
)

// fields are the values of one response, and the text that they are cut from, in one piece of memory: the response's own,
// since handlers may write to what they find in a header.
type fields struct {
	values [5]string
	room   [roomForText]byte
}

// roomForText is enough for most texts; together with the values it fills a size class of the allocator.
const roomForText = 48

// setFields puts the decision into h. It is on the way of every request, so it costs one allocation, or two with a long text.
func (m *Middleware) setFields(h http.Header, d *leaseway.Decision, wait int64, headers Headers) {
	f, hasReset := m.fieldsOf(d, wait, headers)
	// A capacity of one each: Header.Add copies instead of writing over the neighbour.
	if headers != HeadersIETF {
		h[fieldLimit] = f.values[0:1:1]
		h[fieldRemaining] = f.values[1:2:2]
		if hasReset {
			h[fieldReset] = f.values[2:3:3]
		}
	}
	if headers != HeadersLegacy {
		h[fieldPolicy] = f.values[3:4:4]
		h[fieldRateLimit] = f.values[4:5:5]
	}
}

// fieldsOf writes the values of all fields; hasReset says whether there is a moment at which the budget is whole.
func (m *Middleware) fieldsOf(d *leaseway.Decision, wait int64, headers Headers) (f *fields, hasReset bool) {
	p := m.policies.of(d)
	hasReset = d.Allowed && !d.InFlight() || d.Reset > 0

	f = &fields{}
	text := append(f.room[:0], p.left...)
	remainingAt := len(text)
	text = strconv.AppendInt(text, min(max(d.Remaining, 0), maxInteger), 10)
	remainingTo := len(text)
	if seconds, ok := effectiveWindow(d, wait); ok {
		text = strconv.AppendInt(append(text, ";t="...), seconds, 10)
	}
	rateLimitTo := len(text)
	var reset string // shared if others are likely to tell the same second
	if hasReset && headers != HeadersIETF {
		unix := ceilUnix(m.limiter.TimeIn(max(0, d.Reset)))
		if d.Reset < momentsNear {
			reset = m.moments.text(unix)
		} else {
			text = strconv.AppendInt(text, unix, 10)
		}
	}

	// In the room, or elsewhere if it was too long for it; nothing writes to it any more.
	all := unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // see above
	if reset == "" {
		reset = all[rateLimitTo:]
	}
	// One by one: an array of them would be put together elsewhere, and copied.
	f.values[0], f.values[1], f.values[2] = p.limit, all[remainingAt:remainingTo], reset
	f.values[3], f.values[4] = p.field, all[:rateLimitTo]
	return f, hasReset
}

// effectiveWindow is the t of RateLimit in seconds: when the budget is whole again, or on a refusal when to come back. A
// refusal that waiting does not mend has none, else clients would retry for ever; nor does what is in flight, which no time
// brings back.
func effectiveWindow(d *leaseway.Decision, wait int64) (seconds int64, ok bool) {
	if d.Allowed {
		return ceilSeconds(d.Reset), !d.InFlight()
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

// ceilUnix rounds up to whole seconds since the Unix epoch.
func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
