package rate_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

func TestSlidingLogTimelines(t *testing.T) {
	t.Parallel()

	for _, tl := range []struct {
		name  string
		c     counter
		steps []step
	}{
		{"an admission leaves after exactly one window", logOf(2, 10*sec), []step{
			{sec, 1, true, 1, 0}, {4 * sec, 1, true, 0, 0}, {5 * sec, 1, false, 0, 6 * sec},
			{11*sec - 1, 1, false, 0, 1}, {11 * sec, 1, true, 0, 0}, {12 * sec, 2, false, 0, 9 * sec},
		}},
		{"old ones leave one by one, and the recent stay", logOf(10, hour), []step{
			{0, 1, true, 9, 0}, {3540 * sec, 8, true, 1, 0}, {3660 * sec, 3, false, 2, 3480 * sec}, {3660 * sec, 2, true, 0, 0},
			{3660 * sec, 7, false, 0, 3480 * sec}, {3660 * sec, 9, false, 0, 3600 * sec},
		}},
		{"a first cost that is large does not outlive its window", logOf(1000, 60*sec), []step{
			{10 * sec, 900, true, 100, 0}, {70*sec - 1, 900, false, 100, 1}, {70 * sec, 900, true, 100, 0},
		}},
		{"the clock steps back an hour: one window from now, not from then", logOf(10, 60*sec), []step{
			{12 * hour, 5, true, 5, 0}, {11 * hour, 5, true, 0, 0}, {11*hour + 2*sec, 1, false, 0, 58 * sec}, {11*hour + 60*sec, 10, true, 0, 0},
		}},
		{"two clocks ten seconds apart share a key", logOf(3, 60*sec), []step{
			{105 * sec, 1, true, 2, 0}, {95 * sec, 1, true, 1, 0}, {105 * sec, 1, true, 0, 0}, {95 * sec, 1, false, 0, 60 * sec},
		}},
		{"the clock jumps forward: one limit", logOf(10, 60*sec), []step{
			{0, 10, true, 0, 0}, {hour, 10, true, 0, 0}, {hour, 1, false, 0, 60 * sec},
		}},
	} {
		t.Run(tl.name, func(t *testing.T) {
			t.Parallel()
			follow(t, tl.c, tl.steps)
		})
	}
}

// One a second for 80 s of 100 a day, then the limit is 50: 31 must leave, and
// the 31st is that of t = 30 s.
func TestLogLimitLowered(t *testing.T) {
	t.Parallel()

	l := logOf(100, day)
	for i := range int64(80) {
		l.add(i*sec, 1)
	}

	l.Limit = 50
	follow(t, l, []step{{100 * sec, 1, false, 0, 86_330 * sec}, {86_430*sec - 1, 1, false, 0, 1}, {86_430 * sec, 1, true, 0, 0}})
}

func TestLogRemovesTheNewestFirst(t *testing.T) {
	t.Parallel()

	l := logOf(10, 60*sec)
	l.add(0, 4)
	l.add(sec, 6)

	l.entries = l.Remove(l.entries, 7)
	if got := l.Used(l.entries); got != 3 {
		t.Errorf("%d used after 7 of 10 came back, want 3", got)
	}

	// The three that stay are of t = 0.
	if got := l.wait(2*sec, 10); got != 58*sec {
		t.Errorf("all are back in %d µs, want 58 s", got)
	}

	if l.entries = l.Remove(l.entries, 50); len(l.entries) != 0 || l.left(2*sec) != 10 {
		t.Errorf("more came back than was used: %d left of 10", l.left(2*sec))
	}
}

func TestLogClear(t *testing.T) {
	t.Parallel()

	l := logOf(10, 60*sec)
	if got := l.Clear(l.entries, 0); got != 0 {
		t.Errorf("an empty log is clear in %d µs", got)
	}

	l.add(0, 4)
	l.add(5*sec, 1)

	for _, c := range []struct{ now, want int64 }{{5 * sec, 60 * sec}, {65*sec - 1, 1}, {65 * sec, 0}, {day, 0}} {
		if got := l.Clear(l.entries, c.now); got != c.want {
			t.Errorf("clear at %d: %d µs, want %d", c.now, got, c.want)
		}
	}
}

// A log grows with what is used, not with the limit.
func TestLogMemoryIsByUse(t *testing.T) {
	t.Parallel()

	var entries int

	for range 1_000 {
		l := logOf(1_000_000, 60*sec)
		l.add(0, 1)
		entries += cap(l.entries)
	}

	if entries > 8_000 {
		t.Errorf("a thousand keys with one request each hold %d entries", entries)
	}

	l := logOf(1_000_000, 60*sec)
	for i := range int64(1_000) {
		l.add(0, 1) // one instant, one entry
		l.add(i, 0) // a look leaves none
	}

	if len(l.entries) != 1 {
		t.Errorf("a thousand requests of one instant hold %d entries", len(l.entries))
	}

	for i := range int64(10_000) {
		l.add(i*sec, 1)
	}

	if len(l.entries) != 60 || l.Used(l.entries) != 60 {
		t.Errorf("one a second over a minute holds %d entries", len(l.entries))
	}
}

// Admissions that come late in the order of their times are kept in order.
func TestLogKeepsOrder(t *testing.T) {
	t.Parallel()

	var (
		l       = rate.Log{Limit: 10, Length: 60 * sec}
		entries []rate.Admission
	)

	for _, at := range []int64{30 * sec, 10 * sec, 20 * sec, 10 * sec} {
		entries = l.Add(entries, at, 1)
	}

	want := []rate.Admission{{At: 10 * sec, N: 2}, {At: 20 * sec, N: 1}, {At: 30 * sec, N: 1}}
	if len(entries) != len(want) {
		t.Fatalf("%v, want %v", entries, want)
	}

	for i := range want {
		if entries[i] != want[i] {
			t.Errorf("%v, want %v", entries, want)
		}
	}
}
