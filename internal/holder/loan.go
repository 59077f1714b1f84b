package holder

import (
	"math"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/rate"
)

// Loan is a bucket that its ledger lent whole to a table of its own process.
// While it is lent, it is nowhere else: what the ledger would do, the loan does,
// with one exchange of its cell.
//
//	Begin ──► open ◄──► busy: Turn, Credit, Count ── End ──► closed, for good
//	           │
//	           └ Spend: in a tick for which it was turned
//
// The cell is when the bucket is full again: an instant of the table's clock in
// units of 1/Q µs, Q being that of the bucket, which all calls for a loan must be given.
//
// Requests go by a coarse clock, so a tick counts as its begin while it lasts,
// and when it is over all that was spent in it is dated at its end, as late as
// it can have been: never is more to be had than of a bucket that knows the
// time, and what a real clock dates is dated exactly.
type Loan struct {
	cell  atomic.Int64
	start int64         // the cell when the tick of tick began; of a closed loan the cell at its end
	base  int64         // the cell as it would be if nothing had been spent since Count
	tick  atomic.Uint32 // for which Turn last ran, the lower half
	busy  atomic.Bool   // many tokens were spent in the tick before that; only of a bucket that is rich
}

// What a cell says besides an instant: each later than any.
const (
	loanBusy   = math.MaxInt64 - 1
	loanClosed = math.MaxInt64
)

// Clock is what a loan goes by: a coarse clock, and the real one that it is of.
type Clock interface {
	Ticks

	// Now reads the real clock, µs.
	Now() int64
}

// When is the time of a request that turns a loan: the tick that it saw, and the clock. Turn says in At when it came: a request
// whose tick will do, while that lasts, with its tick; one that needs to know, when it had the loan
// to itself, so that nothing was dated after it.
type When struct {
	Tick   int64
	Coarse bool // the tick will do
	Clock  Clock
	At     int64
}

// staleTicks is by how much a tick can be older than one that another request just read, µs.
const staleTicks = 10_000_000

// MostQ returns the largest Q of a bucket whose instants a cell can tell at now and for as long again, at least 1.
func MostQ(now int64) int64 { return max(1, (1<<61)/max(1, now)) }

// Begin opens a new loan: its bucket is full at tat, an instant of the table's clock.
func (l *Loan) Begin(tat rate.Time, b *Bucket) {
	at := tat.Micros*b.Q + tat.Frac
	l.start, l.base = at, at
	l.cell.Store(at)
}

// Spend takes n tokens if the loan was turned for tick: one look and one
// exchange. tat is the cell after it, or as it was found by a verdict of Dry. By
// Turned Turn may say more. By SpentLate they were taken after others were quicker:
// several processors are busy with the loan, which is rich enough for stripes.
func (l *Loan) Spend(tick, n int64, b *Bucket) (tat int64, v Verdict) {
	if !l.Ready(tick, n, b) {
		return 0, Turned
	}

	if tat, v = l.Try(tick, n, b); v == Missed {
		return l.SpendLate(tick, n, b)
	}

	return tat, v
}

// Ready reports whether Try may be asked for n tokens: the loan was turned for tick, and its bucket holds as many.
func (l *Loan) Ready(tick, n int64, b *Bucket) bool {
	return l.tick.Load() == uint32(tick) && n <= b.Burst
}

// Try is Spend for a loan that is Ready, once. Both are small enough to be made part of their caller. By Missed others were
// quicker, and SpendLate says more.
func (l *Loan) Try(tick, n int64, b *Bucket) (tat int64, v Verdict) {
	at := l.cell.Load()
	if at > tick*b.Q+(b.Burst-n)*b.P {
		return at, dry(at)
	}

	tat = at + n*b.P
	if !l.cell.CompareAndSwap(at, tat) {
		return at, Missed
	}

	return tat, Spent
}

// SpendLate is Spend after a verdict of Missed.
func (l *Loan) SpendLate(tick, n int64, b *Bucket) (tat int64, v Verdict) {
	busy := false

	for v = Missed; v == Missed; tat, v = l.Try(tick, n, b) {
		busy = busy || l.busy.Load()
	}

	if busy && v == Spent {
		v = SpentLate
	}

	return tat, v
}

// dry tells a bucket that has too little from one that cannot say.
func dry(at int64) Verdict {
	switch at {
	case loanBusy:
		return Turned
	case loanClosed:
		return Closed
	default:
		return Dry
	}
}

// grab makes an open loan busy, and returns its cell. By Turned others have it just now.
func (l *Loan) grab(b *Bucket) (at int64, v Verdict) {
	at = l.cell.Load()
	if at >= loanBusy {
		return at, dry(at)
	}

	if !l.cell.CompareAndSwap(at, loanBusy) {
		return at, Turned
	}

	return at - b.Stripes.gather(b.P), Spent
}

