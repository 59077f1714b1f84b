package rate_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

const hour = 3_600 * sec

func TestAligned(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		now, length int64
		want        rate.Span
	}{
		{0, sec, rate.Span{Start: 0, End: sec}},
		{sec - 1, sec, rate.Span{Start: 0, End: sec}},
		{sec, sec, rate.Span{Start: sec, End: 2 * sec}},
		{-1, sec, rate.Span{Start: -sec, End: 0}},
		{-sec, sec, rate.Span{Start: -sec, End: 0}},
		{10*sec + 1, 7 * sec, rate.Span{Start: 7 * sec, End: 14 * sec}},
		{20_000*day + 13*hour, day, rate.Span{Start: 20_000 * day, End: 20_001 * day}},
	} {
		if got := rate.Aligned(c.now, c.length); got != c.want {
			t.Errorf("Aligned(%d, %d) = %v, want %v", c.now, c.length, got, c.want)
		}
	}
}

func TestFixedWindowTimelines(t *testing.T) {
	t.Parallel()

	for _, tl := range []struct {
		name  string
		c     counter
		steps []step
	}{
		{"a look takes nothing", aligned(1, hour), []step{
			{0, 0, true, 1, 0}, {1 * sec, 1, true, 0, 0}, {2 * sec, 0, true, 0, 0}, {3 * sec, 1, false, 0, 3597 * sec},
		}},
		{"the wait ends with the window, to the microsecond", aligned(5, 60*sec), []step{
			{0, 5, true, 0, 0}, {ms, 1, false, 0, 59_999 * ms}, {30_400 * ms, 1, false, 0, 29_600 * ms},
			{59_200 * ms, 1, false, 0, 800 * ms}, {59_999 * ms, 1, false, 0, ms}, {60*sec - 1, 1, false, 0, 1}, {60 * sec, 5, true, 0, 0},
		}},
		{"a first cost that is large does not outlive its window", aligned(1000, 60*sec), []step{
			{10 * sec, 900, true, 100, 0}, {59 * sec, 900, false, 100, sec}, {60 * sec, 900, true, 100, 0},
		}},
		{"one each month of 31, 28 and 31 days", days(1, 0, 31*day, 59*day, 90*day), []step{
			{day, 1, true, 0, 0}, {31*day - 1, 1, false, 0, 1}, {31 * day, 1, true, 0, 0},
			{45 * day, 1, false, 0, 14 * day}, {59 * day, 1, true, 0, 0}, {60 * day, 1, false, 0, 30 * day},
		}},
		// 2026-09-08T15:00Z is 23:00 in Shanghai; its day began at 16:00Z the day before.
		{"a day that ends at 16:00 UTC", days(100, 1_788_796_800*sec, 1_788_883_200*sec, 1_788_969_600*sec), []step{
			{1_788_879_600 * sec, 100, true, 0, 0}, {1_788_879_600 * sec, 1, false, 0, 3600 * sec}, {1_788_883_200 * sec, 1, true, 99, 0},
		}},
		// Berlin: 2026-10-25 begins at 22:00Z and has 25 hours.
		{"a day of 25 hours", days(100, 1_792_792_800*sec, 1_792_879_200*sec, 1_792_969_200*sec, 1_793_055_600*sec), []step{
			{1_792_879_200*sec - 1, 100, true, 0, 0}, {1_792_879_200 * sec, 100, true, 0, 0},
			{1_792_879_200 * sec, 1, false, 0, 90_000 * sec}, {1_792_969_200 * sec, 100, true, 0, 0},
		}},
		// Berlin: 2026-03-29 begins at 23:00Z and has 23 hours.
		{"a day of 23 hours", days(100, 1_774_738_800*sec, 1_774_821_600*sec, 1_774_908_000*sec), []step{
			{1_774_738_800 * sec, 100, true, 0, 0}, {1_774_738_800 * sec, 1, false, 0, 82_800 * sec}, {1_774_821_600 * sec, 1, true, 99, 0},
		}},
		// Cairo: 2026-04-24 has no 00:00; it begins at 01:00, which is 22:00Z.
		{"a day without midnight opens once", days(100, 1_776_895_200*sec, 1_776_981_600*sec, 1_777_064_400*sec), []step{
			{1_776_981_600*sec - 1, 100, true, 0, 0}, {1_776_981_600*sec - 1, 1, false, 0, 1}, {1_776_981_600 * sec, 100, true, 0, 0},
			{1_776_981_600*sec + hour, 1, false, 0, 22 * hour}, {1_777_064_400*sec - 1, 1, false, 0, 1},
		}},
		{"the clock steps back an hour: what was used goes with it", aligned(10, 60*sec), []step{
			{12 * hour, 5, true, 5, 0}, {11 * hour, 6, false, 5, 60 * sec}, {11 * hour, 5, true, 0, 0},
			{11*hour + 2*sec, 1, false, 0, 58 * sec}, {11*hour + 60*sec, 10, true, 0, 0},
		}},
		{"the clock steps back over an edge: the old window is no fuller than before, and no emptier", aligned(10, 60*sec), []step{
			{59 * sec, 10, true, 0, 0}, {60 * sec, 1, true, 9, 0}, {59_900 * ms, 1, false, 0, 100 * ms}, {60 * sec, 10, true, 0, 0},
		}},
		{"the clock jumps forward: one limit", aligned(10, 60*sec), []step{
			{0, 10, true, 0, 0}, {hour, 10, true, 0, 0}, {hour, 1, false, 0, 60 * sec},
		}},
	} {
		t.Run(tl.name, func(t *testing.T) {
			t.Parallel()
			follow(t, tl.c, tl.steps)
		})
	}
}

