package holder

import "sync/atomic"

// denial is what a Lease knows of a store that had too little, and whom it refused therefore.
// Requests read it without the lock; it is written under it.
type denial struct {
	till    atomic.Int64 // until then a cost above what is here is denied
	ask     atomic.Int64 // from then on it is asked about, since others may have given something back
	over    atomic.Int64 // what the store had left when it said so
	only    atomic.Int64 // the one cost that is denied, 0 for all above over
	quick   atomic.Int64 // requests for one token that were refused without the lock since Refused
	refused int64        // requests that were refused since Refused under the lock
	unmet   int64        // tokens that were asked for and not given since the last ask; under the lock as well
}

// deny returns the denial, to be written; under the lock.
func (l *Lease) deny() *denial {
	d := l.denial.Load()
	if d == nil {
		d = &denial{}
		l.denial.Store(d)
	}

	return d
}

// Denied reports whether a request for n tokens is denied from memory at now:
// the store had too little when it was last asked, and will have until the
// instant that is returned, unless others give something back. Without the lock.
func (l *Lease) Denied(now, n int64) (till int64, denied bool) {
	d := l.denial.Load()
	if d == nil {
		return 0, false
	}

	till = d.till.Load()
	if now >= till || now >= d.ask.Load() || n <= l.balance.Load()+d.over.Load() {
		return till, false
	}

	only := d.only.Load()

	return till, only == 0 || only == n
}

// Scarce reports whether at now asking for more is useless. Without the lock.
func (l *Lease) Scarce(now int64) bool { return now < l.AskAgain() }

// AskAgain returns from when on Denied asks instead of denying. Without the lock.
func (l *Lease) AskAgain() int64 {
	if d := l.denial.Load(); d != nil {
		return min(d.till.Load(), d.ask.Load())
	}

	return 0
}

// Defer asks later, by d µs, than the store said; under the lock.
func (l *Lease) Defer(d int64) {
	deny := l.deny()
	deny.till.Add(d)
	deny.ask.Add(d)
}

// Recheck asks at the instant at, if the store named a later one; under the lock.
func (l *Lease) Recheck(at int64) {
	d := l.deny()
	d.ask.Store(min(d.ask.Load(), at))
}

// Forgive forgets that the store had too little: under other terms it may have enough. Without the lock.
func (l *Lease) Forgive() {
	if d := l.denial.Load(); d != nil {
		d.till.Store(0)
	}
}

// Refuse counts a request that is refused, and n tokens of demand that was not met, which the next
// ask's size takes into account. Under the lock.
func (l *Lease) Refuse(n int64) {
	d := l.deny()
	d.refused++
	d.unmet += n
}

// RefuseQuickly counts a request for one token that Denied has said is denied. Without the lock.
func (l *Lease) RefuseQuickly() { l.denial.Load().quick.Add(1) }

// Refused returns how many requests were refused since it last did, and how many of them quickly. Under the lock.
func (l *Lease) Refused() (all, quick int64) {
	d := l.denial.Load()
	if d == nil {
		return 0, 0
	}

	quick = d.quick.Swap(0)
	all = d.refused + quick
	d.refused, d.unmet = 0, d.unmet+quick

	return all, quick
}

// unmet returns what was not met since the last ask.
func (l *Lease) unmet() int64 {
	if d := l.denial.Load(); d != nil {
		return d.unmet
	}

	return 0
}

// takeUnmet returns what was not met since the last ask, which is the present one now.
func (l *Lease) takeUnmet() (n int64) {
	if d := l.denial.Load(); d != nil {
		n, d.unmet = d.unmet, 0
	}

	return n
}
