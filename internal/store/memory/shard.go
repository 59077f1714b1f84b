package memory

import (
	"slices"
	"sync"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

// A shard is a part of the keys behind one lock.
type shard struct {
	mu     sync.Mutex
	closed bool
	table  table
	limit  int // of records
	last   int64
	ops    uint64
	hand   int // the slot that is swept next
	terms  *termsTable
	held   places[*ledger.State]
	lent   *borrowers
	counts counts

	desk   ledger.State // where a ledger at rest is worked on
	leases []ledger.Lease
}

// visit is an op on its way to a ledger.
type visit struct {
	op   *store.Op
	loss int64 // see Store
}

// apply handles one op on the ledger of id. Its time is now, or that of an op
// which was faster: what one ledger sees never steps back.
func (sh *shard) apply(now int64, id keyID, v visit) ledger.Answer {
	sh.last = max(sh.last, now)
	now = sh.last

	slot, found := sh.find(id, v.op.Key)
	answer := sh.count(sh.state(slot, found, v.op.Terms, v.loss), now, v.op)
	sh.put(now, slot, found, id)

	return answer
}

// find returns where the ledger of id, which is of key, is, and takes it back if it is lent.
func (sh *shard) find(id keyID, key store.Key) (slot int, found bool) {
	if slot, found = sh.table.find(id); found {
		return slot, true
	}

	for _, by := range sh.lent.all() {
		sh.recall(id, key, by)
	}

	return sh.table.find(id)
}

// state returns the ledger in slot to be worked on: on the desk, unless it is held. One that is
// not found begins under terms, after a loss as used up. Then put keeps it.
func (sh *shard) state(slot int, found bool, terms ledger.Terms, loss int64) *ledger.State {
	if found && sh.table.slots[slot].held() {
		return *sh.held.at(sh.table.slots[slot].index())
	}

	s := &sh.desk
	*s = ledger.State{Leases: sh.leases[:0]}

	switch {
	case found:
		sh.read(slot, s)
	case loss != 0 && !terms.Whole:
		s.Begin(terms, loss)
	}

	return s
}

// put keeps what was worked on.
func (sh *shard) put(now int64, slot int, found bool, id keyID) {
	if found && sh.table.slots[slot].held() {
		sh.settle(slot, now)

		return
	}

	s := &sh.desk
	sh.leases = s.Leases[:0]

	switch {
	case found:
		sh.write(slot, now, s)
	case !s.Idle(now):
		sh.insert(now, sh.record(id, s))
	}
}

// count applies op and keeps count of the leases.
func (sh *shard) count(s *ledger.State, now int64, op *store.Op) ledger.Answer {
	before := len(s.Leases)
	answer := s.Apply(now, op.Terms, op.Ask)
	s.TAT = clamp(s.TAT)
	sh.counts.leases += int64(len(s.Leases) - before)

	return answer
}

// read puts the ledger at rest in slot into s.
func (sh *shard) read(slot int, s *ledger.State) {
	r := &sh.table.slots[slot]
	s.Terms = *sh.terms.at(r.ref())
	s.Unpack(r.tat())
	s.Now = sh.last
}

// write puts s back into slot, where a ledger at rest was.
func (sh *shard) write(slot int, now int64, s *ledger.State) {
	r := &sh.table.slots[slot]
	ref := r.ref()
	packed, ok := s.Pack()

	switch {
	case s.Idle(now):
		sh.drop(slot)
	case ok && s.Terms == *sh.terms.at(ref):
		*r = restRecord(r.id, packed, ref)
	default:
		*r = sh.record(r.id, s)
		sh.terms.release(ref)
	}
}

// insert adds the record of a key that has none, and makes room for it if need be.
func (sh *shard) insert(now int64, r record) {
	if sh.table.used >= sh.limit {
		sh.makeRoom(now, r.id)
	}

	sh.table.insert(r)
}

// record returns a new record of s, which it copies.
func (sh *shard) record(id keyID, s *ledger.State) record {
	if packed, ok := s.Pack(); ok {
		return restRecord(id, packed, sh.terms.acquire(s.Terms))
	}

	kept := *s
	kept.Leases, kept.Log, kept.Old = slices.Clone(s.Leases), slices.Clone(s.Log), slices.Clone(s.Old)
	kept.Ahead.Leases, kept.Slots.Holdings = slices.Clone(s.Ahead.Leases), slices.Clone(s.Slots.Holdings)

	return heldRecord(id, sh.held.add(&kept))
}

// settle puts the held ledger in slot to rest once it can be packed, and drops
// it if it says nothing then.
func (sh *shard) settle(slot int, now int64) {
	r := &sh.table.slots[slot]
	s := *sh.held.at(r.index())
	packed, ok := s.Pack()

	switch {
	case s.Idle(now):
		sh.drop(slot)
	case ok:
		sh.held.remove(r.index())
		*r = restRecord(r.id, packed, sh.terms.acquire(s.Terms))
	}
}

// drop forgets the ledger in slot.
func (sh *shard) drop(slot int) {
	r := &sh.table.slots[slot]

	if r.held() {
		sh.counts.leases -= int64(len((*sh.held.at(r.index())).Leases))
		sh.held.remove(r.index())
	} else {
		sh.terms.release(r.ref())
	}

	sh.table.remove(slot)
}

// expire brings the ledger in slot to now, and reports whether it says nothing then.
func (sh *shard) expire(slot int, now int64) (idle bool) {
	r := &sh.table.slots[slot]

	if !r.held() {
		return sh.clear(r) <= now
	}

	s := *sh.held.at(r.index())
	before := len(s.Leases)
	s.Expire(now)
	sh.counts.leases += int64(len(s.Leases) - before)

	return s.Idle(now)
}

// clear returns when nothing of r's ledger will be used any more, µs.
func (sh *shard) clear(r *record) int64 {
	if r.held() {
		return (*sh.held.at(r.index())).Clear()
	}

	s := ledger.State{Terms: *sh.terms.at(r.ref()), Now: sh.last}
	s.Unpack(r.tat())

	return s.Clear()
}

func (sh *shard) close() {
	sh.mu.Lock()
	defer sh.mu.Unlock()

	sh.closed = true
}
