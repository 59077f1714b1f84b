package memory

import (
	"math"

	"github.com/leaseway/leaseway/internal/ledger"
)

const (
	sweepSlots     = 256 // that one step of the sweep looks at, in one shard
	sweepStretches = 8   // steps at once while there is much to drop
	sampleKeys     = 16  // that compete to be evicted
	sampleSlots    = 256 // that are looked at for them
)

// sweep drops what says nothing from the next stretch of slots, and reports
// whether that was more than a quarter of them.
func (sh *shard) sweep(now int64) (more bool) {
	sh.last = max(sh.last, now)
	now = sh.last
	dropped := 0

	for looked := min(sweepSlots, len(sh.table.slots)); looked > 0; {
		if sh.hand >= len(sh.table.slots) {
			sh.hand = 0
		}

		r := &sh.table.slots[sh.hand]
		if !r.empty() && sh.expire(sh.hand, now) {
			sh.drop(sh.hand)
			dropped++

			continue // another may have moved up: look at the slot again
		}

		if r.held() {
			sh.settle(sh.hand, now)
		}

		sh.hand++
		looked--
	}

	sh.table.trim()

	return dropped > sweepSlots/4
}

// makeRoom evicts one of the records near the place where id will be, which the
// seed makes a place that nobody can choose: one that says nothing, else the one
// that would be full first, else, if all have leases, the same of those. Who
// floods the store with keys so evicts his own, which have just begun to spend.
func (sh *shard) makeRoom(now int64, id keyID) {
	slot, seen := sh.table.home(id), 0
	victim, held, least := -1, true, int64(math.MaxInt64)

	for range min(sampleSlots, len(sh.table.slots)) {
		r := &sh.table.slots[slot]
		if !r.empty() {
			if sh.expire(slot, now) {
				sh.drop(slot)

				return
			}

			if r.held() {
				sh.settle(slot, now)
			}

			end := sh.clear(r)
			if better := held && !r.held() || held == r.held() && end < least; better {
				victim, held, least = slot, r.held(), end
			}

			seen++

			if seen >= sampleKeys && !held {
				break
			}
		}

		slot = sh.table.next(slot)
	}

	if victim >= 0 {
		sh.evict(now, victim)
	}
}

// evict drops a ledger that still says something, and counts what is forgotten with it.
func (sh *shard) evict(now int64, slot int) {
	r := &sh.table.slots[slot]
	s := &ledger.State{} // not the desk: the ledger that needs the room may lie there

	if r.held() {
		s = *sh.held.at(r.index())
		sh.counts.evictedHeld++
	} else {
		sh.read(slot, s)
	}

	sh.counts.evicted++
	s.Expire(now)

	if s.Avail() == 0 {
		sh.counts.overLimit++
	}

	sh.drop(slot)
}
