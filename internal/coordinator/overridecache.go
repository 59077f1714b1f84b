package coordinator

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/leaseway/leaseway/rule"
)

const (
	overrideShards = 64
	// maxOverrides bounds the keys that something is remembered of: about 100 MB.
	maxOverrides = 1 << 19
)

// overrideID names a key of a rule.
type overrideID struct{ rule, key string }

// own is id in memory of its own: an ask's texts are parts of a message, of which all would stay as long as one key does.
func (id overrideID) own() overrideID {
	return overrideID{strings.Clone(id.rule), strings.Clone(id.key)}
}

// remembered is what is known of a key's override.
type remembered struct {
	override   rule.Override // zero for none
	revision   uint64
	generation uint64 // of the rule's
	until      int64  // µs
	expires    int64  // when the override ends, µs; 0 for never
	unfit      bool   // of a copy: its rule cannot keep the override
}

// at is what is known at now: no override any more, where that has ended, whether or not the source can be asked. floor is the
// revision of keys without one.
func (r remembered) at(now int64, floor uint64) remembered {
	if r.expires != 0 && now >= r.expires {
		r.override, r.revision, r.expires = rule.Override{}, max(r.revision, floor), 0
	}

	return r
}

// ends reports whether the override does so within some µs: nobody tells holders then.
func (r remembered) ends(clock func() time.Time, within int64) bool {
	return r.expires != 0 && r.expires-clock().UnixMicro() < within
}

// wanted is the key of an ask of a batch, and where that stands there.
type wanted struct {
	overrideID

	at int
}

func want(ruleID, key string, at int) wanted {
	return wanted{overrideID{ruleID, rule.LiveKey(key)}, at}
}

// overrideCache keeps a bounded number of keys: those that were asked for least
// recently go, half of a shard at a time. The zero overrideCache is ready.
type overrideCache struct {
	shards [overrideShards]overrideShard
	seed   onceSeed
}

// overrideShard is two halves: what is used moves to the young one, and when that
// is full it becomes the old one, whose predecessor goes.
type overrideShard struct {
	mu         sync.Mutex
	young, old map[overrideID]remembered
	flights    map[overrideID]chan struct{} // closed when the lookup of a key is over
}

type onceSeed struct {
	once sync.Once
	seed maphash.Seed
}

func (c *overrideCache) shard(id overrideID) *overrideShard {
	c.seed.once.Do(func() { c.seed.seed = maphash.MakeSeed() })

	return &c.shards[maphash.Comparable(c.seed.seed, id)%overrideShards]
}

func (c *overrideCache) get(id overrideID) (remembered, bool) {
	s := c.shard(id)

	s.mu.Lock()
	defer s.mu.Unlock()

	if r, ok := s.young[id]; ok {
		return r, true
	}

	r, ok := s.old[id]
	if ok {
		delete(s.old, id)
		s.add(id.own(), r)
	}

	return r, ok
}

// put keeps r unless it is not valid any more, which is asked where drop cannot come between.
func (c *overrideCache) put(id overrideID, r remembered, valid func() bool) {
	s := c.shard(id)

	s.mu.Lock()
	defer s.mu.Unlock()

	if !valid() {
		return
	}

	delete(s.old, id)
	s.add(id, r)
}

func (c *overrideCache) drop(id overrideID) {
	s := c.shard(id)

	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.young, id)
	delete(s.old, id)
}

func (s *overrideShard) add(id overrideID, r remembered) {
	if _, there := s.young[id]; !there && len(s.young) >= maxOverrides/overrideShards/2 {
		s.young, s.old = nil, s.young
	}

	if s.young == nil {
		s.young = make(map[overrideID]remembered)
	}

	s.young[id] = r
}

// begin reports whether nobody looks the key up now; then the caller does, and calls end. flight is closed when it is over.
func (c *overrideCache) begin(id overrideID) (flight chan struct{}, first bool) {
	s := c.shard(id)

	s.mu.Lock()
	defer s.mu.Unlock()

	if flight, under := s.flights[id]; under {
		return flight, false
	}

	if s.flights == nil {
		s.flights = make(map[overrideID]chan struct{})
	}

	flight = make(chan struct{})
	s.flights[id] = flight

	return flight, true
}

func (c *overrideCache) end(id overrideID) {
	s := c.shard(id)

	s.mu.Lock()
	defer s.mu.Unlock()

	close(s.flights[id])
	delete(s.flights, id)
}

func (c *overrideCache) size() (n int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += int64(len(s.young) + len(s.old))
		s.mu.Unlock()
	}

	return n
}
