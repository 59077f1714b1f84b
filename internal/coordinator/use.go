package coordinator

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// Use is what one key used of a rule, as this coordinator saw it.
type Use struct {
	// Tokens were taken, or spent of leases; of a rule about what is in flight, slots that were busy at once.
	Tokens int64
	// Per is the time in which they were, 10 seconds to an hour; 0 for slots.
	Per time.Duration
}

// The periods in which use is counted: a window of the rule, in these bounds. A
// shorter one would make a peak of every burst, a longer one would tell of the past.
const (
	minPeriod = 10 * time.Second
	maxPeriod = time.Hour
)

// The bounds of what a Meter remembers: about a megabyte in all.
const (
	meterShards = 64
	meterWays   = 256 // keys, and leases, of one shard
	meterTries  = 4   // places in which one of them may be
)

// A Meter remembers which keys use most of their rules, in bounded memory. It
// sees takes and what holders report as spent, and where it lacks room it keeps
// the keys that use more. So what it says was used, was; others may have used
// more, by other coordinators or before it could tell. What is given back later
// stays counted. It is safe for concurrent use.
//
//	ask, answer ──▶ lease: spent since it was last heard of ──▶ key: sum of a period ──▶ peak of a rule
type Meter struct {
	seed   maphash.Seed
	shards [meterShards]meterShard
}

type meterShard struct {
	mu     sync.Mutex
	keys   [meterWays]keyUse
	leases [meterWays]leaseUse
}

// keyUse is what a key used in a period and the one before.
type keyUse struct {
	rule, key   uint64 // hashes; both 0: nobody's
	common      uint64 // a hash of the two that every coordinator gives them
	period      int64  // µs; 0 for slots
	round       int64  // which period now is of
	now, before int64
}

// leaseUse is what was last heard of a lease.
type leaseUse struct {
	id    uint64
	spent int64
	heard int64 // µs
}

// NewMeter returns a Meter that has seen nothing.
func NewMeter() *Meter { return &Meter{seed: maphash.MakeSeed()} }

// note counts what an answer under a rule with a window says was used, at now (µs).
func (m *Meter) note(now int64, window time.Duration, asked *ledger.KeyAsk, answer *ledger.Answer) {
	if answer.Status != ledger.OK || answer.Ahead {
		return
	}

	slots := answer.Terms.Algorithm == rate.Concurrency

	period := int64(0)
	if !slots {
		period = min(max(window, minPeriod), maxPeriod).Microseconds()
	}

	id := keyUse{rule: maphash.String(m.seed, asked.Rule), key: maphash.String(m.seed, asked.Key), period: period}
	s := &m.shards[(id.rule^id.key)%meterShards]

	s.mu.Lock()
	defer s.mu.Unlock()

	if slots {
		s.add(now, id, asked, answer.Spent)

		return
	}

	used := s.spent(now, &asked.Ask, answer)

	for i, cost := range asked.Ask.Takes {
		if answer.Taken&(1<<i) != 0 {
			used += cost
		}
	}

	if used > 0 {
		s.add(now, id, asked, used)
	}
}

// used counts tokens that were spent of a key's bucket while it was lent, at now (µs), under a rule with a window.
func (m *Meter) used(now int64, window time.Duration, ask *ledger.LoanAsk, tokens int64) {
	period := min(max(window, minPeriod), maxPeriod).Microseconds()
	id := keyUse{rule: maphash.String(m.seed, ask.Rule), key: maphash.String(m.seed, ask.Key), period: period}
	s := &m.shards[(id.rule^id.key)%meterShards]

	s.mu.Lock()
	defer s.mu.Unlock()

	s.add(now, id, &ledger.KeyAsk{Rule: ask.Rule, Key: ask.Key}, tokens)
}

// spent returns what was spent of a key's leases since they were last heard of. A lease that is new here, though not to its
// holder, tells nothing yet: who knows when it was spent.
func (s *meterShard) spent(now int64, ask *ledger.Ask, answer *ledger.Answer) (n int64) {
	if ask.Ended != 0 {
		if l := s.lease(ask.Ended); l.id == ask.Ended {
			n += max(0, ask.EndedSpent-l.spent)
			*l = leaseUse{}
		}
	}

	if answer.Lease == 0 {
		if l := s.lease(ask.Lease); ask.Lease != 0 && l.id == ask.Lease { // it was given back
			n += max(0, ask.Spent-l.spent)
			*l = leaseUse{}
		}

		return n
	}

	l := s.lease(answer.Lease)
	if l.id == answer.Lease {
		n += max(0, answer.Spent-l.spent)
	} else if ask.Lease != answer.Lease {
		n += answer.Spent // it is new to its holder, too
	}

	*l = leaseUse{id: answer.Lease, spent: answer.Spent, heard: now}

	return n
}

// lease returns the place of a lease: its own, or one that it may have, which is free or was heard of least lately.
func (s *meterShard) lease(id uint64) *leaseUse {
	var place *leaseUse

	for i := range uint64(meterTries) {
		l := &s.leases[(id+i)%meterWays]
		if l.id == id {
			return l
		}

		if place == nil || l.heard < place.heard {
			place = l
		}
	}

	return place
}

// add counts tokens for a key, or the most slots of it. A key that uses less than all that are in its places is not remembered.
func (s *meterShard) add(now int64, id keyUse, asked *ledger.KeyAsk, tokens int64) {
	var place *keyUse

	for i := range uint64(meterTries) {
		k := &s.keys[(id.key/meterShards+i)%meterWays]
		if k.rule == id.rule && k.key == id.key {
			place = k

			break
		}

		if place == nil || k.most(now) < place.most(now) {
			place = k
		}
	}

	if place.rule != id.rule || place.key != id.key || place.period != id.period {
		if place.most(now) > tokens && (place.rule != id.rule || place.key != id.key) {
			return
		}

		*place = id
		place.common = commonHash(asked)
		place.round = id.roundOf(now)
	}

	place.turn(now)

	if id.period == 0 {
		place.now = max(place.now, tokens)
	} else {
		place.now += tokens
	}
}

// roundOf numbers the periods. Slots are counted in those of a minute.
func (k *keyUse) roundOf(now int64) int64 {
	if k.period == 0 {
		return now / time.Minute.Microseconds()
	}

	return now / k.period
}

// turn begins a new period where now is of one.
func (k *keyUse) turn(now int64) {
	round := k.roundOf(now)

	switch round {
	case k.round:
		return
	case k.round + 1:
		k.before = k.now
	default: // of long ago, or the clock was set
		k.before = 0
	}

	k.now, k.round = 0, round
}

// most is what was used at most in the present period and the one before.
func (k *keyUse) most(now int64) int64 {
	if k.rule == 0 && k.key == 0 {
		return 0
	}

	k.turn(now)

	return max(k.now, k.before)
}
