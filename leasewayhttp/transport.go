package leasewayhttp

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// Transport sends requests as a good client of a limited API does: it waits as long as a refusal says, spreads attempts out,
// and asks less of a server that refuses most. It is safe for concurrent use. The life of one request:
//
//	┌──▶ throttled? ──yes──▶ *ThrottledError, or the refusal before it
//	│        │ no
//	│        ▼
//	│      send ──served, or nothing to be gained──▶ the response or error, as it came
//	│        │ refused, or in trouble
//	│        ▼
//	│   may it be sent again? attempts, patience, the deadline, the budget ──no──▶ the response or error, as it came
//	│        │ yes
//	└── wait: what the server said, and by chance on top
//
// After 429 any request may be sent again whose body can be, since it was not carried out; so after 503 with Leaseway-Reason.
// After other 502, 503 and 504, and without an answer, only what may happen twice: an idempotent method (RFC 9110, 9.2.2), or
// an Idempotency-Key. The wait is that of Retry-After, seconds or a date, else the t of RateLimit where its r is 0. A 429 that
// names none is final: waiting does not help. X-RateLimit-Reset is not read, since servers disagree about what it means.
type Transport struct {
	base   http.RoundTripper
	config transportConfig
	began  time.Time
	chance func() float64 // from 0 to below 1
	hosts  hosts

	retries, throttled, unpaid atomic.Int64
}

// TransportStats are counts since the start.
type TransportStats struct {
	// Retries were sent after the first attempt of a request.
	Retries int64
	// Throttled requests and retries were not sent, since their server refuses most.
	Throttled int64
	// OutOfBudget retries were not sent, since the budget for them was used up.
	OutOfBudget int64
}

// NewTransport returns a Transport over base, or over http.DefaultTransport if that is nil. Set it as the Transport of an
// http.Client; a Timeout of the client, or a deadline of a request's context, holds for attempts and waits together.
func NewTransport(base http.RoundTripper, opts ...TransportOption) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	t := &Transport{base: base, config: defaultTransport(), began: time.Now(), chance: rand.Float64}
	for _, opt := range opts {
		opt.applyTransport(&t.config)
	}
	return t
}

// Stats returns counts since the start.
func (t *Transport) Stats() TransportStats {
	return TransportStats{Retries: t.retries.Load(), Throttled: t.throttled.Load(), OutOfBudget: t.unpaid.Load()}
}

// RoundTrip sends r until it is served or sending it again is of no use, and returns the last response as it came. The
// error is the base's, that of r's context if it ends while the request waits, or a *ThrottledError if r was not sent at all.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	h := t.hosts.of(hostOf(r), t.now())
	if err := h.enter(t.now(), t.config.throttle, t.chance()); err != nil {
		t.throttled.Add(1)
		closeBody(r)
		err.Host = hostOf(r)
		return nil, err
	}
	h.begin(t.now())
	waited := time.Duration(0)
	for attempt := 1; ; attempt++ {
		resp, err := t.base.RoundTrip(r)
		a := answer{resp: resp, err: err}
		h.heard(t.now(), a.refused(), err == nil)
		wait, again := t.pause(r, &a, attempt)
		if again = again && waited+wait <= t.config.patience && fits(r.Context(), wait) && t.mayRetry(h, &a); !again {
			return resp, err
		}
		// The body first: without it the refusal at hand is still the answer.
		next, rewound := rewind(r)
		if !rewound {
			return resp, err
		}
		a.discard()
		if err := sleep(r.Context(), wait); err != nil {
			closeBody(next)
			return nil, err
		}
		t.retries.Add(1)
		waited += wait
		r = next
	}
}

// pause is how long to wait before the next attempt; again is false if there is to be none.
func (t *Transport) pause(r *http.Request, a *answer, attempt int) (wait time.Duration, again bool) {
	if attempt >= t.config.attempts || r.Context().Err() != nil || !a.repeatable(r) {
		return 0, false
	}
	told, ok := a.told()
	if !ok && a.status() == http.StatusTooManyRequests {
		return 0, false
	}
	return told + t.backoff(attempt), true
}

// backoff is the random part of a wait: full jitter, anywhere from 0 to a bound that doubles with each attempt.
func (t *Transport) backoff(attempt int) time.Duration {
	bound := t.config.most
	if shifted := t.config.first << (attempt - 1); attempt < 32 && shifted>>(attempt-1) == t.config.first {
		bound = min(bound, shifted)
	}
	return time.Duration(t.chance() * float64(bound))
}

// mayRetry pays for a retry, unless the server would most likely refuse it. Waiting out a 429 needs no budget, since the
// limit is one.
func (t *Transport) mayRetry(h *host, a *answer) bool {
	if h.enter(t.now(), t.config.throttle, t.chance()) != nil {
		t.throttled.Add(1)
		return false
	}
	if a.status() != http.StatusTooManyRequests && !h.pay(t.now(), t.config.ratio, t.config.floor) {
		t.unpaid.Add(1)
		return false
	}
	return true
}

// now is µs since the Transport was made.
func (t *Transport) now() int64 { return time.Since(t.began).Microseconds() }

// fits says whether a wait ends before its request must.
func fits(ctx context.Context, wait time.Duration) bool {
	end, ok := ctx.Deadline()
	return !ok || time.Until(end) > wait
}

// sleep waits, or until ctx ends: then it returns its error.
func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rewind returns r with its body from the start; false if that cannot be had. It leaves r as it is.
func rewind(r *http.Request) (again *http.Request, ok bool) {
	if !isRewindable(r) {
		return nil, false
	}
	again = r.WithContext(r.Context()) // a copy that shares the header
	if r.GetBody == nil {
		return again, true
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, false
	}
	again.Body = body
	return again, true
}

// closeBody does what is asked of a RoundTripper even if it sends nothing.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nobody is left to tell
	}
}

// drained is how much of a body is read so that its connection can be used again, bytes.
const drained = 64 << 10

// discard ends a response that nobody will see.
func (a *answer) discard() {
	if a.resp == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, a.resp.Body, drained)
	_ = a.resp.Body.Close()
}
