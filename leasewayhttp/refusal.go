package leasewayhttp

import (
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// Jitter is at most a tenth of the wait, and maxJitterSec.
const (
	jitterShare  = 10
	maxJitterSec = 30
)

// refusal is a decision against a request, with the seconds that its caller is told to wait; 0 when waiting does not help.
type refusal struct {
	decision      *leaseway.Decision
	retryAfterSec int64
	monthly       bool   // the window is a month of the calendar, whose length in the decision is nominal
	docs          string // what the operator has written about limits; "" for nothing
}

// StatusCode is the status of the answer to a refused request: 429 for the caller's budget, 503 for the system's state,
// 400 for a request that is none.
func StatusCode(d leaseway.Decision) int {
	switch d.Reason {
	case leaseway.ReasonUnavailable, leaseway.ReasonShedWorker, leaseway.ReasonShedFleet:
		return http.StatusServiceUnavailable
	case leaseway.ReasonInvalid:
		return http.StatusBadRequest
	default:
		return http.StatusTooManyRequests
	}
}

// retryAfterSec is the Retry-After of a refused request: whole seconds, rounded up, and jitter on top, so that it is never
// early; 0 for none.
func (m *Middleware) retryAfterSec(d *leaseway.Decision) int64 {
	wait := ceilSeconds(d.RetryAfter)
	if wait == 0 {
		if d.Reason != leaseway.ReasonUnavailable {
			return 0
		}
		wait = 1 // nobody knows when, but a client that is told nothing comes back at once
	}
	if m.config.noJitter {
		return wait
	}
	return wait + rand.Int64N(maxJitter(wait)+1)
}

// maxJitter is how many whole seconds may be added to a wait. A wait below 10 s gets none: a tenth of it is no whole second.
func maxJitter(wait int64) int64 { return min(wait/jitterShare, maxJitterSec) }

// refuse answers a request that a rule refused.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, f refusal) {
	h := w.Header()
	// What others have said about the response that now will not be.
	for _, field := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		delete(h, field)
	}
	values := &[...]string{"no-store", f.decision.Reason.String(), "application/problem+json", ""}
	h["Cache-Control"], h[fieldReason] = values[0:1:1], values[1:2:2]
	if f.retryAfterSec > 0 {
		values[3] = strconv.FormatInt(f.retryAfterSec, 10)
		h[fieldRetryAfter] = values[3:4:4]
	}
	if m.config.docs != "" {
		h.Add(fieldLink, m.helpLink())
	}
	m.expose(h, r.Header)
	if m.config.denied != nil {
		m.config.denied(w, r, *f.decision)
		return
	}
	h["Content-Type"] = values[2:3:3]
	w.WriteHeader(StatusCode(*f.decision))
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(m.body(&f)) // a client that went away needs none
}

// helpLink is the field Link of a refusal, where there are docs.
func (m *Middleware) helpLink() string { return "<" + m.config.docs + `>; rel="help"` }

// body is the problem document of a refusal; empty after a panic, since the status says the most of it.
func (m *Middleware) body(f *refusal) (body []byte) {
	defer m.survived("saying why a request was refused")
	f.monthly, f.docs = m.isMonthly(f.decision.Rule), m.config.docs
	return f.appendProblem(make([]byte, 0, roomForBody))
}

// isMonthly says whether the windows of a rule are months; a decision only has their nominal length.
func (m *Middleware) isMonthly(id string) bool {
	set := m.limiter.Rules()
	if set == nil {
		return false
	}
	r := set.Rule(id)
	return r != nil && r.Calendar == rule.CalendarMonth
}
