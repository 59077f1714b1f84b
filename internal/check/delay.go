package check

import (
	"context"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/rule"
)

// MaxDelay is the longest delay that is passed on to a caller who did not say that it holds requests: one that is ignored
// does little harm up to here, since networks delay as much.
const MaxDelay = 20 * time.Millisecond

// Decide decides a request whose attributes are known to be sound. With passDelay the caller holds an allowed request for
// its Delay, whatever that is; without, one that would be held for more than MaxDelay is refused, as ReasonDelayed.
func (d *Door) Decide(ctx context.Context, req leaseway.Request, passDelay bool) leaseway.Decision {
	return d.answered(ctx, d.limiter.Decide(ctx, req), &req, passDelay)
}

// DecideEach decides requests, each by itself, as Decide does with one whose delay nobody holds. It appends a decision for each.
func (d *Door) DecideEach(ctx context.Context, reqs []leaseway.Request, decisions []leaseway.Decision) []leaseway.Decision {
	from := len(decisions)
	decisions = d.limiter.DecideEach(ctx, reqs, decisions)

	for i := range reqs {
		decisions[from+i] = d.answered(ctx, decisions[from+i], &reqs[i], false)
	}

	return decisions
}

// answered is what a caller is told of the decision of its request.
func (d *Door) answered(ctx context.Context, decision leaseway.Decision, req *leaseway.Request, passDelay bool) leaseway.Decision {
	d.limiter.Done(decision) // what is served elsewhere ends there, and nobody says so here

	if req.Peek {
		return d.looked(decision, passDelay)
	}

	if !decision.Allowed || passDelay || decision.Delay <= MaxDelay {
		return decision // as most are: what is below has the request outlive this call
	}

	look := func() leaseway.Decision {
		again := *req
		again.Peek = true

		return d.limiter.Decide(ctx, again)
	}

	return d.charged(decision, passDelay, look)
}

// DecideTogether decides requests of which all pass or none, as Decide does with one whose delay nobody holds. It appends a
// decision for each; while one is refused nothing is charged.
func (d *Door) DecideTogether(ctx context.Context, reqs []leaseway.Request, decisions []leaseway.Decision) []leaseway.Decision {
	from := len(decisions)
	decisions = d.limiter.DecideTogether(ctx, reqs, decisions)
	own := decisions[from:]
	refused, late := false, false

	for i := range own {
		d.limiter.Done(own[i])

		refused = refused || !own[i].Allowed
		late = late || own[i].Allowed && own[i].Delay > MaxDelay
	}

	if refused || !late {
		return decisions
	}

	for i := range own {
		d.limiter.Refund(own[i])

		if own[i].Delay > MaxDelay {
			own[i] = delayed(own[i], own[i].Delay)
		}
	}

	return decisions
}

// charged is the decision of a request that took tokens. If it is refused for its delay they are given back, and look says
// what is left then.
func (d *Door) charged(decision leaseway.Decision, passDelay bool, look func() leaseway.Decision) leaseway.Decision {
	if !decision.Allowed || passDelay || decision.Delay <= MaxDelay {
		return decision
	}

	d.limiter.Refund(decision)

	return delayed(look(), decision.Delay)
}

// looked is the decision of a request that only looks, which must say what a real one would get. Nobody gave it a delay:
// that is the time until all that is in the bucket has leaked.
func (d *Door) looked(decision leaseway.Decision, passDelay bool) leaseway.Decision {
	set := d.limiter.Rules()
	if !decision.Allowed || set == nil {
		return decision
	}

	r := set.Rule(decision.Rule)
	if r == nil || r.Algorithm != rule.LeakyBucket {
		return decision
	}

	if !passDelay && decision.Reset > MaxDelay {
		return delayed(decision, decision.Reset)
	}

	decision.Delay = decision.Reset

	return decision
}

// delayed turns a decision into the refusal of a request that would be held for delay.
func delayed(decision leaseway.Decision, delay time.Duration) leaseway.Decision {
	decision.Allowed, decision.Reason = false, leaseway.ReasonDelayed
	decision.Delay, decision.RetryAfter = 0, delay-MaxDelay

	return decision
}
