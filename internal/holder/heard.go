package holder

import (
	"math"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// heard is what the last answer said, in the holder's time.
type heard struct {
	under *ledger.Terms // nil before the first answer
	tat   rate.Time     // of a bucket: when it is full, leased tokens included
	at    int64         // when its ask was sent; 0: never

	window atomic.Pointer[window] // of a window or log; nil for a bucket
}

// window is what the last answer said of a window or log.
type window struct {
	used  int64 // tokens, leased ones included
	prev  int64 // of the window before, of a sliding one
	wait  int64 // µs after the answer when the first cost that was refused can pass, of a log
	end   int64 // when it ends: told late rather than early,
	late  int64 // by this at most
	asked int64 // when the last ask was sent that was answered, be it about the next window

	looks looks // how it was spent since, of a fixed window

	beyond atomic.Int64 // what was left beside the balance when Note last ran; without the lock
}

// Remaining returns what one central counter would have left at now, as far as
// this holder can know: what it holds, and what the store had left when it last
// answered, grown by what came back since. Leases of others count as spent.
func (l *Lease) Remaining(now int64) int64 {
	if !l.Known() {
		return 0
	}

	return max(0, min(l.heard.terms().Bucket.Burst, l.balance.Load()+l.avail(now)))
}

// avail is Remaining without what this holder has leased.
func (l *Lease) avail(now int64) int64 {
	if h := &l.heard; h.bucket() {
		return h.terms().Bucket.Avail(now, l.level(now))
	}

	return l.heard.avail(now)
}

// Note notes how the key stands at now for requests that then spend without the
// lock, and lets them go on so from tick to tick if b is the bucket that the lease is of. Under the lock.
func (l *Lease) Note(now int64, b *rate.Bucket) {
	if !l.Known() {
		return
	}

	h := &l.heard
	if !h.bucket() {
		h.counted().beyond.Store(max(0, l.Remaining(now)-l.balance.Load()))
		l.full.Store(now + l.Full(now) - h.counted().late) // told early rather than late

		return
	}

	level := l.level(now)
	full := level.Micros

	if level.Frac > 0 {
		full++
	}

	l.full.Store(max(now, full))
	l.arm(b)
}

// Whole returns when, as far as Note knew, a bucket would be full if all that is
// leased were spent, or a window ends. Without the lock.
func (l *Lease) Whole() int64 { return l.full.Load() }

// Beyond returns what a window had left, as far as Note knew, beside the balance; of a
// bucket Whole tells it. Without the lock.
func (l *Lease) Beyond() int64 {
	if w := l.heard.window.Load(); w != nil {
		return w.beyond.Load()
	}

	return 0
}

// Full returns the µs from now until a bucket is full again or a window ends, own unspent tokens counted as not taken.
func (l *Lease) Full(now int64) int64 {
	h := &l.heard

	switch b := h.terms().Bucket; {
	case !l.Known():
		return 0
	case h.bucket():
		return b.Full(now, add(b, l.level(now), -l.balance.Load()))
	default:
		return h.left(now)
	}
}

// Wait returns the µs from now until a request for n tokens can pass, -1 for never.
func (l *Lease) Wait(now, n int64) int64 {
	h := &l.heard

	switch b := h.terms().Bucket; {
	case !l.Known():
		return 0
	case n > b.Burst:
		return -1
	case h.bucket():
		return b.Wait(now, add(b, l.level(now), -l.balance.Load()), n)
	default:
		return h.wait(now, n-l.balance.Load())
	}
}

// level returns the tat that the ledger would compute if it were asked at now.
func (l *Lease) level(now int64) rate.Time {
	l.gather()

	b, others := l.heard.terms().Bucket, l.mark.others
	left := l.balance.Load() + l.reserved.Load()
	tat := l.heard.tat

	if p := l.latest(&b, l.Spent()); p.ok() {
		n := l.granted - l.base() + others
		tat = tat.Max(p.time(b, n).Min(add(b, rate.At(now), n)))
	}

	return tat.Max(add(b, rate.At(now), left+others))
}

// terms returns the key's terms, zero ones before the first answer.
func (h *heard) terms() *ledger.Terms {
	if h.under == nil {
		return &ledger.Terms{}
	}

	return h.under
}

// Share makes l refer to t if it has the same terms, and returns what it refers
// to: keys of one rule share theirs, since there are many of them.
func (l *Lease) Share(t *ledger.Terms) *ledger.Terms {
	if t != nil && l.heard.under != nil && *l.heard.under == *t {
		l.heard.under = t
	}

	return l.heard.under
}

// carries returns what h should refer to from now on, for terms t.
func (h *heard) carries(t *ledger.Terms) *ledger.Terms {
	if h.under != nil && *h.under == *t {
		return h.under
	}

	own := *t

	return &own
}

// takeIn has l.heard be what an answer says that came at now.
func (l *Lease) takeIn(now, sentAt int64, a *ledger.Answer) {
	h := &l.heard
	h.under, h.tat, h.at = h.carries(&a.Terms), a.Level.Shift(sentAt), max(1, sentAt)
	l.demand.holders = uint32(max(0, min(math.MaxUint32, a.Holders)))

	if w := &a.Window; h.bucket() {
		h.window.Store(nil)
	} else {
		h.turnTo(&window{
			used: w.Used, prev: w.Prev, wait: w.Wait, end: now + w.Left, late: now - sentAt,
			asked: sentAt, looks: lookedAt(sentAt, l.told),
		})
	}
}

// turnTo has w be the window. What was left is told until Note runs.
func (h *heard) turnTo(w *window) {
	w.beyond.Store(h.counted().beyond.Load())
	h.window.Store(w)
}

// counted returns what a window or log had counted at the answer, nothing for a bucket.
func (h *heard) counted() *window {
	if w := h.window.Load(); w != nil {
		return w
	}

	return &window{}
}

func (h *heard) bucket() bool {
	a := h.terms().Algorithm

	return a == rate.TokenBucket || a == rate.LeakyBucket
}

// avail returns what a bucket had left at the answer, or a window or log has left at now.
func (h *heard) avail(now int64) int64 {
	switch b := h.terms().Bucket; {
	case h.bucket():
		return b.Avail(h.at, h.tat)
	case h.terms().Algorithm == rate.SlidingWindow:
		w, elapsed := h.roll(now)

		return h.sliding().Avail(w, elapsed)
	case now >= h.counted().end:
		return b.Burst
	default:
		return max(0, b.Burst-h.counted().used)
	}
}

// spare returns what a request that is denied for want of more could still have: alone, what was left is left.
func (l *Lease) spare() int64 {
	if l.demand.holders < 2 {
		return l.heard.avail(l.heard.at)
	}

	return 0
}

// wait returns the µs until n tokens are to be had from a window or log, as far as is known.
func (h *heard) wait(now, n int64) int64 {
	switch {
	case n <= h.avail(now):
		return 0
	case h.terms().Algorithm == rate.SlidingWindow:
		w, elapsed := h.roll(now)

		return h.sliding().Wait(w, elapsed, n)
	case h.terms().Algorithm == rate.SlidingLog && h.counted().wait > 0:
		return max(1, h.at+h.counted().wait-now)
	default:
		return h.left(now)
	}
}

// left returns the µs until the window that now is in ends, or the log has forgotten everything.
func (h *heard) left(now int64) int64 {
	end := h.counted().end
	if now < end {
		return end - now
	}

	if length := h.terms().Length; length > 0 && h.terms().Algorithm.Windowed() {
		return length - (now-end)%length
	}

	return 0
}

func (h *heard) sliding() rate.Sliding {
	return rate.Sliding{Limit: h.terms().Bucket.Burst, Length: max(1, h.terms().Length)}
}

// roll returns the sliding window at now if nothing was used since the answer.
func (h *heard) roll(now int64) (w rate.Window, elapsed int64) {
	length := max(1, h.terms().Length)
	c := h.counted()
	start := c.end - length
	w = rate.Window{Start: start, Used: c.used, Prev: c.prev}

	for now >= start+length && (w.Used > 0 || w.Prev > 0) {
		start += length
		w = w.Roll(rate.Span{Start: start, End: start + length})
	}

	return w, max(0, min(now-start, length))
}
