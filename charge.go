package leaseway

import (
	"time"

	"github.com/leaseway/leaseway/internal/table"
)

// charges are what an allowed request took, rule by rule, and the slot that it
// occupies. Most requests match one or two rules that count tokens; only what is
// beyond needs memory of its own.
type charges struct {
	first, second table.Charge
	beyond        *beyond
}

// beyond is shared by the copies of a decision.
type beyond struct {
	more []table.Charge
	slot table.Slot
}

func (d *Decision) charge(h *table.Hit) {
	switch c := h.Out.Charge; {
	case c.None():
	case d.charges.first.None():
		d.charges.first = c
	case d.charges.second.None():
		d.charges.second = c
	default:
		b := d.charges.further()
		b.more = append(b.more, c)
	}
}

// further returns what there is beyond two charges, made if need be.
func (c *charges) further() *beyond {
	if c.beyond == nil {
		c.beyond = &beyond{}
	}

	return c.beyond
}

// slot returns the slot that the request occupies, none if it occupies none.
func (c *charges) slot() table.Slot {
	if c.beyond == nil {
		return table.Slot{}
	}

	return c.beyond.slot
}

// occupy adds a slot to those that the request occupies.
func (c *charges) occupy(s table.Slot) {
	if !s.None() {
		c.further().slot = s.Join(c.slot())
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

// told fills in d, which is blank, with what memory said: fill for most requests.
func (d *Decision) told(t table.Told, c table.Charge) {
	d.Origin, d.Rule = OriginLease, t.Rule()
	d.Limit, d.Quota, d.Window = t.Limits()
	d.Remaining, d.Reset = t.Remaining, time.Duration(t.Reset)*time.Microsecond

	if c.None() {
		d.Reason, d.RetryAfter = ReasonOverLimit, time.Duration(t.RetryAfter)*time.Microsecond
	} else {
		d.Allowed, d.charges.first = true, c
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
	switch b := c.beyond; {
	case b != nil && len(b.more) > 0:
		last := len(b.more) - 1
		next, c.beyond = b.more[last], &beyond{more: b.more[:last], slot: b.slot} // other copies keep theirs
	case !c.second.None():
		next, c.second = c.second, table.Charge{}
	default:
		next, c.first = c.first, table.Charge{}
	}

	return next
}
