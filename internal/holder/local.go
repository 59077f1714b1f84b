package holder

import (
	"math"

	"github.com/leaseway/leaseway/internal/rate"
)

// local is the conservative limit that a holder keeps by itself while the
// coordinator is unreachable: bucket decides, starting at the level last heard.
//
// What it admits is debt afterwards, less what drained meanwhile. The ledger
// drains what it knew of by itself, which takes it up to a full bucket's time, so
// the debt begins to drain only after that, at this holder's part of the whole
// rate: both together never drain faster than the limit, whatever was really in
// use, and just as fast if the bucket was empty when the outage began.
type local struct {
	under  Alone
	bucket rate.Bucket // decides
	tat    rate.Time
	share  rate.Bucket // drains the debt
	owing  rate.Time   // when the debt will have drained
	from   rate.Time   // when it begins to
	base   int64       // debt when the local bucket began
}

// Alone is what a key is limited by while its holder decides alone.
type Alone struct {
	Whole   rate.Bucket // of all holders
	Holders int64       // that live
	Version uint64      // of the rule
}

// The part of a limit that all holders together admit without a coordinator: four fifths.
const (
	localNum = 4
	localDen = 5
)

// BeginLocal starts the local bucket of a key: fixed if the rule names one per instance, else one
// of the shares of the live holders. One that is in force goes on, under what limits it by now.
func (l *Lease) BeginLocal(now int64, a Alone, fixed *rate.Bucket) {
	share := a.Whole.Share(1, 1, max(1, a.Holders))

	bucket := a.Whole.Share(localNum, localDen, max(1, a.Holders))
	if fixed != nil {
		bucket = *fixed
	}

	if l.Local() {
		l.dues.local.follow(now, bucket, share)
		l.dues.local.under = a

		return
	}

	f := &local{under: a, bucket: bucket, share: share, base: l.owed().debt}
	f.from = rate.At(a.Whole.Add(rate.At(now), a.Whole.Burst).Micros + 1)
	f.tat = rate.At(now)

	if l.Known() {
		f.from = rate.At(max(f.from.Micros, l.heard.tat.Micros+1)) // overdrawn, it drains for longer
		// The used part of the bucket is used in the local one, too.
		b := l.heard.terms().Bucket
		used := b.Burst - b.Avail(now, l.heard.tat)
		f.tat = add(f.bucket, f.tat, int64(math.Ceil(float64(used)/float64(b.Burst)*float64(f.bucket.Burst))))
	}

	f.owing = f.from
	l.owe().local = f
}

// follow goes over to another bucket and share, and keeps what is used, up to all of the bucket, and what is owed.
func (f *local) follow(now int64, bucket, share rate.Bucket) {
	used := f.bucket.Burst - f.bucket.Avail(now, f.tat)
	owed := min(f.owed(now), rate.MaxProduct/share.P)

	f.bucket, f.share = bucket, share
	f.tat = add(bucket, rate.At(now), min(used, bucket.Burst))
	f.owing = share.Add(f.from.Max(rate.At(now)), owed)
}

// Local reports whether the local bucket is in force.
func (l *Lease) Local() bool { return l.owed().local != nil }

// LocalUnder reports whether it is, under a.
func (l *Lease) LocalUnder(a Alone) bool { return l.Local() && l.dues.local.under == a }

// LocalBurst returns the capacity of the local bucket.
func (l *Lease) LocalBurst() int64 { return l.dues.local.bucket.Burst }

// LocalDelay returns the µs until what the local bucket has admitted has drained.
func (l *Lease) LocalDelay(now int64) int64 {
	f := l.dues.local

	return f.bucket.Full(now, f.tat)
}

// TakeLocal decides a request for n tokens by the local bucket, and returns
// what is left in it and, after a refusal, the µs until it would pass (-1: never).
func (l *Lease) TakeLocal(now, n int64) (ok bool, left, wait int64) {
	f := l.dues.local
	f.tat, ok = f.bucket.Take(now, f.tat, n)
	left = f.bucket.Avail(now, f.tat)

	if !ok {
		return false, left, f.bucket.Wait(now, f.tat, n)
	}

	f.owing = f.share.Add(f.owing.Max(rate.At(now)), n)

	return true, left, 0
}

// UndoLocal puts back n tokens that TakeLocal took, maybe of a larger bucket than there is by now.
func (l *Lease) UndoLocal(n int64) {
	f := l.dues.local
	f.tat = f.bucket.Add(f.tat, -min(n, f.bucket.Burst))
	f.owing = f.share.Add(f.owing, -min(n, rate.MaxProduct/f.share.P))
}

// owed returns the tokens of local admissions that did not drain yet, rounded up.
func (f *local) owed(now int64) int64 {
	owing, from := f.owing.Max(rate.At(now)), f.from.Max(rate.At(now))
	if !from.Less(owing) {
		return 0
	}

	micros, frac := owing.Micros-from.Micros, owing.Frac-from.Frac
	if micros > rate.MaxProduct/f.share.Q {
		return rate.MaxProduct / f.share.P
	}

	return (micros*f.share.Q + frac + f.share.P - 1) / f.share.P
}

// oweLocal brings the debt up to what is owed at now. It never falls, so a
// message that was lost says the same or less than the next.
func (l *Lease) oweLocal(now int64) {
	if d := l.dues; d != nil && d.local != nil {
		d.debt = max(d.debt, d.local.base+d.local.owed(now))
	}
}

// endLocal ends the local bucket; what it admitted is debt.
func (l *Lease) endLocal(now int64) {
	if l.Local() {
		l.oweLocal(now)
		l.dues.local = nil
	}
}

// Borrow admits n tokens of a key that no answer was heard about, if with them
// no more than slack are owed: a rule can so keep the first requests of a key from waiting.
func (l *Lease) Borrow(n, slack int64) bool {
	if d := l.owed(); l.Known() || max(0, d.debt-d.acked)+n > slack {
		return false
	}

	l.owe().debt += n

	return true
}
