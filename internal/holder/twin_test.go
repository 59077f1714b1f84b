package holder_test

import (
	"fmt"

	"github.com/leaseway/leaseway/internal/rate"
)

// twin is one dumb counter in one place that knows nothing of leases: every
// admission goes into it, and it must never hold more than the burst.
type twin struct {
	kind   rate.Algorithm
	bucket rate.Bucket
	length int64       // of a window, µs
	slack  int64       // tokens that a bucket may hold above its burst
	level  rate.Time   // of a bucket
	window rate.Window // admissions, of a window
}

// admit puts n tokens in at now, and says whether they were too many.
func (w *twin) admit(now, n int64) error {
	if w.kind == rate.TokenBucket {
		w.level = w.bucket.Add(w.level.Max(rate.At(now)), n)

		if full := w.bucket.Add(rate.At(now), w.bucket.Burst+w.slack); full.Less(w.level) {
			return fmt.Errorf("at %d µs the twin holds more than %d", now, w.bucket.Burst+w.slack)
		}

		return nil
	}

	w.roll(now)

	over := n > w.bucket.Burst-w.window.Used
	if w.kind == rate.SlidingWindow {
		over = n > rate.Sliding{Limit: w.bucket.Burst, Length: w.length}.Avail(w.window, now-w.window.Start)
	}

	w.window.Used += n

	if over {
		return fmt.Errorf("at %d µs the twin holds more than %d: %+v", now, w.bucket.Burst, w.window)
	}

	return nil
}

// take is admit for tokens of which the store had just said that they are there: nothing excuses them.
func (w *twin) take(now, n int64) error {
	strict := *w
	strict.slack = 0
	err := strict.admit(now, n)
	w.level, w.window = strict.level, strict.window

	return err
}

// roll brings a window to now; it returns when that began.
func (w *twin) roll(now int64) int64 {
	if w.kind != rate.TokenBucket {
		w.window = w.window.Roll(rate.Aligned(now, w.length))
	}

	return w.window.Start
}

// putBack has the twin forget n tokens, in the window that they were counted in.
func (w *twin) putBack(now, n, window int64) {
	if w.kind == rate.TokenBucket {
		w.level = w.bucket.Add(w.level.Max(rate.At(now)), -n)

		return
	}

	w.roll(now)

	switch window {
	case w.window.Start:
		w.window.Used = max(0, w.window.Used-n)
	case w.window.Start - w.length:
		w.window.Prev = max(0, w.window.Prev-n)
	}
}
