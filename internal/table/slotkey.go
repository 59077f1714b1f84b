package table

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/leaseway/leaseway/internal/slots"
	"github.com/leaseway/leaseway/rule"
)

// slotKey is one key of a rule that bounds what is in flight: the slots that this
// process has of it, and the requests that wait for one.
//
//	request ─► a slot is idle here ─► in flight ─► Release ─► first in line, else idle, else given back
//	              │ none
//	              ▼
//	            line, by class and then in order ─► desk: one call carries many keys ─► Source
//
// It is to slots what Entry is to tokens, and shorter, since there is no rate.
type slotKey struct {
	slots.Pool

	rule *Rule
	key  string

	limit  atomic.Int64 // N for this key
	room   atomic.Int64 // slots that nobody held, at the last answer
	lined  atomic.Int64 // requests in the line
	eager  atomic.Bool  // what is idle is given back at once
	asking atomic.Bool  // it is in the desk's queue

	mu       sync.Mutex
	line     []*berth
	queued   int64  // of the line, those that may stay
	version  uint64 // of the rule that limit is from
	seq      uint64 // of the ask under way
	peak     int64  // most in flight of late
	told     int64  // when it last asked
	recalled bool   // its rule has changed since
	used     int64  // when a request last came to the slow path
	fullTill int64  // until then the store has no slot to give
	downTo   int64  // until then its store does not answer
	gone     bool   // it is in no table any more
	stray    bool   // it never was, since the table is full: it is decided without a coordinator
	offer    int64  // what this process adds to the limit, where servers make that up
	due      int64  // its appointment, under the desk's lock; 0: none
}

// slotKeys are the keys of one rule; most rules have none.
type slotKeys struct {
	keys  atomic.Pointer[xsync.Map[string, *slotKey]]
	spare atomic.Pointer[slotKey] // of all keys that found the table full
}

// find returns the key if it is known.
func (s *slotKeys) find(key string) *slotKey {
	keys := s.keys.Load()
	if keys == nil || !rule.IsCompact(key) {
		return nil
	}

	k, _ := keys.Load(key)

	return k
}

// all calls do with each key.
func (s *slotKeys) all(do func(k *slotKey)) {
	if keys := s.keys.Load(); keys != nil {
		keys.Range(func(_ string, k *slotKey) bool {
			do(k)

			return true
		})
	}
}

// BoundsInFlight reports whether the rule, as it is in force, bounds what is in
// flight: it is decided by a SlotHit then.
func (r *Rule) BoundsInFlight() bool { return r.now.Load().Algorithm == rule.Concurrency }

// slotKey returns the key, made if need be.
func (r *Rule) slotKey(key string) *slotKey {
	key = rule.Compact(key)

	if r.slots.keys.Load() == nil {
		r.slots.keys.CompareAndSwap(nil, xsync.NewMap[string, *slotKey]())
	}

	keys := r.slots.keys.Load()
	if k, ok := keys.Load(key); ok {
		return k
	}

	t := r.table
	if t.keys.Load() >= t.cfg.MaxKeys {
		t.counts.overflow.Add(1)

		if r.slots.spare.Load() == nil {
			spare := r.newSlotKey("")
			spare.stray = true
			r.slots.spare.CompareAndSwap(nil, spare)
		}

		return r.slots.spare.Load()
	}

	k, loaded := keys.LoadOrStore(strings.Clone(key), r.newSlotKey(key))
	if !loaded {
		t.keys.Add(1)
		t.desk.sooner(k, t.clock.Now()+idleAfter)
	}

	return k
}

func (r *Rule) newSlotKey(key string) *slotKey {
	k := &slotKey{rule: r, key: strings.Clone(key)}
	k.refresh()

	return k
}

// refresh makes the key follow its rule as it is in force; under the lock, or
// before anyone else sees the key.
func (k *slotKey) refresh() {
	def := k.rule.versionOf(k.key)
	if k.version == def.Version && k.limit.Load() != 0 {
		return
	}

	n := int64(0)
	if !def.Block {
		n = def.Quota([]byte(k.key)).Limit
	}

	k.version = def.Version
	k.limit.Store(n)

	if !k.Known() {
		k.room.Store(n)
	}
}

// ledgerKey returns the key of its ledger, which tells test mode apart.
func (k *slotKey) ledgerKey() string {
	if k.rule.testing {
		return rule.TestKey(k.key)
	}

	return k.key
}

// bounds reports whether its rule, as it is in force, bounds what is in flight.
func (k *slotKey) bounds() bool {
	return !k.rule.retired.Load() && k.rule.BoundsInFlight() && !k.stray
}

// remaining returns how many more could be in flight, as far as is known here.
func (k *slotKey) remaining() int64 { return max(0, k.room.Load()+k.Idle()) }

// share is how many may be in flight here while no coordinator answers.
func (k *slotKey) share() int64 { return max(1, k.limit.Load()/k.rule.table.live.Load()) }

// alone returns for how many requests in flight at one holder it pays to keep
// slots ahead: with fewer for each, what one had idle others would lack.
const alone = 16

// spare is how many slots to have idle besides those of need; under the lock.
//
// A small limit over many holders has none: each request asks for its slot and
// gives it back, as exactly as from one counter. So does any limit of which four
// fifths are held. Of a large one a quarter more is held than was in flight of
// late, so that most requests find an idle slot here. A holder that has a
// coordinator for itself keeps all it can get.
func (k *slotKey) spare(now, need int64) int64 {
	t, n := k.rule.table, k.limit.Load()

	if t.closed.Load() || !k.bounds() {
		return 0
	}

	busy := k.Busy()
	idle := busy+need == 0 && now >= k.used+idleAfter
	k.peak = max(busy+need, k.peak-max(1, k.peak/8))

	if t.cfg.Alone {
		k.eager.Store(false)

		if idle {
			return 0
		}

		return n
	}

	scarce := k.Known() && k.Others()+k.Slots() >= n*4/5
	small := n < alone*t.live.Load()
	k.eager.Store(small || scarce)

	if small || scarce || idle {
		return 0
	}

	return max(0, min(k.peak+k.peak/4+1-busy-need, n/4))
}

// leave takes k out of the table; under its lock.
func (k *slotKey) leave() {
	k.gone = true

	if _, ok := k.rule.slots.keys.Load().LoadAndDelete(k.key); ok {
		k.rule.table.keys.Add(-1)
	}
}
