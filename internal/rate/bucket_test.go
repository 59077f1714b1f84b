package rate_test

import (
	"errors"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/rate"
)

const (
	ms  = int64(1_000)
	sec = int64(1_000_000)
	day = 86_400 * sec
)

// timeline is one bucket, and what requests at its instants get.
type timeline struct {
	name                 string
	limit, window, burst int64
	steps                []step
}

type step struct {
	t, n int64
	ok   bool
	left int64 // tokens left afterwards
	wait int64 // µs until the same cost would pass, asked after a refusal
}

func TestBucketTimelines(t *testing.T) {
	t.Parallel()

	for _, tl := range []timeline{
		{"the limit, and not one less", 1, 60 * sec, 1, []step{{0, 1, true, 0, 0}, {0, 1, false, 0, 60 * sec}}},
		{"six a minute is six at once, then one each ten seconds", 6, 60 * sec, 6, []step{
			{0, 6, true, 0, 0}, {0, 1, false, 0, 10 * sec}, {5 * sec, 1, false, 0, 5 * sec},
			{9_900 * ms, 1, false, 0, 100 * ms}, {10 * sec, 1, true, 0, 0},
		}},
		{"a refused cost takes nothing", 10, 60 * sec, 10, []step{
			{0, 8, true, 2, 0}, {0, 5, false, 2, 18 * sec}, {0, 1, true, 1, 0}, {0, 1, true, 0, 0}, {0, 1, false, 0, 6 * sec},
		}},
		{"one a day", 1, day, 1, []step{
			{0, 1, true, 0, 0}, {day / 2, 1, false, 0, day / 2}, {day - 1, 1, false, 0, 1}, {day, 1, true, 0, 0},
		}},
		{"a third of a second each: the fraction is kept", 3, sec, 1, []step{
			{0, 1, true, 0, 0}, {333_333, 1, false, 0, 1}, {333_334, 1, true, 0, 0}, {666_667, 1, false, 0, 1}, {666_668, 1, true, 0, 0},
		}},
		{"a cost above the burst never passes", 3, 2 * sec, 3, []step{{0, 4, false, 3, -1}, {0, 3, true, 0, 0}}},
		{"ten idle years are one burst", 999_999, sec, 999_999, []step{
			{0, 999_999, true, 0, 0}, {3650 * day, 999_999, true, 0, 0}, {3650 * day, 1, false, 0, 2},
		}},
	} {
		t.Run(tl.name, func(t *testing.T) {
			t.Parallel()

			b, err := rate.NewBucket(tl.limit, tl.window, tl.burst)
			if err != nil {
				t.Fatal(err)
			}

			var tat rate.Time

			for i, s := range tl.steps {
				next, ok := b.Take(s.t, tat, s.n)
				tat = next

				if left := b.Avail(s.t, tat); ok != s.ok || left != s.left {
					t.Fatalf("step %d at %d µs: allowed %v, left %d; want %v, %d", i, s.t, ok, left, s.ok, s.left)
				}

				if wait := b.Wait(s.t, tat, s.n); !s.ok && wait != s.wait {
					t.Fatalf("step %d at %d µs: wait %d µs, want %d", i, s.t, wait, s.wait)
				}
			}
		})
	}
}

// No drift: over a long run of a greedy caller the count is the exact one.
func TestLongRunsDoNotDrift(t *testing.T) {
	t.Parallel()

	for _, limit := range []int64{7, 1_500, 600_000, 999_999} {
		b, err := rate.NewBucket(limit, sec, 3)
		if err != nil {
			t.Fatal(err)
		}

		var (
			tat      rate.Time
			now, got int64
		)

		for now <= 3*sec {
			n := b.Avail(now, tat)
			tat, _ = b.Take(now, tat, n)
			got += n
			now += b.Wait(now, tat, 1)
		}
		// The burst at the start, and the last of 3·limit tokens at 3 s sharp.
		if want := 3 + 3*limit; got != want {
			t.Errorf("%d/s: %d tokens in 3 s, want %d", limit, got, want)
		}
	}
}

func TestNewBucketRefusesWhatItCannotCount(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		limit, window, burst int64
		want                 error
	}{
		{0, sec, 1, rate.ErrLimit},
		{-1, sec, 1, rate.ErrLimit},
		{rate.MaxLimit + 1, sec, 1, rate.ErrLimit},
		{1, 0, 1, rate.ErrWindow},
		{1, sec, 0, rate.ErrBurst},
		{1, sec, -1, rate.ErrBurst},
		{1, 366 * day, 1 << 10, rate.ErrSpan},
		{1, day, 1 << 62, rate.ErrSpan},
		{1, 366 * day, 71, nil},
	} {
		if _, err := rate.NewBucket(c.limit, c.window, c.burst); !errors.Is(err, c.want) {
			t.Errorf("NewBucket(%d, %d, %d) = %v, want %v", c.limit, c.window, c.burst, err, c.want)
		}
	}
}

// The dumb twin: a bucket as a level in exact fractions.
type twin struct {
	level *big.Rat // tokens in use
	at    int64
}

