package leasewayhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/leaseway/leaseway"
)

// hold keeps an allowed request back until its turn in a leaky bucket, and reports whether somebody still waits for it. If
// not, its place in the bucket is given back: who comes next has less to wait. All that is kept of a held request is its
// goroutine and a timer; how many there can be is the burst of the rule, for each key.
func (m *Middleware) hold(ctx context.Context, d *leaseway.Decision) (wanted bool) {
	// A turn that comes after the request's deadline is not waited for.
	if end, ok := ctx.Deadline(); !ok || time.Until(end) >= d.Delay {
		turn := time.NewTimer(d.Delay)
		defer turn.Stop()
		select {
		case <-turn.C:
			// What was decided is as old as the delay by now.
			d.Reset = max(0, d.Reset-d.Delay)
			return true
		case <-ctx.Done():
		}
	}
	m.limiter.Refund(*d)
	return false
}

// refuseDelay turns an allowed decision into the refusal of a request that would be held for longer than anybody waits. What is
// left is looked up again, since its tokens went back.
func (m *Middleware) refuseDelay(ctx context.Context, d *leaseway.Decision, req leaseway.Request) {
	early := d.Delay - m.config.maxDelay
	m.limiter.Refund(*d)
	req.Peek = true
	*d = m.limiter.Decide(ctx, req)
	d.Allowed, d.Reason, d.Delay, d.RetryAfter = false, leaseway.ReasonDelayed, 0, early
}

// leave ends a request that nobody waits for, without a body. It still needs a status, or net/http would say 200 for what
// was never served, to whoever is there after all: contexts end when servers stop, too, and when deadlines pass.
func leave(w http.ResponseWriter) {
	h := w.Header()
	h["Cache-Control"] = []string{"no-store"}
	h[fieldRetryAfter] = []string{"1"} // its place was given back
	w.WriteHeader(http.StatusServiceUnavailable)
}
