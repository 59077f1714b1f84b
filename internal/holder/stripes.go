package holder

import (
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/rate"
)

// Bucket is what a loan is of: a bucket, and stripes of it if several processors want it at once.
type Bucket struct {
	rate.Bucket

	Stripes *Stripes // nil: all requests spend from the cell
}

// Stripes are tokens of a loan that are put aside for the rest of a tick, so that processors that are busy
// with it write to a line of a cache each, instead of fetching one from each other for each request.
//
//	cell ── deal, in a busy tick ──► stripe ── SpendStriped
//	  ▲                                │
//	  └─────────── gather ◄────────────┘  by whoever makes the loan busy: to turn or end it, to count, before it refuses
//
// Only who has made the loan busy puts tokens in or back. So whatever is in a
// stripe is there to be spent, and nothing is once the loan is closed.
type Stripes struct {
	dealt atomic.Uint32 // raised when tokens are put aside and when they are gathered: odd in between
	_     [60]byte
	each  [stripes]stripe
}

// stripe is one line of a cache.
type stripe struct {
	left atomic.Int64 // tokens
	tat  atomic.Int64 // the cell as it would be if all of them were spent, and nothing else since they were dealt
	_    [48]byte
}

const (
	stripes    = 16
	stripePart = 8   // a stripe is dealt the 256th part of what is left,
	leastDeal  = 16  // and nothing if that is less
	busyTokens = 512 // as many in a tick make it a busy one
)

// rich reports whether a bucket can ever have enough for stripes.
func (b *Bucket) rich() bool { return b.Burst>>stripePart >= leastDeal }

// SpendStriped is Spend for a loan with stripes, from that of a number below 16, or from the cell while
// nothing is put aside. What others took of theirs since it was dealt is not in tat.
func (l *Loan) SpendStriped(tick, n int64, b *Bucket, of int) (tat int64, v Verdict) {
	if l.tick.Load() != uint32(tick) {
		return 0, Turned
	}

	s := &b.Stripes.each[of]
	if tat, ok := s.spend(n, b.P); ok {
		return tat, Spent
	}

	if l.busy.Load() && l.deal(tick, n, b, of) {
		if tat, ok := s.spend(n, b.P); ok {
			return tat, Spent
		}
	}

	dealt := b.Stripes.dealt.Load()
	if dealt&1 != 0 {
		return 0, Turned // which gathers first
	}

	tat, v = l.Spend(tick, n, b)

	switch {
	case v == SpentLate:
		v = Spent
	case v == Dry && b.Stripes.dealt.Load() != dealt:
		v = Turned // the cell said what was put aside just now
	}

	return tat, v
}

// spend takes n tokens, of time p each, if the stripe has them.
func (s *stripe) spend(n, p int64) (tat int64, ok bool) {
	for {
		left := s.left.Load()
		if left < n {
			return 0, false
		}

		if s.left.CompareAndSwap(left, left-n) {
			return s.tat.Load() - (left-n)*p, true
		}
	}
}

// deal puts tokens aside in a stripe, if there are many, least or more, and nobody else has the loan just now, and
// reports whether it did.
func (l *Loan) deal(tick, least int64, b *Bucket, of int) bool {
	at := l.cell.Load()

	n := (tick*b.Q + b.Burst*b.P - at) / b.P >> stripePart
	if at >= loanBusy || n < max(least, leastDeal) || !l.cell.CompareAndSwap(at, loanBusy) {
		return false
	}

	at += n * b.P
	b.Stripes.put(of, n, at, b.P)
	l.cell.Store(at)

	return true
}

// put has n more tokens, of time p each, be in a stripe, after which the cell is at.
func (s *Stripes) put(of int, n, at, p int64) {
	for i := range s.each {
		if i != of {
			at -= s.each[i].left.Load() * p
		}
	}

	s.dealt.Store(s.dealt.Load() | 1)
	s.each[of].tat.Store(at)
	s.each[of].left.Add(n)
}

// gather takes back what was put aside, of tokens of time p each, and returns the time of all of them.
func (s *Stripes) gather(p int64) (all int64) {
	if s == nil || s.dealt.Load()&1 == 0 {
		return 0
	}

	for i := range s.each {
		all += s.each[i].left.Swap(0) * p
	}

	s.dealt.Add(1)

	return all
}
