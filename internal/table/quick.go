package table

import (
	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/rule"
)

// Quick decides a request for n tokens of key, at least 1, if that takes no
// lock, no look at the real clock and no call: by a lease, or by a refusal that
// still holds. Otherwise it tells nothing.
func (r *Rule) Quick(key string, n int64) (told Told, c Charge) {
	if !rule.IsCompact(key) {
		return told, c
	}

	t, s := r.table, r.keys.secret.seek(key)

	if t.lender != nil {
		if l := r.lent.at(s, key).loan(); l != nil {
			return r.quickLoan(l, n)
		}
	}

	e := r.keys.at(s, key).entry()
	if e == nil {
		return told, c
	}

	return r.quickEntry(e, n)
}

// quickEntry is Quick for a key that is leased.
func (r *Rule) quickEntry(e *Entry, n int64) (told Told, c Charge) {
	t := r.table

	e.Touch()

	epoch, tick := e.Epoch(), t.clock.tick.Load()

	left, verdict, look := e.Spend(tick, n)
	if verdict == holder.Turned && e.Balance() >= n && r.quickTurn(e, tick) {
		left, verdict, look = e.Spend(tick, n)
	}

	if verdict.Passed() {
		told, c = e.spent(tick, left, n, epoch)

		if look || verdict == holder.SpentLow {
			t.afterSpend(e, verdict == holder.SpentLow, look)
		}

		return told, c
	}

	if n == 1 && tick > 0 {
		told = e.quickRefusal(tick)
	}

	return told, c
}

// quickTurn is turn for a lease that goes on, without a look at the real clock.
// It reports false if there is more to do, or the lock is held: then only the slow path can tell.
func (r *Rule) quickTurn(e *Entry, tick int64) bool {
	c := r.table.clock
	if !c.trusted(tick) || !e.mu.TryLock() {
		return false
	}
	defer e.mu.Unlock()

	// Whoever was held up since it read the tick would date its spending back, maybe before what others spent since.
	l := e.limits.Load()
	if c.tick.Load() != tick || l.version != r.version.Load() {
		return false
	}

	if was := e.Tick(); was > 0 && e.QuickTurn(tick, c.After(was), &l.bucket.Bucket) {
		return true
	}

	// An entry that has left the table has no lease that goes on.
	if !e.GoesOn(tick) {
		return false
	}

	e.Turn(tick, tick, c)
	e.stand(tick)

	return true
}

// quickRefusal refuses a request for one token without the lock, if it is clear
// even by a coarse clock that none is to be had.
func (e *Entry) quickRefusal(tick int64) (told Told) {
	till, denied := e.Denied(tick, 1)

	// Nor may the coarse clock add a second to a wait that is told in whole ones.
	wait := till - tick
	if !denied || wait < coarse || (wait-1)/second != (wait-coarse-1)/second {
		return told
	}

	l := e.limits.Load()
	if l.version != l.rule.version.Load() && e.outdated(l) { // other rules may have enough
		return told
	}

	e.RefuseQuickly()

	return Told{by: l, Reset: max(0, e.Whole()-tick), RetryAfter: wait}
}

// coarse is by how much a coarse clock may be wrong for a refusal that goes by it, µs.
const (
	coarse = 2_000
	second = 1_000_000
)
