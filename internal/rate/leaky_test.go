package rate_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// queued is one request to a leaky bucket: admitted or not, how long it is
// held (µs), what is left afterwards, and when the same cost would pass.
type queued struct {
	t, n        int64
	ok          bool
	delay, left int64
	wait        int64
}

func TestLeakyBucketTimelines(t *testing.T) {
	t.Parallel()

	for _, tl := range []struct {
		name                 string
		limit, window, burst int64
		steps                []queued
	}{
		{"what comes at once leaves one by one", 10, sec, 3, []queued{
			{0, 1, true, 0, 2, 0}, {0, 1, true, 100 * ms, 1, 0}, {0, 1, true, 200 * ms, 0, 0}, {0, 1, false, 0, 0, 100 * ms},
			{50 * ms, 1, false, 0, 0, 50 * ms}, {100 * ms, 1, true, 200 * ms, 0, 0}, {10 * sec, 1, true, 0, 2, 0},
		}},
		{"a cost above 1 holds the next for longer, not itself", 10, sec, 5, []queued{
			{0, 3, true, 0, 2, 0}, {0, 3, false, 0, 2, 100 * ms}, {0, 2, true, 300 * ms, 0, 0}, {100 * ms, 1, true, 400 * ms, 0, 0},
		}},
		{"a cost above the queue never passes", 3, 2 * sec, 3, []queued{{0, 4, false, 0, 3, -1}, {0, 3, true, 0, 0, 0}}},
		{"a queue of one delays nobody", 1, sec, 1, []queued{
			{0, 1, true, 0, 0, 0}, {sec - 1, 1, false, 0, 0, 1}, {sec, 1, true, 0, 0, 0},
		}},
		{"thirds of a second: a delay rounds up, and the fractions are kept", 3, sec, 4, []queued{
			{0, 1, true, 0, 3, 0}, {0, 1, true, 333_334, 2, 0}, {0, 1, true, 666_667, 1, 0}, {0, 1, true, sec, 0, 0}, {0, 1, false, 0, 0, 333_334},
		}},
		{"one a month", 1, 30 * day, 2, []queued{
			{0, 1, true, 0, 1, 0}, {0, 1, true, 30 * day, 0, 0}, {day, 1, false, 0, 0, 29 * day}, {30 * day, 1, true, 30 * day, 0, 0},
		}},
	} {
		t.Run(tl.name, func(t *testing.T) {
			t.Parallel()

			b := bucketOf(t, tl.limit, tl.window, tl.burst)

			for i, s := range tl.steps {
				delay := b.delay(s.t)
				ok := take(b, s.t, s.n)

				if left := b.left(s.t); ok != s.ok || left != s.left || ok && delay != s.delay {
					t.Fatalf("step %d at %d µs: allowed %v after %d µs, left %d; want %+v", i, s.t, ok, delay, left, s)
				}

				if wait := b.wait(s.t, s.n); !ok && wait != s.wait {
					t.Fatalf("step %d at %d µs: wait %d µs, want %d", i, s.t, wait, s.wait)
				}
			}
		})
	}
}

// It leaks under steady traffic, a token each 3 s, and not all at once.
func TestLeakyBucketLeaksUnderTraffic(t *testing.T) {
	t.Parallel()

	b := bucketOf(t, 10, 30*sec, 10)
	for i, left := range []int64{9, 8, 7, 7, 6, 5, 5, 4, 3, 3, 2, 1, 1, 0} {
		if now := int64(i) * sec; !take(b, now, 1) || b.left(now) != left {
			t.Errorf("at %d s: %d left, want %d", i, b.left(now), left)
		}
	}

	if take(b, 14*sec, 1) || b.wait(14*sec, 1) != sec || !take(b, 15*sec, 1) {
		t.Error("at 14 s one passed, or the wait was not 1 s, or at 15 s none did")
	}

	b = bucketOf(t, 3, sec, 3)

	var at []int64

	for i := range int64(30) {
		if take(b, i*100*ms, 1) {
			at = append(at, i)
		}
	}

	want := []int64{0, 1, 2, 4, 7, 10, 14, 17, 20, 24, 27}
	if len(at) != len(want) {
		t.Fatalf("admitted at tenths %v, want %v", at, want)
	}

	for i := range want {
		if at[i] != want[i] {
			t.Errorf("admitted at tenths %v, want %v", at, want)
		}
	}
}

// Whatever arrives, what leaves is never closer together than one token's
// time, and never more than the burst is queued.
func TestLeakyBucketSpacesWhatLeaves(t *testing.T) {
	t.Parallel()

	for _, limit := range []int64{7, 1_500, 999_999} {
		var (
			b    = bucketOf(t, limit, sec, 20)
			last = -sec
			each = sec / limit // rounded down: a delay is rounded up by less than 1 µs

			refused int
		)

		for i := range int64(1_000) {
			now := i / 5 * 3 * each // five at once in the time of three

			at := now + b.delay(now)
			if !take(b, now, 1) {
				refused++

				continue
			}

			if at-last < each || at-now > 20*(each+1) {
				t.Fatalf("%d/s: one left %d µs after the other, %d µs after it came", limit, at-last, at-now)
			}

			last = at
		}

		if refused == 0 {
			t.Errorf("%d/s: the queue never filled", limit)
		}
	}
}

// A bucket whose store's clock stepped back by an hour is moved with it: it is
// as full as before and refills from there, and a jump forward is one burst.
func TestBucketClockSteps(t *testing.T) {
	t.Parallel()

	b := bucketOf(t, 10, sec, 10)
	b.add(12*hour, 5)
	b.tat = b.tat.Shift(-hour)

	var got int64
	for i := range int64(20) {
		got += admits(b, 11*hour+i*100*ms, 1)
	}

	if got != 20 {
		t.Errorf("%d of 20 over 2 s after the step, want all", got)
	}

	if n := admits(b, 12*hour, 30); n != 10 {
		t.Errorf("%d after a jump forward, want one burst of 10", n)
	}

	if shifted := (rate.Time{Micros: 5, Frac: 2}).Shift(-7); shifted != (rate.Time{Micros: -2, Frac: 2}) {
		t.Errorf("a shift by whole µs gave %v", shifted)
	}
}
