package table

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// Entry is one key of one rule: its lease, the requests that wait for it, and
// what the answers say about it.
type Entry struct {
	holder.Lease

	view   atomic.Pointer[view]
	extra  atomic.Int64 // tokens spent above one a request
	denied atomic.Int64 // requests denied from memory
	asking atomic.Bool  // it is in the queue

	rule *Rule
	key  string

	mu      sync.Mutex
	bucket  rate.Bucket // the key's, as far as known
	ttl     int64       // of a lease, µs
	waiting []*waiter   // for the next flight
	flying  []*waiter   // for the answer to the one under way
	counted int64       // of TotalSpent, in the rule's counts
	asks    int64       // messages about it
	won     int64       // when the store last gave it a take
	used    int64       // when a request last came to the slow path
	downTo  int64       // until then its store does not answer
	missed  bool        // the last ask got no answer
	leaving bool        // its rule is gone: give everything back
	gone    bool        // it is in no table any more
	visit   int64       // the wheel's slot for it; under the wheel's lock
}

// entry returns the entry of key, made if need be.
func (r *Rule) entry(key string) *Entry {
	key = rule.Compact(key)
	if e, ok := r.entries.Load(key); ok {
		return e
	}

	t := r.table
	if t.keys.Load() >= t.cfg.MaxKeys {
		return r.overflow(key)
	}

	e, loaded := r.entries.LoadOrStore(strings.Clone(key), r.newEntry(key))
	if !loaded {
		t.keys.Add(1)
		t.wheel.add(e, t.clock.Now()+idleAfter)
	}

	return e
}

// overflow returns an entry that the full table does not keep. While no
// coordinator answers, all such keys share one, so that the local limit holds for them together.
func (r *Rule) overflow(key string) *Entry {
	r.table.counts.overflow.Add(1)

	if !r.table.out.down(r.table.clock.Now()) {
		return r.newEntry(key)
	}

	if r.spare.Load() == nil {
		r.spare.CompareAndSwap(nil, r.newEntry(""))
	}

	return r.spare.Load()
}

func (r *Rule) newEntry(key string) *Entry {
	e := &Entry{rule: r, key: strings.Clone(key)}
	e.refresh()

	return e
}

// refresh makes the entry follow its rule as it is in force; under the lock,
// or before anyone else sees the entry.
func (e *Entry) refresh() {
	def := e.rule.now.Load()
	if v := e.view.Load(); v != nil && v.version == def.Version {
		return
	}

	v, b, ttl := quotaView(def, e.key)
	if e.Known() {
		old := e.view.Load()
		v.avail, v.full = min(old.avail, v.burst), old.full
	}

	e.view.Store(&v)
	e.bucket, e.ttl = b, ttl
}

// saw takes in what an answer says; under the lock.
func (e *Entry) saw(now int64, a ledger.Answer) {
	old := e.view.Load()
	v := &view{version: old.version, burst: a.Terms.Bucket.Burst, quota: old.quota, window: old.window}
	e.bucket, e.ttl = a.Terms.Bucket, a.Terms.TTL

	if b, err := rate.NewBucket(max(1, v.quota), v.window.Microseconds(), v.burst); err != nil || b != e.bucket {
		// An override, or rules newer than those that were pushed: the same window's worth of it.
		v.quota = max(1, v.window.Microseconds()/e.bucket.P*e.bucket.Q)
	}

	v.avail = max(0, e.Remaining(now)-e.Balance())
	v.full = now + e.Full(now)
	e.view.Store(v)
}

// turn brings the lease to the present tick; under the lock.
func (e *Entry) turn(now int64) (tick int64) {
	c := e.rule.table.clock
	tick = c.Turn(now)
	e.Turn(tick, now, c)

	return tick
}
