package rule

import "time"

// Queue says how many requests of a key may wait on one server for a slot, and for how long.
type Queue struct {
	// Size is how many may wait, from 1 on; 0 is no queue.
	Size int64
	// Wait is the longest that one of them waits, from 1 ms to 10 minutes.
	Wait time.Duration
}

// The bounds of a queue, and how long a server that is not heard of keeps its slots.
const (
	maxQueue       = 10_000
	minWaitForSlot = time.Millisecond
	maxWaitForSlot = 10 * time.Minute
	usualSlotTTL   = 10 * time.Second
	minSlotTTL     = time.Second
)

// inFlight reads what a concurrency rule bounds: the limit is how many requests may be in flight, whatever the time.
func (o *object) inFlight(r *Rule) {
	r.Limit = o.limit()
	if o.lacks(limitKey) {
		o.fail("has no limit", "write limit: and how many requests may be in flight")
	}
	r.Burst = r.Limit
	o.burstOf(r.Algorithm)
	o.withoutRate()
	o.slotTTL(r.LeaseTTL)
}

// withoutRate reports what means nothing where only what is in flight counts.
func (o *object) withoutRate() {
	o.withoutTime(windowKey, "windowSec", "timeZone")
	for name, why := range map[string]string{
		"slack":    "requests in flight are never admitted on credit",
		"fallback": "while no coordinator can be reached each server admits its share of the limit",
	} {
		if v, ok := o.entries[name]; ok {
			v.fail("is not for concurrency: "+why, "leave it out")
		}
	}
}

// slotTTL reports a lease TTL that is too short for slots; ttl is 0 where there is none, or an error.
func (o *object) slotTTL(ttl time.Duration) {
	if v, ok := o.entries["lease"]; ok && ttl > 0 && ttl < minSlotTTL {
		v.fail("is too short for concurrency, where a server says three times in it that it lives",
			"write {ttl: 1s} or more, or leave it out: it is "+formatDuration(usualSlotTTL))
	}
}

// withoutTime reports the parts of a window.
func (o *object) withoutTime(names ...string) {
	for _, name := range names {
		if v, ok := o.get(name); ok {
			v.fail("is not for concurrency, which bounds what is in flight and not what comes in a time", "leave it out")
		}
	}
}

// queue reads queue: {size: 100, wait: 2s}.
func (o *object) queue(r *Rule) {
	v, ok := o.get("queue")
	if !ok {
		return
	}
	q, ok := v.object("size", "wait")
	if !ok {
		return
	}
	if r.Algorithm != Concurrency || r.Block {
		v.fail("is for concurrency only: other limits come back with time, and Retry-After says when",
			"leave it out, or write algorithm: concurrency")
	}
	if size, ok := q.get("size"); ok {
		r.Queue.Size, _ = size.integer(1, maxQueue)
	} else if q.lacks("size") {
		q.fail("has no size", "write size: and how many requests of a key may wait on one server")
	}
	if wait, ok := q.get("wait"); ok {
		r.Queue.Wait = wait.duration(minWaitForSlot, maxWaitForSlot)
	} else if q.lacks("wait") {
		q.fail("has no wait", "write wait: 1s, or another span: the longest that a request waits")
	}
}
