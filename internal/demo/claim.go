package demo

import (
	"fmt"
	"slices"
)

// Claim is one promise, and whether it was kept.
type Claim struct {
	Phase Phase  `json:"phase"`
	Claim string `json:"claim"`
	Held  bool   `json:"held"`
	Found string `json:"found"` // the figures

	Missed []string `json:"missed,omitempty"` // by whom, with figures
}

// What is promised.
const (
	hotFrom     = 100.0 // requests a second that make a caller hot
	askMost     = 2.0   // messages per 100 requests of a hot caller
	missedShown = 5

	// leasedFrom is the burst from which a limit is leased at all; tokens of smaller ones are taken one by one, each for a
	// message, see docs/how-it-works.md.
	leasedFrom = 4 * servers
)

// judge holds the phases against what is promised for each.
func (r *Result) judge() {
	for i := range r.Phases {
		p := &r.Phases[i]

		switch p.Phase {
		case Before, After:
			r.Claims = append(r.Claims, p.claimBound(), p.claimIdeal(), p.claimCalls(), p.claimAnswers())
		case Outage:
			r.Claims = append(r.Claims, p.claimAnswers(), p.claimShare())
		case Recovery:
			r.Claims = append(r.Claims, p.claimAnswers())
		}
	}

	r.Held = !slices.ContainsFunc(r.Claims, func(c Claim) bool { return !c.Held })
}

// warn says what is worth knowing and no claim. Lost is whether a server did not find the coordinator again in time.
func (r *Result) warn(lost bool) {
	if r.Traffic.Behind {
		r.Warnings = append(r.Warnings, fmt.Sprintf("This machine was too busy: 1 request in 100 was sent more than "+
			"%.0f ms late (at most %.0f ms). The limits are judged by when requests came, not by when they were meant to.",
			r.Traffic.LateP99Ms, r.Traffic.LateMaxMs))
	}

	for i := range r.Phases {
		if p := &r.Phases[i]; p.Late > 0 && (p.Phase == Before || p.Phase == After) {
			r.Warnings = append(r.Warnings, fmt.Sprintf("In the phase %q %d requests waited %v for the coordinator in vain, and each "+
				"server decided them by its own share, beside the limit. On a machine that is less busy none should.",
				p.Phase, p.Late, decideWithin))
		}
	}

	if lost {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Not every server had found the coordinator %v after its return, "+
			"so the phase after the recovery began without it.", recoverIn))
	}
}

func (c *Claim) missf(format string, args ...any) {
	c.Held = false

	if len(c.Missed) < missedShown {
		c.Missed = append(c.Missed, fmt.Sprintf(format, args...))
	}
}

func (p *PhaseResult) claim(text string) Claim { return Claim{Phase: p.Phase, Claim: text, Held: true} }

func (p *PhaseResult) claimBound() Claim {
	c := p.claim("no caller is ever admitted more than burst + rate × time, over all servers together, in any stretch of time")

	worst := &Line{Burst: 1}

	for i := range p.lines {
		l := &p.lines[i]
		if l.Fullest > l.Burst {
			c.missf("%s: %d tokens beyond its rate, and its burst is %d", l.Caller, l.Fullest, l.Burst)
		}

		if l.Fullest*worst.Burst > worst.Fullest*l.Burst {
			worst = l
		}
	}

	c.Found = fmt.Sprintf("the fullest was %s with %d of %d", worst.Caller, worst.Fullest, worst.Burst)

	return c
}

func (p *PhaseResult) claimIdeal() Claim {
	c := p.claim("every caller above its limit gets at least 98 % of what one bucket in one place would have admitted; " +
		"what waits in its bucket at the end counts, up to a quarter of its burst")

	var (
		capped int
		least  *Line
	)

	for i := range p.lines {
		l := &p.lines[i]
		if !l.Capped() {
			continue
		}

		capped++

		if least == nil || l.Admitted*least.Ideal < least.Admitted*l.Ideal {
			least = l
		}

		if !atLimit(l.bucket, l.Admitted, verdict{ideal: l.Ideal, waiting: l.Waiting}) {
			c.missf("%s: %d admitted, %d ideal (%s), %d waiting", l.Caller, l.Admitted, l.Ideal, percent(l.Admitted, l.Ideal), l.Waiting)
		}
	}

	c.Found = "no caller was above its limit"
	if least != nil {
		c.Found = fmt.Sprintf("%d callers were above their limit; the least was %s, of %s, for which %d waited",
			capped, percent(least.Admitted, least.Ideal), least.Caller, least.Waiting)
	}

	return c
}

func (p *PhaseResult) claimCalls() Claim {
	c := p.claim(fmt.Sprintf("a hot caller (%.0f requests/s or more, and a burst of %d or more, which can be leased) "+
		"costs at most %.0f messages to the coordinator per 100 requests", hotFrom, leasedFrom, askMost))

	var (
		hot  int
		most float64
	)

	for i := range p.lines {
		l := &p.lines[i]
		if float64(l.Demand) < hotFrom*p.Seconds || l.Burst < leasedFrom {
			continue
		}

		hot++
		most = max(most, l.AsksPer100())

		if l.AsksPer100() > askMost {
			c.missf("%s: %d messages for %d requests (%.1f per 100)", l.Caller, l.Asks, l.Demand, l.AsksPer100())
		}
	}

	c.Found = fmt.Sprintf("%d hot callers, %.1f at most", hot, most)

	return c
}

func (p *PhaseResult) claimAnswers() Claim {
	c := p.claim("every request is answered, and none with a 5xx")
	c.Found = fmt.Sprintf("%d requests, %d failed", p.Requests, p.Failed)

	for i := range p.lines {
		if l := &p.lines[i]; l.Failed > 0 {
			c.missf("%s: %d of %d failed", l.Caller, l.Failed, l.Demand)
		}
	}

	return c
}

func (p *PhaseResult) claimShare() Claim {
	c := p.claim("no caller gets more than what was leased when the coordinator died, and four fifths of its limit, " +
		"by a third on each server")

	worst := &Line{Share: 1}

	for i := range p.lines {
		l := &p.lines[i]
		if l.Alone > l.Share {
			c.missf("%s: %d admitted, and its share was %d", l.Caller, l.Alone, l.Share)
		}

		if l.Alone*worst.Share > worst.Alone*l.Share {
			worst = l
		}
	}

	c.Found = fmt.Sprintf("the closest was %s with %d of %d", worst.Caller, worst.Alone, worst.Share)

	return c
}
