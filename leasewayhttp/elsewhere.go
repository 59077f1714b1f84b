package leasewayhttp

import (
	"net/http"
	"strconv"

	"github.com/leaseway/leaseway"
)

// Field is a header field of a response, its name in lower case, as HTTP/2 and proxies write it.
type Field struct {
	Name, Value string
}

// Request is what Handler would ask the limiter about r, for doors that have a request only as a proxy describes it.
func (m *Middleware) Request(r *http.Request) (req leaseway.Request) {
	m.describe(&req, r, m.limiter.Rules())
	if m.config.attributes != nil {
		req = m.attributed(req, r)
	}
	return req
}

// AppendFields appends the fields that Handler's response to a decided request would have, and on a refusal returns its body:
// for doors whose responses somebody else sends.
func (m *Middleware) AppendFields(to []Field, d *leaseway.Decision) (fields []Field, body []byte) {
	var wait int64
	if !d.Allowed {
		wait = m.retryAfterSec(d)
	}
	if headers := m.headers(m.limiter.Rules()); d.Matched() && headers != HeadersNone {
		to = m.appendLimit(to, d, wait, headers)
	}
	if d.Allowed {
		return to, nil
	}
	if wait > 0 {
		to = append(to, Field{"retry-after", strconv.FormatInt(wait, 10)})
	}
	to = append(to, Field{"leaseway-reason", d.Reason.String()}, Field{"cache-control", "no-store"},
		Field{"content-type", "application/problem+json"})
	if m.config.docs != "" {
		to = append(to, Field{"link", m.helpLink()})
	}
	return to, m.body(&refusal{decision: d, retryAfterSec: wait})
}

// appendLimit appends the fields that say how much is left.
func (m *Middleware) appendLimit(to []Field, d *leaseway.Decision, wait int64, headers Headers) []Field {
	f, hasReset := m.fieldsOf(d, wait, headers)
	if headers != HeadersIETF {
		to = append(to, Field{"x-ratelimit-limit", f.values[0]}, Field{"x-ratelimit-remaining", f.values[1]})
		if hasReset {
			to = append(to, Field{"x-ratelimit-reset", f.values[2]})
		}
	}
	if headers != HeadersLegacy {
		to = append(to, Field{"ratelimit-policy", f.values[3]}, Field{"ratelimit", f.values[4]})
	}
	return to
}