func TestSlidingCounterTimelines(t *testing.T) {
	t.Parallel()

	for _, tl := range []struct {
		name  string
		c     counter
		steps []step
	}{
		{"the previous window weighs to the last part of a token", slide(1, sec), []step{
			{900 * ms, 1, true, 0, 0}, {1_100 * ms, 1, false, 0, 900 * ms}, {1_990 * ms, 1, false, 0, 10 * ms},
			{2*sec - 1, 1, false, 0, 1}, {2 * sec, 1, true, 0, 0}, {2_010 * ms, 1, false, 0, 1_990 * ms},
		}},
		{"3 a minute, all at its end: 2.95 are still there", slide(3, 60*sec), []step{
			{59 * sec, 3, true, 0, 0}, {61 * sec, 1, false, 0, 19 * sec}, {80*sec - 1, 1, false, 0, 1}, {80 * sec, 1, true, 0, 0},
		}},
		{"a tenth of the window gives back a tenth", slide(100, sec), []step{
			{900 * ms, 100, true, 0, 0}, {1_100 * ms, 11, false, 10, 10 * ms}, {1_100 * ms, 10, true, 0, 0}, {1_110 * ms, 1, true, 0, 0},
		}},
		{"old hits leave while most are recent", slide(10, hour), []step{
			{0, 1, true, 9, 0}, {3540 * sec, 8, true, 1, 0}, {3660 * sec, 2, false, 1, 340 * sec}, {3660 * sec, 1, true, 0, 0},
		}},
		{"a first cost that is large", slide(1000, 60*sec), []step{
			{0, 900, true, 100, 0}, {60 * sec, 900, false, 100, 53_333_334}, {113_333_333, 900, false, 899, 1}, {113_333_334, 900, true, 0, 0},
		}},
		{"the whole limit comes back when two edges have passed", slide(10, sec), []step{
			{500 * ms, 1, true, 9, 0}, {500 * ms, 10, false, 9, 1_500 * ms}, {2*sec - 1, 10, false, 9, 1}, {2 * sec, 10, true, 0, 0},
		}},
		{"a clock that steps back takes the count with it", slide(10, 60*sec), []step{
			{12 * hour, 10, true, 0, 0}, {11 * hour, 1, false, 0, 66 * sec}, {11*hour + 66*sec, 1, true, 0, 0},
		}},
		{"a step back over an edge gives nothing twice", slide(10, 60*sec), []step{
			{59 * sec, 10, true, 0, 0}, {66 * sec, 1, true, 0, 0}, {59 * sec, 1, false, 0, 7 * sec}, {60 * sec, 1, false, 0, 6 * sec},
		}},
	} {
		t.Run(tl.name, func(t *testing.T) {
			t.Parallel()
			follow(t, tl.c, tl.steps)
		})
	}
}

// A window that was used is clear when it weighs nothing any more, and one microsecond earlier it is not.
func TestSlidingClear(t *testing.T) {
	t.Parallel()

	s := slide(1_000, 60*sec)
	if got := s.clear(5 * sec); got != 0 {
		t.Errorf("nothing was used: clear in %d µs", got)
	}

	s.add(5*sec, 900)

	for _, c := range []struct{ now, want, left int64 }{
		{5 * sec, 115 * sec, 100}, {70 * sec, 50 * sec, 250}, {120*sec - 1, 1, 999}, {120 * sec, 0, 1_000},
	} {
		if got, left := s.clear(c.now), s.left(c.now); got != c.want || left != c.left {
			t.Errorf("at %d: clear in %d µs, %d left; want %d, %d", c.now, got, left, c.want, c.left)
		}
	}
}

// A limit that was lowered below what was used: the wait is until enough has
// gone under the new limit, and the previous window weighs what it really used.
func TestSlidingLimitLowered(t *testing.T) {
	t.Parallel()

	s := slide(100, 60*sec)
	s.add(0, 80)
	s.Limit = 50
	follow(t, s, []step{
		// 80 × (1 - 22.5/60) = 50: one more of 50 at 23.25 s of the next window.
		{10 * sec, 1, false, 0, 50*sec + 23_250*ms}, {82_500 * ms, 1, false, 0, 750 * ms}, {83_250 * ms, 1, true, 0, 0},
	})
}
