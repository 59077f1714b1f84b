// Package leasewayhttp limits what net/http handlers serve: a middleware asks a [leaseway.Limiter] about each request, says
// in the response's header fields what is left, and answers for the handler when a rule refuses.
//
//	request ──▶ exempt path or CORS preflight? ──yes──────────────────────────────▶ next handler
//	                     │ no                                                           ▲
//	                     ▼                                                              │
//	            attributes: client address, user, API key, method, host, path           │
//	                     │                                                              │
//	                     ▼                                                              │ or the limiter panicked
//	              Limiter.Decide ──allowed──▶ hold for its delay ──▶ rate-limit fields ─┘
//	                     │ refused                   │ nobody waits any more
//	                     ▼                           ▼
//	             rate-limit fields              Limiter.Refund
//	                     │
//	                     ▼
//	       429, 503 or 400 with Retry-After and a problem document
//
// The ResponseWriter goes to the next handler as it came, so that flushing, hijacking, sendfile and
// [http.ResponseController] work as they do without the middleware. Under a concurrency rule it is wrapped, to learn of
// connections that outlive the handler, with the same abilities. For the other side of the wire there is [Transport], which
// waits as such answers say. The package's neighbours are the SDK below, which decides, and package rule, whose identity
// section says where users and API keys are named.
package leasewayhttp

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/mishap"
	"github.com/leaseway/leaseway/rule"
)

// decider is what the middleware needs of a Limiter.
type decider interface {
	Decide(ctx context.Context, req leaseway.Request) leaseway.Decision
	Refund(d leaseway.Decision)
	Done(d leaseway.Decision)
	Rules() *rule.Set
	TimeIn(d time.Duration) time.Time
}

// Middleware limits handlers. It is safe for concurrent use, and one Middleware may wrap any number of handlers.
type Middleware struct {
	limiter  decider
	direct   *leaseway.Limiter // what limiter is, if it is one; see ask
	meter    meter             // nil for one that does not measure
	config   config
	policies policies
	moments  moments
	bugs     mishap.Log
}

// Stats are counts since the start.
type Stats struct {
	// Panics were recovered on the way to a decision; the requests were served.
	Panics int64
}

// New returns a Middleware that asks limiter. Without options every request is decided, but for CORS preflights and the
// usual health probes, the caller's address is the peer's, and all header fields are sent.
func New(limiter *leaseway.Limiter, opts ...Option) *Middleware { return newMiddleware(limiter, opts) }

func newMiddleware(limiter decider, opts []Option) *Middleware {
	m := &Middleware{limiter: limiter, config: defaultConfig()}
	for _, opt := range opts {
		opt.apply(&m.config)
	}
	m.direct, _ = limiter.(*leaseway.Limiter)
	m.meter, _ = limiter.(meter)
	m.bugs.Logger = m.config.logger
	return m
}

// Handler returns a handler that passes to next what the rules allow, and answers the rest itself. As a method value it is
// the func(http.Handler) http.Handler that routers take: router.Use(middleware.Handler).
//
// What a leaky bucket delays is held until its turn, for the burst's time at most (burst × window/limit), so servers need a
// WriteTimeout that is longer. Who goes away meanwhile gets its tokens back, and next is not called. That is seen as soon
// as net/http sees it: over HTTP/1, not before the request's body was read.
//
// Under a concurrency rule a request is in flight until next has returned, or until a connection that it hijacked is closed;
// if the client goes away first, a second longer at most. Who waits in a rule's queue is held here as well.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.isFree(r) {
			next.ServeHTTP(w, r)
			return
		}
		var d leaseway.Decision
		// The next handler runs outside of decide, so that its panics stay its own.
		switch wait, wanted := m.decide(&d, w.Header(), r); {
		case !wanted:
			leave(w)
		case !d.Allowed:
			m.refuse(w, r, refusal{decision: &d, retryAfterSec: wait})
		case d.HoldsSlot():
			m.occupy(next, w, r, &d)
		default:
			m.serve(next, w, r)
		}
	})
}

// Stats returns counts since the start.
func (m *Middleware) Stats() Stats { return Stats{Panics: m.bugs.Count()} }

// isFree tells the requests that no rule is asked about.
func (m *Middleware) isFree(r *http.Request) bool {
	return slices.Contains(m.config.exempt, r.URL.Path) || r.Method == http.MethodOptions && isPreflight(r.Header)
}

// decide fills in d, and returns the seconds of Retry-After, 0 for none, and whether anybody still waits for the answer. It
// puts the decision into the fields of h. After a panic the request is served: a bug in the limiter must not become an
// outage of the API.
func (m *Middleware) decide(d *leaseway.Decision, h http.Header, r *http.Request) (wait int64, wanted bool) {
	d.Allowed, wanted = true, true
	defer m.survived("deciding a request, which was served unless it was refused before")
	set := m.limiter.Rules()
	var req leaseway.Request
	m.describe(&req, r, set)
	if m.config.attributes != nil {
		req = m.attributed(req, r)
	}
	m.ask(r.Context(), &req, d)
	if d.Allowed && m.config.maxDelay > 0 && d.Delay > m.config.maxDelay {
		m.refuseDelay(r.Context(), d, req)
	}
	switch {
	case !d.Allowed:
		wait = m.retryAfterSec(d)
	case d.Delay > 0:
		if wanted = m.hold(r.Context(), d); !wanted {
			return 0, false
		}
	}
	if headers := m.headers(set); d.Matched() && headers != HeadersNone {
		m.setFields(h, d, wait, headers)
	}
	return wait, wanted
}

// ask writes the limiter's decision over *d. To a method of an interface the compiler gives no pointers into a stack.
func (m *Middleware) ask(ctx context.Context, req *leaseway.Request, d *leaseway.Decision) {
	if m.direct == nil {
		*d = m.limiter.Decide(ctx, *req)
		return
	}
	m.direct.DecideInto(ctx, req, d)
}

// survived must be deferred itself, since only a deferred function can stop a panic.
func (m *Middleware) survived(what string) {
	if cause := recover(); cause != nil {
		m.bugs.Note(what, cause)
	}
}

// headers is which fields a response carries: what the option says, else the document, else all.
func (m *Middleware) headers(set *rule.Set) Headers {
	if m.config.headers == "" && set != nil {
		return set.Headers
	}
	return m.config.headers
}