// Turn dates what was spent until now, and takes n tokens, of which 0 are always to be had. It is
// for the first request of a tick and for all that need the real clock. By
// Turned it did nothing: others have the loan, or the tick is older than theirs.
func (l *Loan) Turn(when *When, n int64, b *Bucket) (tat int64, v Verdict) {
	at, v := l.grab(b)
	if v != Spent {
		return at, v
	}

	tick := when.Tick
	ago := int64(uint32(tick) - l.tick.Load())

	if ago > math.MaxUint32-staleTicks { // others turned it for a later one
		if when.Coarse {
			l.cell.Store(at)

			return at, Turned // it would be dated back
		}

		tick, ago = tick+1<<32-ago, 0
	}

	if when.At = tick; !when.Coarse {
		when.At = when.Clock.Now()
	}

	start := at

	if busy := at-l.start >= busyTokens*b.P && b.rich(); ago > 0 && busy != l.busy.Load() {
		l.busy.Store(busy)
	}

	if spent := at - l.start; spent > 0 {
		over := when.Clock.After(tick - ago)
		start = max(start, over*b.Q+spent)
		when.At = max(when.At, over) // this request comes after those
	}

	now := when.At * b.Q
	start = max(start, now)
	l.base += start - at
	l.start, tat, v = start, start, Dry
	l.tick.Store(uint32(tick))

	if n <= b.Burst && start <= now+(b.Burst-n)*b.P || n == 0 {
		tat, v = start+n*b.P, Spent
	}

	if when.At > tick {
		l.start = tat // it is dated already
	}

	l.cell.Store(tat)

	return tat, v
}

// Redate dates at now (µs) what was spent since the loan was last turned, for a request that was held up: its n tokens, after which the
// cell was tat, were taken by a tick that had been over. If others turned the loan meanwhile they dated these at the
// end of that tick, so that they had begun to refill before they were taken.
func (l *Loan) Redate(now, n, tat int64, b *Bucket) Verdict {
	at, v := l.grab(b)
	if v != Spent {
		return v
	}

	spent := at - l.start
	if l.start >= tat {
		spent += n * b.P
	}

	dated := max(at, now*b.Q+spent)
	l.base += dated - at
	l.start = dated
	l.cell.Store(dated)

	return Spent
}

// Credit gives back n tokens at now (µs), of which the bucket never has more than it holds.
// counted says that the request counts all the same: see Count.
func (l *Loan) Credit(now, n int64, b *Bucket, counted bool) Verdict {
	at, v := l.grab(b)
	if v != Spent {
		return v
	}

	n = min(n, b.Burst)
	less := max(at-n*b.P, min(at, now*b.Q))
	l.start = less - max(0, at-n*b.P-l.start) // what was spent in this tick, and not given back
	l.base += less - at

	if !counted {
		l.base += n * b.P
	}

	l.cell.Store(less)

	return Spent
}

// Uncount has n tokens that were spent not count: see Count.
func (l *Loan) Uncount(n int64, b *Bucket) Verdict {
	at, v := l.grab(b)
	if v != Spent {
		return v
	}

	l.base += n * b.P
	l.cell.Store(at)

	return Spent
}

// Count returns the tokens spent since it was last called. Of a closed loan, one at a time may call it.
func (l *Loan) Count(b *Bucket) (spent int64, v Verdict) {
	at, v := l.grab(b)

	switch v {
	case Turned, SpentLow, SpentLate, Missed, Dry:
		return 0, v
	case Closed:
		spent = (l.start - l.base) / b.P
		l.base += spent * b.P
	case Spent:
		spent = (at - l.base) / b.P
		l.base += spent * b.P
		l.cell.Store(at)
	}

	return spent, v
}

// End closes the loan for good, unless it is, and returns its cell: the bucket is
// the ledger's again. What was spent in its last tick is dated at the end of that, or now if it is not over.
func (l *Loan) End(when Ended, b *Bucket) (at int64, v Verdict) {
	at, v = l.grab(b)

	switch v {
	case Turned, SpentLow, SpentLate, Missed, Dry:
		return 0, v
	case Closed:
		at = l.start
	case Spent:
		if spent := at - l.start; spent > 0 {
			dated := max(at, when.Ticks.After(l.turned(when.At))*b.Q+spent)
			l.base += dated - at
			at = dated
		}

		l.start = at
		l.cell.Store(loanClosed)
	}

	return at, Closed
}

// turned returns the whole tick for which the loan was last turned, which others may have read after now.
func (l *Loan) turned(now int64) int64 {
	ago := int64(uint32(now) - l.tick.Load())
	if ago > math.MaxUint32-staleTicks {
		ago -= 1 << 32
	}

	return now - ago
}

// Ended is when a loan ends, by the real clock, and the clock that it went by.
type Ended struct {
	At    int64
	Ticks Ticks
}

// Full returns the instant of a cell, on the table's clock.
func Full(at int64, b *Bucket) rate.Time { return b.Add(rate.Time{Frac: at}, 0) }

// At returns the cell, after what is put aside was gathered.
func (l *Loan) At(b *Bucket) (tat int64, v Verdict) {
	if tat = l.cell.Load(); tat >= loanBusy {
		return 0, dry(tat)
	}

	if b.Stripes == nil {
		return tat, Spent
	}

	if tat, v = l.grab(b); v == Spent {
		l.cell.Store(tat)
	}

	return tat, v
}

// State is Spent of a loan that is open, Turned of one that others have just now, and Closed of one that is over.
func (l *Loan) State() Verdict {
	if at := l.cell.Load(); at >= loanBusy {
		return dry(at)
	}

	return Spent
}

// Busy reports whether many tokens were spent in the last tick that is over.
func (l *Loan) Busy() bool { return l.busy.Load() }

// Idle reports whether no tick of the last span µs before now turned the loan, of ticks that are at most an hour old.
func (l *Loan) Idle(now, span int64) bool { return int64(uint32(now)-l.tick.Load()) >= span }
