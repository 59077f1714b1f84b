package sim

import (
	"github.com/leaseway/leaseway/internal/rate"
)

// twin is one ideal central limiter: what a budget would admit if every request
// asked one counter, in no time.
type twin struct {
	limit  limit
	bucket rate.Bucket
	tat    rate.Time
	window rate.Window
}

func newTwin(l limit) twin {
	return twin{limit: l, bucket: rate.Bucket{P: l.p, Q: l.q, Burst: l.tokens}}
}

// avail returns the tokens that are left at now.
func (t *twin) avail(now int64) int64 {
	switch l := &t.limit; l.algorithm {
	case rate.FixedWindow:
		t.window = t.window.Roll(rate.Aligned(now, l.length))

		return l.tokens - t.window.Used
	case rate.SlidingWindow:
		t.window = t.window.Roll(rate.Aligned(now, l.length))

		return rate.Sliding{Limit: l.tokens, Length: l.length}.Avail(t.window, now-t.window.Start)
	default:
		return t.bucket.Avail(now, t.tat)
	}
}

// take uses n tokens of those that are left at now.
func (t *twin) take(now, n int64) {
	if t.limit.algorithm.Windowed() {
		t.window.Used += n

		return
	}

	t.tat = t.bucket.Add(t.tat.Max(rate.At(now)), n)
}

// change keeps the level under another limit.
func (t *twin) change(now int64, l limit) {
	next := newTwin(l)
	next.window = t.window

	if !l.algorithm.Windowed() {
		next.tat = next.bucket.Rebase(now, t.tat, t.bucket)
	}

	*t = next
}
