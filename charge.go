package leaseway

import (
	"time"

	"github.com/leaseway/leaseway/internal/table"
)

// charges are what an allowed request took, rule by rule. Most requests match
// one or two rules; only more need memory of their own.
type charges struct {
	first, second table.Charge
	more          []table.Charge
}

func (d *Decision) charge(h *table.Hit) {
	switch c := h.Out.Charge; {
	case c.None():
	case d.charges.first.None():
		d.charges.first = c
	case d.charges.second.None():
		d.charges.second = c
	default:
		d.charges.more = append(d.charges.more, c)
	}
}

// from fills in d with what h's rule said.
func (d *Decision) from(h *table.Hit) { d.fill(h.Rule.ID(), &h.Out) }

func (d *Decision) fill(id string, o *table.Outcome) {
	d.Allowed = o.Kind == table.Allowed
	d.Origin = Origin(o.Origin)
	d.Rule = id
	d.Limit, d.Remaining = o.Burst, o.Remaining
	d.Quota, d.Window = o.Quota, o.Window
	d.Reset = time.Duration(o.Reset) * time.Microsecond
	d.Delay = max(d.Delay, time.Duration(o.Delay)*time.Microsecond)

	if !d.Allowed {
		d.Reason = reasonOf(o.Kind)
		d.RetryAfter = time.Duration(o.RetryAfter) * time.Microsecond
	}
}

func reasonOf(k table.Kind) Reason {
	switch k {
	case table.OverLimit:
		return ReasonOverLimit
	case table.CostExceeds:
		return ReasonCostExceedsLimit
	case table.Blocked:
		return ReasonBlocked
	case table.Unavailable:
		return ReasonUnavailable
	case table.TooMany:
		return ReasonTooManyInFlight
	case table.Allowed:
	}

	return ReasonNone
}

// Refund gives back what d charged, to every rule it was charged to: for a
// request that turned out not to count. It is Done, too. Each decision can be refunded once; a
// copy that is refunded again gives the tokens back again.
func (l *Limiter) Refund(d Decision) {
	l.Done(d)
	l.twice("refunding a decision", func() {
		l.at(stageRefund)
		l.refund(&d)
	})
}

// refund gives back the tokens that d charged, each charge once, even if it is called again after a panic.
func (l *Limiter) refund(d *Decision) {
	for c := d.charges.next(); !c.None(); c = d.charges.next() {
		l.table.Refund(c)
	}
}

// next takes one charge out; one of nothing when there is none left.
func (c *charges) next() (next table.Charge) {
	switch n := len(c.more); {
	case n > 0:
		next, c.more = c.more[n-1], c.more[:n-1]
	case !c.second.None():
		next, c.second = c.second, table.Charge{}
	default:
		next, c.first = c.first, table.Charge{}
	}

	return next
}
