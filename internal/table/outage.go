package table

import (
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// outage tells whether a coordinator can be asked. After a failed call nobody
// waits for one any more; now and then one ask goes out in the background to
// find out, at growing, jittered distances.
type outage struct {
	until  atomic.Int64 // 0: all is well; else when the next probe may go out
	streak atomic.Int64
	random func(n int64) int64
}

const (
	firstBackoff = int64(50_000)  // µs
	maxBackoff   = int64(100_000) // µs: most tries end in this process, where a client knows that nobody answers
	keyBackoff   = 50_000         // µs, of one key whose store node does not answer
	scatterMost  = int64(25_000)  // µs, see scatter
	skipMost     = int64(100_000) // µs, see scatter
	scatterPart  = int64(40)      // of the time of a full bucket

	recheckPart  = 100               // of the wait, see recheck
	recheckLeast = int64(1_000_000)  // µs
	recheckMost  = int64(10_000_000) // µs
)

// ask reports whether no coordinator answers, and whether the caller should send a probe.
func (o *outage) ask(now int64) (down, probe bool) {
	until := o.until.Load()
	if until == 0 {
		return false, false
	}

	return true, now >= until && o.until.CompareAndSwap(until, now+o.jittered(firstBackoff))
}

func (o *outage) down(_ int64) bool { return o.until.Load() != 0 }

// fail notes a failed call, and reports whether it began an outage. atLeast is the shortest pause, µs.
func (o *outage) fail(now, atLeast int64) (began bool) {
	n := o.streak.Add(1)
	pause := o.jittered(min(maxBackoff, firstBackoff<<min(n-1, int64(8))))

	return o.until.Swap(now+max(atLeast, pause)) == 0
}

// succeed ends an outage, and reports whether there was one.
func (o *outage) succeed() (ended bool) {
	o.streak.Store(0)

	return o.until.Load() != 0 && o.until.Swap(0) != 0
}

// jittered returns half to one and a half times d.
func (o *outage) jittered(d int64) int64 { return d/2 + o.random(d+1) }

// scatter spreads the holders that take the same tokens one by one, so that none
// of them is always first; under the lock. They are spread little, so that a small
// bucket does not stay full for long, and let those go ahead that got none of
// late. Alone, a holder asks at the token's very time; those that lease come in turns.
func (e *Entry) scatter(now int64, a *ledger.Answer) {
	live, random := e.rule().table.live.Load(), e.rule().table.cfg.Random
	if a.AskAgain <= 0 || live < 2 || a.Holders > 1 {
		return
	}

	b := a.Terms.Bucket
	token := b.P / b.Q
	most := min(scatterMost, a.AskAgain/4, token*b.Burst/scatterPart)
	d := random(most + 1)

	// Half-way to the token after: the others have had theirs by then, and one
	// that nobody wanted waits in the bucket, if there is room in it.
	if ago, ok := e.lastWon(now); ok && ago < live*token {
		d += min(token/2, token*(b.Burst-1)/2, skipMost) + most
	}

	e.Defer(d)
}

// wonShift: of the instant at which a key last won a take, what matters is kept in 32 bits. After 25 days, in
// which nobody knows of the key any more, they would say that it has just won.
const wonShift = 10

// win notes that the store gave a take; under the lock.
func (e *Entry) win(now int64) { e.won = max(1, uint32(now>>wonShift)) }

// lastWon returns how long before now, µs, the store last gave a take, if it ever did; 0 if it was later.
func (e *Entry) lastWon(now int64) (ago int64, ok bool) {
	return int64(max(0, int32(uint32(now>>wonShift)-e.won))) << wonShift, e.won != 0
}

// recheck bounds how long a refusal is remembered while there are others, who may
// refund what they charged: the wait was told as if nobody did. A hundred asks in
// all that time, for those who do not wait, are few; under the lock.
func (e *Entry) recheck(now int64, a *ledger.Answer) {
	if a.AskAgain > recheckLeast && e.rule().table.live.Load() > 1 {
		e.Recheck(now + min(recheckMost, max(recheckLeast, a.AskAgain/recheckPart)))
	}
}

func newBucket(q *rule.Quota) (rate.Bucket, error) {
	return rate.Average(q.Limit, q.Window.Microseconds(), q.Burst)
}
