package leaseway

import (
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// RequestLimit is a limit that a request brings along.
type RequestLimit = rule.RequestLimit

// bring has the request decided by the limit that it brings along, which own counts, and by no other.
func (s *scratch) bring(own *table.Rule) {
	s.keyed = true

	if own.SwitchedOff() {
		if !s.req.Peek {
			own.PassOff()
		}

		return
	}

	s.keys = rule.AppendRequestKey(s.keys, &s.req)
	def := own.Of("")

	if s.req.Limit.Requests == 0 {
		none := *def
		none.Limit, none.Burst, none.Window = 0, 0, s.req.Limit.Window
		s.refuse(refusal{rule: &none, counts: own, reason: ReasonBlocked}, s.keys)

		return
	}

	hit := table.Hit{Rule: own, Key: text(s.keys), Cost: def.CostOf(&s.req)}
	if s.class == rule.ClassTest {
		hit.Rule = own.Test()
	}

	s.hits = append(s.hits, hit)
}
