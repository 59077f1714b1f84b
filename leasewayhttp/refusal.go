package leasewayhttp

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/phrase"
	"github.com/leaseway/leaseway/rule"
)

// Jitter is at most a tenth of the wait, and maxJitterSec.
const (
	jitterShare  = 10
	maxJitterSec = 30
)

// refusal is a decision against a request, with the seconds that its caller is told to wait; 0 when waiting does not help.
type refusal struct {
	decision      leaseway.Decision
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
	h["Cache-Control"] = []string{"no-store"}
	if f.retryAfterSec > 0 {
		h[fieldRetryAfter] = []string{strconv.FormatInt(f.retryAfterSec, 10)}
	}
	h[fieldReason] = []string{f.decision.Reason.String()}
	if m.config.docs != "" {
		h.Add(fieldLink, m.helpLink())
	}
	m.expose(h, r.Header)
	if m.config.denied != nil {
		m.config.denied(w, r, f.decision)
		return
	}
	h["Content-Type"] = []string{"application/problem+json"}
	w.WriteHeader(StatusCode(f.decision))
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
	if text, err := json.Marshal(f.problem()); err == nil { // a problem always marshals
		body = text
	}
	return body
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

// problem is the body of a refusal (RFC 9457). It names rules and never keys, some of which are secret.
type problem struct {
	Type             string          `json:"type"`
	Title            string          `json:"title"`
	Status           int             `json:"status"`
	Detail           string          `json:"detail"`
	Reason           leaseway.Reason `json:"reason"`
	Rule             string          `json:"rule,omitempty"`
	Docs             string          `json:"docs,omitempty"`
	Limit            *int64          `json:"limit,omitempty"`
	Remaining        *int64          `json:"remaining,omitempty"`
	RetryAfterSec    int64           `json:"retryAfterSec,omitempty"`
	ViolatedPolicies []string        `json:"violated-policies,omitempty"` //nolint:tagliatelle // the draft's name
}

// The problem types of draft-ietf-httpapi-ratelimit-headers, section 6; the rest have none of their own.
const (
	typeQuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	typeBlank           = "about:blank"
)

func (f *refusal) problem() problem {
	d := &f.decision
	p := problem{
		Type: typeBlank, Title: http.StatusText(StatusCode(*d)), Status: StatusCode(*d), Detail: f.detail(),
		Reason: d.Reason, Rule: d.Rule, Docs: f.docs, RetryAfterSec: f.retryAfterSec,
	}
	switch d.Reason {
	case leaseway.ReasonOverLimit, leaseway.ReasonDelayed:
		p.Type, p.Title = typeQuotaExceeded, "The limit for this caller is used up"
		p.ViolatedPolicies = []string{d.Rule}
	case leaseway.ReasonCostExceedsLimit:
		p.Type, p.Title = typeQuotaExceeded, "The request costs more than the limit"
		p.ViolatedPolicies = []string{d.Rule}
	case leaseway.ReasonTooManyInFlight:
		p.Type, p.Title = typeQuotaExceeded, "Too many requests of this caller are in flight"
		p.ViolatedPolicies = []string{d.Rule}
	case leaseway.ReasonUnavailable:
		p.Type, p.Title = typeReducedCapacity, "Limits cannot be checked at the moment"
	case leaseway.ReasonShedWorker, leaseway.ReasonShedFleet:
		p.Type, p.Title = typeReducedCapacity, "Too busy for this request"
	default:
	}
	if d.Matched() {
		p.Limit, p.Remaining = &d.Limit, &d.Remaining
	}
	return p
}

// detail says in plain words which rule refused, what it allows, when to come back and what to do. It is on the way of every
// request of a caller who runs wild, so it is one text in one buffer.
func (f *refusal) detail() string {
	d := &f.decision
	var room [320]byte
	text := append(room[:0], "A rule"...)
	if d.Matched() {
		text = strconv.AppendQuote(append(room[:0], "Rule "...), d.Rule)
	}
	switch d.Reason {
	case leaseway.ReasonCostExceedsLimit:
		text = append(text, " holds at most "...)
		text = strconv.AppendInt(text, d.Limit, 10)
		text = append(text, " tokens, and this request costs more. "+
			"Waiting does not help: split the request into smaller ones, or ask for a higher limit."...)
	case leaseway.ReasonTooManyInFlight:
		text = append(text, " allows "...)
		text = strconv.AppendInt(text, d.Quota, 10)
		if d.Quota == 1 {
			text = append(text, " request in flight at a time, and there is one. "+
				"Wait until it has its answer, and send one after the other"...)
		} else {
			text = append(text, " requests in flight at a time, and there are as many. "+
				"Wait until one has its answer, and send fewer in parallel"...)
		}
		text = append(text, ", or ask for a higher limit."...)
	case leaseway.ReasonBlocked:
		text = append(text, " blocks this caller. Waiting does not help: ask whoever runs this API."...)
	case leaseway.ReasonMissingKey:
		text = append(text, " needs to know who is calling, and the request does not say. "+
			"Waiting does not help: send the credential or the header that this API asks for."...)
	case leaseway.ReasonUnavailable:
		text = append(text, " cannot be checked at the moment, and lets nothing through until it can. "+
			"It is not your doing: try again in "...)
		text = append(phrase.AppendSpan(text, f.retryAfter()), '.')
	case leaseway.ReasonShedWorker:
		text = append(room[:0], "This server is busy, and serves what matters more first; "...)
		text = f.appendShed(text)
	case leaseway.ReasonShedFleet:
		text = append(room[:0], "All servers together are busy, and what they have left is kept for critical requests; "...)
		text = f.appendShed(text)
	case leaseway.ReasonInvalid:
		text = append(room[:0], "The request cannot be counted, since its cost is not a number of tokens. "+
			"Waiting does not help: correct the cost."...)
	default:
		text = f.appendOverLimit(text)
	}
	return string(text)
}

func (f *refusal) appendShed(text []byte) []byte {
	text = append(append(text, "this one is of class "...), f.decision.Class.String()...)
	text = append(text, ". It is not your doing: try again in "...)
	return append(phrase.AppendSpan(text, f.retryAfter()), '.')
}

func (f *refusal) appendOverLimit(text []byte) []byte {
	d := &f.decision
	text = append(text, " allows "...)
	text = strconv.AppendInt(text, d.Quota, 10)
	text = append(text, " request"...)
	if d.Quota != 1 {
		text = append(text, 's')
	}
	text = append(text, ' ')
	if f.monthly {
		text = append(text, "a month"...)
	} else {
		text = phrase.AppendEvery(text, d.Window)
	}
	if d.Limit != d.Quota {
		text = append(text, ", and at most "...)
		text = strconv.AppendInt(text, d.Limit, 10)
		text = append(text, " at once"...)
	}
	switch {
	case d.Remaining > 0: // the request costs more than one
		text = append(text, ". This one costs more than what is left, which is "...)
		text = append(strconv.AppendInt(text, d.Remaining, 10), ". "...)
	case d.Quota == 1 && d.Limit == 1:
		text = append(text, ". It is used up. "...)
	default:
		text = append(text, ". They are used up. "...)
	}
	if f.retryAfterSec > 0 {
		text = append(text, "Try again in "...)
		text = append(phrase.AppendSpan(text, f.retryAfter()), ". "...)
	}
	return append(text, "To stay within the limit spread requests out, or ask for a higher one."...)
}

func (f *refusal) retryAfter() time.Duration { return time.Duration(f.retryAfterSec) * time.Second }
