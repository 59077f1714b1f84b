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

	// What is leased at all; tokens of smaller and slower limits are taken one by one, each for a message, see
	// docs/how-it-works.md.
	leasedFrom    = 4 * servers // the burst, if the limit is fast
	fastFrom      = 40.0 / 3    // tokens/s: four come back in 0.6 of a lease
	leasedLargest = 100         // the burst that is leased even if the limit is slow

	// strictFrom is how long a phase must be, s, for admissions alone to make up 98 % of the ideal. In less, a quarter of the
	// burst, which may wait in a bucket at the end, is a larger part.
	strictFrom = 10.0
)

// judge holds the phases against what is promised for each.
func (r *Result) judge() {
	for i := range r.Phases {
		p := &r.Phases[i]
		if !p.Judged {
			continue
		}

		switch p.Phase {
		case Before, After:
			r.Claims = append(r.Claims, p.claimBound(), p.claimIdeal(), p.claimCalls(), p.claimAnswers())
		case Outage:
			r.Claims = append(r.Claims, p.claimAnswers(), p.claimShare())
		case Recovery:
			r.Claims = append(r.Claims, p.claimAnswers())
		case Failover:
			r.Claims = append(r.Claims, p.claimAnswers(), p.claimOthers(), p.claimFailover())
		case Switch:
			r.Claims = append(r.Claims, p.claimAnswers(), p.claimBound())
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

	if lost && r.Redis {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Not all keys were leased again %v after the master was killed.", failoverIn))
	} else if lost {
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

// claimBound excuses only what it says: the coordinator answers too late now and then on a machine that is too busy, and what
// servers admit then by their own shares is beside the limit, as in any outage.
func (p *PhaseResult) claimBound() Claim {
	text := "no caller is ever admitted more than burst + rate × time, over all servers together, in any stretch of time"
	if p.Local > 0 {
		text += fmt.Sprintf(", but for %s that servers admitted by their own shares, since the coordinator did not answer in time",
			requests(p.Local))
	}

	c := p.claim(text)

	worst := &Line{Burst: 1}

	for i := range p.lines {
		l := &p.lines[i]
		if l.Fullest > l.Burst+p.Local {
			c.missf("%s: %d tokens beyond its rate, and its burst is %d", l.Caller, l.Fullest, l.Burst)
		}

		if l.Fullest*worst.Burst > worst.Fullest*l.Burst {
			worst = l
		}
	}

	c.Found = fmt.Sprintf("the fullest was %s with %d of %d", worst.Caller, worst.Fullest, worst.Burst)

	return c
}

// requests says how many.
func requests(n int64) string {
	if n == 1 {
		return "1 request"
	}

	return fmt.Sprintf("%d requests", n)
}

func (p *PhaseResult) claimIdeal() Claim {
	text := "every caller above its limit gets at least 98 % of what one bucket in one place would have admitted"

	switch {
	case p.Phase == After && p.redis:
		text += ", with nothing in it when an outage of its key was over"
	case p.Phase == After:
		text += ", with nothing in it when the coordinator came back without its counts"
	}

	strict := p.Seconds >= strictFrom
	if !strict {
		text += fmt.Sprintf("; since the phase is shorter than %.0f s, what waits in its bucket at the end counts as admitted, "+
			"up to a quarter of its burst", strictFrom)
	}

	var (
		c        = p.claim(text)
		capped   int
		least    string
		got, due int64 // of the least
	)

	for i := range p.lines {
		l := &p.lines[i]
		if !l.Capped() {
			continue
		}

		capped++

		waits := int64(0)
		if !strict {
			waits = creditable(l.bucket, l.Waiting)
		}

		figures := fmt.Sprintf("%s admitted%s, and at least %s were due, 98 %% of %s", number(l.Admitted), waiting(waits),
			number(dueOf(l.Ideal)), number(l.Ideal))

		if l.Admitted+waits < dueOf(l.Ideal) {
			c.missf("%s: %s", l.Caller, figures)
		}

		if least == "" || (l.Admitted+waits)*due < got*dueOf(l.Ideal) {
			least, got, due = l.Caller+" with "+figures, l.Admitted+waits, dueOf(l.Ideal)
		}
	}

	c.Found = "no caller was above its limit"
	if capped > 0 {
		c.Found = fmt.Sprintf("%d callers were above their limit; the closest was %s", capped, least)
	}

	return c
}

// waiting tells that n tokens count that wait.
func waiting(n int64) string {
	if n == 0 {
		return ""
	}

	return fmt.Sprintf(" and %s waiting", number(n))
}

// leased reports whether servers may hold tokens of the limit in advance.
func (l *Line) leased() bool {
	return l.Burst >= leasedLargest || l.Burst >= leasedFrom && l.Limit >= fastFrom
}

func (p *PhaseResult) claimCalls() Claim {
	c := p.claim(fmt.Sprintf("a hot caller (%.0f requests/s or more, with a limit that is not too small and slow to be leased) "+
		"costs at most %.0f messages to the coordinator per 100 requests", hotFrom, askMost))

	var (
		hot  int
		most float64
	)

	for i := range p.lines {
		l := &p.lines[i]
		if float64(l.Demand) < hotFrom*p.Seconds || !l.leased() {
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
