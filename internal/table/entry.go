package table

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// Entry is one key of one rule: its lease, the requests that wait for it, and
// what the answers say about it. It is two lines of a cache (64 bytes each): of
// the first most requests only read, so that every processor can keep it; the
// second has the balance, which they write, and what the first request of a tick
// needs besides. Everything else is behind two pointers.
type Entry struct {
	name

	limits atomic.Pointer[limits]

	holder.Lease //nolint:embeddedstructfieldcheck // the fields before it share its first cache line

	mu sync.Mutex
	*rest
}

// rest is what an entry needs when the lease cannot say.
type rest struct {
	lease holder.Rest

	line   *line       // nil: nobody waits
	used   uint32      // when a request last came to the slow path, in units of 2^sinceShift µs, the lower half
	due    uint32      // the wheel's slot in which it is to be visited, which may be turns away, the lower half; under the wheel's lock
	asking atomic.Bool // it is in the queue
	won    uint32      // when the store last gave it a take, in units of 2^wonShift µs, the lower half; 0: never
	asks   uint16      // messages about it, or as many as can be told
	lead   uint16      // how long before the end of its window it asks for the next one, in units of 2^leadShift µs
	visit  uint8       // the wheel's slot for it; under the wheel's lock
	ahead  bool        // its next ask is for the next window
	gone   bool        // it is in no table any more
	stray  bool        // it never was, since the table is full; set before anyone else sees it
}

// rule returns the rule that the entry is of.
func (e *Entry) rule() *Rule { return e.limits.Load().rule }

// entry returns the entry of key, made if need be.
func (r *Rule) entry(key string) *Entry { return r.entryOf(rule.Compact(key)) }

// entryOf is entry for a key that is compact already.
func (r *Rule) entryOf(key string) *Entry {
	if e := r.keys.find(key); e != nil {
		return e.entry()
	}

	t := r.table
	if t.keys.Load() >= t.cfg.MaxKeys && !r.rests(key) {
		return r.overflow(key)
	}

	made := r.newEntry(key)

	made.mu.Lock()
	defer made.mu.Unlock()

	e := r.keys.add(&made.name).entry()
	if e == made {
		now := t.clock.Now()

		t.keys.Add(1)
		e.use(now)
		e.resume()
		t.wheel.add(e, now+restAfter)
	}

	return e
}

// overflow returns an entry that the full table does not keep.
func (r *Rule) overflow(key string) *Entry {
	r.table.counts.overflow.Add(1)

	e := r.newEntry(key)
	e.stray = true

	return e
}

// twin reports whether o is another entry of the same key, which only a full table has.
func (e *Entry) twin(o *Entry) bool { return o.rule() == e.rule() && o.key() == e.key() }

// spareEntry returns the entry of all keys that are decided without a coordinator while the table is full:
// a local limit of its own would be a full one for every request. Nobody ever asks about it. What it admits is
// nobody's debt, and least of all that of the key it has, which is that of requests without one.
func (r *Rule) spareEntry() *Entry {
	if r.spare.Load() == nil {
		r.spare.CompareAndSwap(nil, r.newEntry(""))
	}

	return r.spare.Load()
}

func (r *Rule) newEntry(key string) *Entry {
	e := &Entry{rest: &rest{}}
	e.Rest = &e.lease
	e.setKey(key)
	e.limits.Store(r.limitsOf(e.key()))

	return e
}

// refresh makes the entry follow its rule as it is in force; under the lock.
func (e *Entry) refresh() {
	if !e.outdated(e.limits.Load()) {
		return
	}

	e.fold() // what was decided so far was decided in the old mode
	e.Disarm()
	e.limits.Store(e.rule().limitsOf(e.key()))
	e.Hasten()
	e.Forgive() // a slow limit that was raised would be denied for hours
}

// outdated reports whether l are of another version than the entry's key has. Without the lock.
func (e *Entry) outdated(l *limits) bool {
	return l.version != e.rule().version.Load() && l.version != e.def().Version
}

// mute reports whether nobody is asked for the entry's tokens, nor told what is owed: its rule blocks, or bounds what is
// in flight by now. Under the lock.
func (e *Entry) mute() bool { return e.limits.Load().bucket.Burst == 0 }

// def returns the version of its rule that the entry's key has.
func (e *Entry) def() *rule.Rule { return e.rule().versionOf(e.key()) }

// saw takes in what an answer says; under the lock.
func (e *Entry) saw(now int64, a *ledger.Answer) {
	e.limit(&a.Terms)
	e.stand(now)
}

// limit has the entry's limits be those of terms; under the lock.
func (e *Entry) limit(terms *ledger.Terms) {
	if l := e.limits.Load(); l.bucket.Bucket != terms.Bucket || l.ttl != terms.TTL {
		e.limits.Store(l.under(terms))
	}
}

// stand notes what requests are told without the lock; under it.
func (e *Entry) stand(now int64) { e.Note(now, &e.limits.Load().bucket.Bucket) }

// Of instants and spans that need not be exact to the µs, what matters is kept in few bits.
const (
	sinceShift = 10
	leadShift  = 2
)

// use notes that a request came to the slow path; under the lock.
func (e *Entry) use(now int64) { e.used = uint32(now >> sinceShift) }

// unused returns when the last request that came to the slow path is so many µs ago; under the lock. What is 25 days ago may seem to
// be now: such an entry waits for a refusal to end, and goes on to.
func (e *Entry) unused(now, span int64) int64 {
	ago := int64(max(0, int32(uint32(now>>sinceShift)-e.used)))

	return (now>>sinceShift-ago)<<sinceShift + span
}

// asked counts a message; under the lock.
func (e *Entry) asked() {
	e.asks += min(1, math.MaxUint16-e.asks)
	e.rule().counts.asks.Add(1)
}

// leaving reports whether the entry's rule is gone, so that everything is to be given back.
func (e *Entry) leaving() bool { return e.rule().retired.Load() }

// now reads the clock, under the lock: a request that looked before could come after others that looked later.
func (e *Entry) now() int64 { return e.rule().table.clock.Now() }

// turn brings the lease to the present tick, and what is told of it without the lock; under it.
func (e *Entry) turn(now int64) (tick int64) {
	c := e.rule().table.clock
	tick = e.Turn(c.Turn(now), now, c)
	e.stand(now)

	return tick
}
