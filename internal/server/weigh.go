package server

import "github.com/leaseway/leaseway/internal/ledger"

// fared is how requests fared under one version of a rule.
type fared struct {
	requests, refused int64
}

// maxFared bounds each number of a sum: two of them do not overflow an int64.
const maxFared = 1 << 61

// plus adds requests. What makes no sense, as a note of another release might, adds nothing.
func (f fared) plus(allowed, refused int64) fared {
	if allowed < 0 || refused < 0 {
		return f
	}

	allowed, refused = min(allowed, maxFared), min(refused, maxFared)

	return fared{min(f.requests+min(allowed+refused, maxFared), maxFared), min(f.refused+refused, maxFared)}
}

// share is the part that was refused, from 0 to 1.
func (f fared) share() float64 { return float64(f.refused) / float64(max(1, f.requests)) }

// refused is how many requests were decided of the keys that a rollout of this version of a rule has reached, and how many of
// them were refused: of holders that count them, and of others what they asked.
//
// A holder that is broken, or lies, could say that it allowed more than all others ever decided, and so hide what those refuse.
// Hence it is looked at twice, with the holder that says most and without it, and the worse of the two counts: what one holder
// says can stop a rollout, and cannot keep it going.
func (g *gathered) refused(id string, version uint64) (requests, refused int64) {
	var all, rest fared

	most := -1
	about := func(one ledger.Tally) bool { return one.Rule == id && one.Version == version }
	said := make([]fared, len(g.instances))

	for i := range g.instances {
		for _, one := range g.instances[i].Tallies {
			if about(one) {
				said[i] = said[i].plus(one.Allowed, one.Refused)
			}
		}

		if said[i].requests > 0 && (most < 0 || said[i].requests > said[most].requests) {
			most = i
		}
	}

	for _, one := range g.asked { // which coordinators counted themselves
		if about(one) {
			rest = rest.plus(one.Allowed, one.Refused)
		}
	}

	for i, one := range said {
		if i != most {
			rest = rest.plus(one.requests-one.refused, one.refused)
		}
	}

	if all = rest; most >= 0 {
		all = all.plus(said[most].requests-said[most].refused, said[most].refused)
	}

	if rest.requests >= fewRequests && rest.share() > all.share() {
		return rest.requests, rest.refused
	}

	return all.requests, all.refused
}
