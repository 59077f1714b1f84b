package demo

import "fmt"

// claimOthers is about the callers that the master's death did not concern.
func (p *PhaseResult) claimOthers() Claim {
	c := p.claim("callers whose keys are on the other masters do not notice: none is admitted more than burst + rate × time")

	var (
		others int
		worst  = &Line{Burst: 1}
	)

	for i := range p.lines {
		l := &p.lines[i]
		if l.Share > 0 {
			continue
		}

		others++

		if l.Fullest > l.Burst {
			c.missf("%s: %d tokens beyond its rate, and its burst is %d", l.Caller, l.Fullest, l.Burst)
		}

		if l.Fullest*worst.Burst > worst.Fullest*l.Burst {
			worst = l
		}
	}

	c.Found = fmt.Sprintf("%d of %d callers; the fullest was %s with %d of %d",
		others, len(p.lines), worst.Caller, worst.Fullest, worst.Burst)

	return c
}

// claimFailover is about those whose master died. What its replica had not heard of is lost, at most what fits into a bucket;
// meanwhile each server admits its share, beside the limit.
func (p *PhaseResult) claimFailover() Claim {
	c := p.claim("callers whose master died get no more beyond their rate than their burst, what the servers' shares allow until its " +
		"replica serves, and what the failover lost: a burst at most")

	var (
		out, beyond int
		worst       = &Line{Burst: 1, Share: 1}
	)

	for i := range p.lines {
		l := &p.lines[i]
		if l.Share == 0 {
			continue
		}

		out++

		if l.Fullest > l.Burst {
			beyond++
		}

		if l.Fullest > 2*l.Burst+l.Share {
			c.missf("%s: %d tokens beyond its rate; its burst is %d, and the shares were %d", l.Caller, l.Fullest, l.Burst, l.Share)
		}

		if l.Fullest*(worst.Burst+worst.Share) > worst.Fullest*(l.Burst+l.Share) {
			worst = l
		}
	}

	c.Found = "no caller had an outage"
	if out > 0 {
		c.Found = fmt.Sprintf("%d callers had an outage, and %d of them got more than their burst beyond their rate; the closest was %s "+
			"with %d, where its burst is %d and the shares were %d", out, beyond, worst.Caller, worst.Fullest, worst.Burst, worst.Share)
	}

	return c
}