func (w *twin) drain(b rate.Bucket, now int64) {
	w.level.Sub(w.level, new(big.Rat).Mul(big.NewRat(now-w.at, 1), big.NewRat(b.Q, b.P)))

	if w.level.Sign() < 0 {
		w.level.SetInt64(0)
	}

	w.at = now
}

func (w *twin) take(b rate.Bucket, now, n int64) bool {
	w.drain(b, now)

	next := new(big.Rat).Add(w.level, big.NewRat(n, 1))
	if next.Cmp(big.NewRat(b.Burst, 1)) > 0 {
		return false
	}

	w.level = next

	return true
}

func genBucket(t *rapid.T) rate.Bucket {
	limit := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 2_000_000)).Draw(t, "limit")
	window := rapid.SampledFrom([]int64{1000, sec, 60 * sec, day, 7 * sec, 999_983}).Draw(t, "window")
	burst := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 10_000)).Draw(t, "burst")

	b, err := rate.NewBucket(limit, window, burst)
	if err != nil {
		t.Fatal(err)
	}

	return b
}

func TestBucketAgainstTwin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := genBucket(t)
		w := &twin{level: new(big.Rat)}

		var (
			tat rate.Time
			now int64
		)

		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 3*b.P/b.Q+2), rapid.Int64Range(0, 10*day)).Draw(t, "dt")
			n := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, b.Burst+1)).Draw(t, "n")

			next, ok := b.Take(now, tat, n)
			if want := w.take(b, now, n); ok != want {
				t.Fatalf("at %d take %d: %v, the twin says %v", now, n, ok, want)
			}

			tat = next

			free := new(big.Rat).Sub(big.NewRat(b.Burst, 1), w.level)
			floor := new(big.Int).Quo(free.Num(), free.Denom()).Int64()

			if got := b.Avail(now, tat); got != floor {
				t.Fatalf("at %d: %d available, the twin says %d", now, got, floor)
			}
			// Waiting as told is enough, and one microsecond less is not.
			if n >= 1 && n <= b.Burst {
				if d := b.Wait(now, tat, n); b.Avail(now+d, tat) < n || d > 0 && b.Avail(now+d-1, tat) >= n {
					t.Fatalf("at %d: a wait of %d µs for %d is not exact", now, d, n)
				}
			}
		}
	})
}

// A change of the rule keeps what was used, to less than one token's thousandth part, and never gives any away.
func TestRebaseKeepsTheLevel(t *testing.T) {
	t.Parallel()

	ten, _ := rate.NewBucket(10, sec, 10)
	twenty, _ := rate.NewBucket(20, sec, 20)
	tat := ten.Add(rate.At(0), 7)

	if got := twenty.Avail(0, twenty.Rebase(0, tat, ten)); got != 13 {
		t.Errorf("10 raised to 20 with 7 used: %d available, want 13", got)
	}

	rapid.Check(t, func(t *rapid.T) {
		old, b := genBucket(t), genBucket(t)
		n := rapid.Int64Range(0, old.Burst).Draw(t, "used")
		age := rapid.Int64Range(0, old.P).Draw(t, "age")
		tat := old.Add(rate.At(0), n)
		got := b.Rebase(age, tat, old)

		used := new(big.Rat)
		if rate.At(age).Less(tat) {
			used.SetFrac(big.NewInt((tat.Micros-age)*old.Q+tat.Frac), big.NewInt(old.P))
		}

		if used.Cmp(big.NewRat(rate.MaxProduct/b.P, 1)) > 0 {
			return // held at what the integers can say
		}

		after := big.NewRat(0, 1)
		if rate.At(age).Less(got) {
			after.SetFrac(big.NewInt((got.Micros-age)*b.Q+got.Frac), big.NewInt(b.P))
		}

		diff := new(big.Rat).Sub(after, used)
		if diff.Sign() < 0 || diff.Cmp(big.NewRat(1, b.P)) > 0 {
			t.Fatalf("level %v became %v", used, after)
		}
	})
}

func TestShareIsNoMoreThanItsPart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := genBucket(t)
		n := rapid.Int64Range(1, 5000).Draw(t, "holders")
		s := b.Share(4, 5, n)

		// rate: Q/P each, n of them, against 4/5 of b's.
		each := new(big.Rat).Mul(big.NewRat(s.Q, s.P), big.NewRat(n, 1))
		if whole := new(big.Rat).Mul(big.NewRat(b.Q, b.P), big.NewRat(4, 5)); each.Cmp(whole) > 0 && s.P < rate.MaxProduct/s.Burst {
			t.Fatalf("%d shares of %v admit %v tokens a µs, more than %v", n, b, each, whole)
		}

		if s.Burst > 1 && s.Burst*n*5 > b.Burst*4 {
			t.Fatalf("%d bursts of %d are more than 0.8 of %d", n, s.Burst, b.Burst)
		}

		if s.Burst < 1 || s.P < 1 || s.Q < 1 {
			t.Fatalf("share %+v is no bucket", s)
		}
	})
}
