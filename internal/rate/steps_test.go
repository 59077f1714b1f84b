package rate_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/rate"
)

// A clock that steps, back or forward, gives nothing twice and makes nothing
// wait for the old time: what is left does not grow by a step back, and a wait
// is never longer than after a full burst. (A sliding counter may have more left
// where the step goes to a later part of a window, in which the previous one weighs less.)
func TestClocksThatStep(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit, length := rapid.SampledFrom(limits).Draw(t, "limit"), rapid.SampledFrom(lengths).Draw(t, "length")
		now := 3650*day + rapid.Int64Range(0, length).Draw(t, "start")

		for name, c := range map[string]struct {
			counter

			most int64
		}{
			"fixed window":    {aligned(limit, length), length},
			"sliding counter": {slide(limit, length), 2 * length},
			"sliding log":     {logOf(limit, length), length},
		} {
			at := now
			for range rapid.IntRange(1, 20).Draw(t, "steps") {
				gap := rapid.OneOf(rapid.Int64Range(-length, length), rapid.Int64Range(-5*length, 5*length), rapid.SampledFrom([]int64{-3650 * day, 3650 * day})).Draw(t, "gap")
				before := c.left(at)
				at += gap

				after := c.left(at)
				if gap <= 0 && after > before && name != "sliding counter" {
					t.Fatalf("%s: %d left, and %d after a step back of %d µs", name, before, after, -gap)
				}

				if after < 0 || after > limit {
					t.Fatalf("%s: %d left of %d", name, after, limit)
				}

				take(c, at, min(limit, genCost(t, after, limit)))

				if wait := c.wait(at, limit); wait > c.most || wait < 0 || c.left(at+wait) != limit {
					t.Fatalf("%s: a wait of %d µs, and then %d of %d left", name, wait, c.left(at+wait), limit)
				}

				at += c.wait(at, limit) / 2
			}
		}
	})
}

// A log counts true time as long as its clock only steps back: in no true
// window more than the limit passes, whatever the clock said.
func TestLogHoldsWhileTheClockStepsBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit, length := rapid.Int64Range(1, 20).Draw(t, "limit"), rapid.SampledFrom(lengths[2:]).Draw(t, "length")
		l := logOf(limit, length)
		twin := &logTwin{limit: limit, length: length}

		var now, behind int64 // true time, and how far the clock is behind it

		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Int64Range(0, length/4), rapid.Int64Range(0, length)).Draw(t, "gap")
			behind += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, length), rapid.Just(hour)).Draw(t, "back")

			n := rapid.Int64Range(1, limit).Draw(t, "cost")
			if !take(l, now-behind, n) {
				continue
			}

			if twin.left(now) < n {
				t.Fatalf("at %d, with the clock %d µs behind, %d passed where %d were left", now, behind, n, twin.left(now))
			}

			twin.add(now, n)
		}
	})
}

// A fixed window's clock that wobbles around an edge: the window it falls back
// into admits no more than its limit in all.
func TestWindowHoldsWhileTheClockWobbles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 20).Draw(t, "limit")
		f := aligned(limit, 60*sec)
		before := rapid.Int64Range(0, limit).Draw(t, "before the edge")
		f.add(59*sec, before)
		f.add(60*sec, rapid.Int64Range(0, limit).Draw(t, "after it"))

		if left := f.left(60*sec - 1); before+left > limit {
			t.Fatalf("%d of %d were used, and %d are left back there", before, limit, left)
		}
	})
}

// Refunds: what comes back is the newest, never more than was used.
func TestLogRefundsAgainstTwin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom(limits).Draw(t, "limit")
		l, twin := logOf(limit, 60*sec), &logTwin{limit: limit, length: 60 * sec}

		var now int64

		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += genGap(t, now, 60*sec)
			if n := genCost(t, l.left(now), limit); take(l, now, n) {
				twin.add(now, n)
			}

			back := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 3), rapid.Int64Range(0, limit+1)).Draw(t, "back")
			l.entries = l.Remove(l.entries, back)
			twin.remove(now, back)

			if got, want := l.left(now), twin.left(now); got != want {
				t.Fatalf("at %d: %d left, the twin says %d", now, got, want)
			}

			if got, want := l.wait(now, limit), twin.wait(now, limit); got != want {
				t.Fatalf("at %d: wait %d µs, the twin says %d", now, got, want)
			}
		}
	})
}

// remove takes tokens out of the last window one admission at a time, the newest first.
func (w *logTwin) remove(now, n int64) {
	for i := len(w.all) - 1; i >= 0 && n > 0; i-- {
		if w.all[i].At <= now-w.length {
			return
		}

		part := min(n, w.all[i].N)
		w.all[i].N -= part
		n -= part
	}
}

// A calendar's windows differ in length: the count of the last one is kept as
// Prev, that of an older one is not.
func TestRollOverUnevenWindows(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		name       string
		from, to   rate.Span
		used, prev int64
	}{
		{"January to February", rate.Span{Start: 0, End: 31 * day}, rate.Span{Start: 31 * day, End: 59 * day}, 0, 5},
		{"January to March", rate.Span{Start: 0, End: 31 * day}, rate.Span{Start: 59 * day, End: 90 * day}, 0, 0},
		{"February to March", rate.Span{Start: 31 * day, End: 59 * day}, rate.Span{Start: 59 * day, End: 90 * day}, 0, 5},
		{"February to April", rate.Span{Start: 31 * day, End: 59 * day}, rate.Span{Start: 90 * day, End: 120 * day}, 0, 0},
		{"24 hours to 23", rate.Span{Start: 0, End: day}, rate.Span{Start: day, End: day + 23*hour}, 0, 5},
		{"23 hours to 24", rate.Span{Start: 0, End: 23 * hour}, rate.Span{Start: 23 * hour, End: 47 * hour}, 0, 5},
		{"over a day of 23 hours", rate.Span{Start: 0, End: day}, rate.Span{Start: 47 * hour, End: 71 * hour}, 0, 0},
		{"a leap February", rate.Span{Start: 0, End: 31 * day}, rate.Span{Start: 31 * day, End: 60 * day}, 0, 5},
	} {
		w := rate.Window{Start: c.from.Start, Used: 5, Prev: 3}.Roll(c.to)
		if want := (rate.Window{Start: c.to.Start, Used: c.used, Prev: c.prev}); w != want {
			t.Errorf("%s: %+v, want %+v", c.name, w, want)
		}
	}
}
