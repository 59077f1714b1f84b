package rule

// The ids of the rules that a fleet shedder is made of. No rule of a document can have one.
const (
	FleetAllID  = "@fleet.all"
	FleetRestID = "@fleet.rest"
)

// FleetRules are a fleet shedder as two concurrency rules of one key: every request is in flight under all, and those that are
// not critical under rest as well, which leaves the reserve free. Both are nil without a shedder, or when it is off. share is
// what percentage of the sum of what servers announce their limits are; 0 for both where the capacity is configured.
func (s *Set) FleetRules() (all, rest *FleetRule) {
	f := s.Shedders.Fleet
	if f == nil || f.Mode == Off {
		return nil, nil
	}
	most := int64(100 - f.Reserve)
	all = s.fleetRule(FleetAllID, f.Capacity, 100)
	rest = s.fleetRule(FleetRestID, f.Capacity/100*most+f.Capacity%100*most/100, most)
	return all, rest
}

// FleetRule is one of the two, with its share.
type FleetRule struct {
	*Rule

	// Share is what percentage of the sum of what servers announce the limit is; 0 where the limit is the rule's.
	Share int64
}

func (s *Set) fleetRule(id string, limit, share int64) *FleetRule {
	if s.Shedders.Fleet.Capacity > 0 {
		share = 0
	}
	limit = max(1, limit)
	r := &Rule{
		// A shedder that cannot be asked sheds nothing.
		ID: id, Version: s.Version, Algorithm: Concurrency, Limit: limit, Burst: limit, OnUnavailable: Allow,
		Cost: Cost{Tokens: 1}, KeyBy: []KeyPart{{Kind: KeyGlobal}}, LeaseTTL: usualSlotTTL,
	}
	r.own = Quota{Limit: limit, Burst: limit, LeaseTTL: r.LeaseTTL}
	return &FleetRule{Rule: r, Share: share}
}
