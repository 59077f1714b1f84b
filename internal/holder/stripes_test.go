package holder_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/rate"
)

// at is the time of a tick, while it lasts.
func at(tick int64) *holder.When {
	return &holder.When{Tick: tick, Coarse: true, Clock: exactly{}}
}

// The ticks of a loan of striped.
const (
	firstTick  = 1_000_000
	secondTick = 1_001_000
)

// striped returns a loan with stripes, of a bucket that gets hardly anything back, in its second tick. In the first n tokens were spent.
func striped(tb testing.TB, burst, n int64) (l *holder.Loan, b *holder.Bucket) {
	tb.Helper()

	bucket, err := rate.NewBucket(1, 1_000_000_000, burst)
	if err != nil {
		tb.Fatal(err)
	}

	b = &holder.Bucket{Bucket: bucket, Stripes: &holder.Stripes{}}
	l = lent(firstTick, b)

	for tick, n := range []int64{n, 0} {
		if _, v := l.Turn(at([]int64{firstTick, secondTick}[tick]), n, b); v != holder.Spent {
			tb.Fatal(v)
		}
	}

	return l, b
}

// request is one for n tokens, from a stripe: what it is told, at once and after a turn, and how many are left then.
type request struct {
	stripe  int
	n       int64
	v, then holder.Verdict
	left    int64
}

func (r *request) check(t *testing.T, l *holder.Loan, b *holder.Bucket) {
	t.Helper()

	tat, v := l.SpendStriped(secondTick, r.n, b, r.stripe)

	then := v
	if v == holder.Turned {
		tat, then = l.Turn(at(secondTick), r.n, b)
	}

	if left := (secondTick*b.Q + b.Burst*b.P - tat) / b.P; v != r.v || then != r.then || left != r.left {
		t.Errorf("%+v: %v, %v, %d left", *r, v, then, left)
	}
}

// In a busy tick tokens are put aside. Who spends of them is told what was left when they were, less what went since
// from the same stripe. Nobody is refused them.
func TestTokensThatArePutAsideAreForAll(t *testing.T) {
	t.Parallel()

	l, b := striped(t, 11_000, 1_000)

	for _, r := range []request{
		{0, 1, holder.Spent, holder.Spent, 9_999}, // of 39
		{0, 1, holder.Spent, holder.Spent, 9_998},
		{1, 1, holder.Spent, holder.Spent, 9_997}, // of 38
		{1, 8, holder.Spent, holder.Spent, 9_989},
		{0, 8, holder.Spent, holder.Spent, 9_990},    // which does not know of those nine
		{1, 30, holder.Spent, holder.Spent, 9_951},   // one more than its stripe had
		{0, 9_000, holder.Turned, holder.Spent, 951}, // it is too much for any
		{1, 1, holder.Spent, holder.Spent, 950},      // of the cell: there is too little to put aside
		{0, 951, holder.Dry, holder.Dry, 950},
		{0, 950, holder.Spent, holder.Spent, 0},
		{1, 1, holder.Dry, holder.Dry, 0},
	} {
		r.check(t, l, b)
	}
}

// A tick is busy to its end, whoever reads the real clock meanwhile, and what was put aside in it is not for the next.
func TestTokensArePutAsideForATick(t *testing.T) {
	t.Parallel()

	l, b := striped(t, 11_000, 1_000)

	if _, v := l.Turn(at(secondTick), 1, b); v != holder.Spent {
		t.Fatal(v)
	}

	for _, r := range []request{
		{0, 1, holder.Spent, holder.Spent, 9_998},
		{1, 1, holder.Spent, holder.Spent, 9_997},
		{0, 1, holder.Spent, holder.Spent, 9_997},
	} {
		r.check(t, l, b)
	}

	if _, v := l.SpendStriped(secondTick+1_000, 1, b, 0); v != holder.Turned {
		t.Errorf("in the next tick: %v", v)
	}
}

// Of a poor bucket, and after a tick that was not busy, nothing is put aside, and everybody is told what is left exactly.
func TestNothingIsPutAsideWithoutNeed(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ burst, before int64 }{{11_000, 511}, {4_095, 600}} {
		l, b := striped(t, c.burst, c.before)
		left := c.burst - c.before

		for i := range int64(20) {
			r := request{int(i % 3), 1, holder.Spent, holder.Spent, left - 1 - i}
			r.check(t, l, b)
		}
	}
}

// A loan that ends, is looked at, counted or credited has nothing put aside any more.
func TestWhatIsPutAsideIsCountedAsNotSpent(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		do   func(l *holder.Loan, b *holder.Bucket)
		gone int64
	}{
		"At":      {func(l *holder.Loan, b *holder.Bucket) { l.At(b) }, 1_002},
		"Count":   {func(l *holder.Loan, b *holder.Bucket) { l.Count(b) }, 1_002},
		"Uncount": {func(l *holder.Loan, b *holder.Bucket) { l.Uncount(1, b) }, 1_002},
		"Credit":  {func(l *holder.Loan, b *holder.Bucket) { l.Credit(secondTick, 2, b, true) }, 1_000},
		"Turn":    {func(l *holder.Loan, b *holder.Bucket) { l.Turn(at(secondTick), 3, b) }, 1_005},
		"End":     {func(*holder.Loan, *holder.Bucket) {}, 1_002},
	} {
		l, b := striped(t, 11_000, 1_000)

		for of := range 2 {
			if _, v := l.SpendStriped(secondTick, 1, b, of); v != holder.Spent {
				t.Fatal(v)
			}
		}

		c.do(l, b)

		end, v := l.End(holder.Ended{At: secondTick, Ticks: holder.Exact{}}, b)
		if gone := (end - firstTick*b.Q) / b.P; v != holder.Closed || gone != c.gone {
			t.Errorf("%s: %d tokens are gone (%v), want %d", name, gone, v, c.gone)
		}

		if _, v := l.SpendStriped(secondTick, 1, b, 0); v != holder.Closed {
			t.Errorf("%s: a loan that is over says %v", name, v)
		}
	}
}

// Many goroutines have all that there is, to the last token, whatever each request takes, and never more.
func TestAStripedLoanGivesItsLastToken(t *testing.T) {
	t.Parallel()

	for _, most := range []int64{1, 30} {
		const burst = 300_000

		var (
			tick  atomic.Int64
			spent atomic.Int64
			wg    sync.WaitGroup
		)

		l, b := striped(t, burst, 1_000)
		tick.Store(secondTick)

		for w := range 4 {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(uint64(w), 3))

				for n := most; ; {
					now := tick.Load()

					_, v := l.SpendStriped(now, n, b, w%3)
					if v == holder.Turned {
						_, v = l.Turn(at(now), n, b)
					}

					switch {
					case v.Passed():
						spent.Add(n)
					case v == holder.Dry && n == 1:
						return
					case v == holder.Turned:
						runtime.Gosched()

						continue
					}

					if random.IntN(5_000) == 0 {
						tick.Add(1_000)
					}

					n = 1 // what a refused one was too much for may be there
					if v.Passed() {
						n += random.Int64N(most)
					}
				}
			})
		}

		wg.Wait()

		if got := 1_000 + spent.Load(); got != burst {
			t.Errorf("%d tokens were spent of %d, %d at a time at most", got, burst, most)
		}
	}
}

// Requests of many goroutines take each token once, while the loan turns, counts and is credited, until it ends.
func TestAStripedLoanSpendsEachTokenOnce(t *testing.T) {
	t.Parallel()

	const burst = 2_000_000

	var (
		tick  atomic.Int64
		spent atomic.Int64
		wg    sync.WaitGroup
	)

	l, b := striped(t, burst, 1_000)
	tick.Store(secondTick)

	for w := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))

			for v := holder.Spent; v != holder.Closed; {
				n, now := 1+random.Int64N(5), tick.Load()

				if _, v = l.SpendStriped(now, n, b, w%3); v == holder.Turned {
					runtime.Gosched()

					_, v = l.Turn(at(now), n, b)
				}

				if v.Passed() {
					spent.Add(n)
				}

				switch random.IntN(400) {
				case 0:
					tick.Add(1_000)
				case 1:
					if l.Credit(now, n, b, true) == holder.Spent {
						spent.Add(-n)
					}
				case 2:
					l.At(b)
				case 3:
					l.Count(b)
				case 4:
					if spent.Load() > burst/2 {
						l.End(holder.Ended{At: now, Ticks: holder.Exact{}}, b)
					}
				}
			}
		})
	}

	wg.Wait()

	end, v := l.End(holder.Ended{}, b)
	if got := (end - firstTick*b.Q) / b.P; v != holder.Closed || got != 1_000+spent.Load() {
		t.Errorf("%v: %d tokens are gone, want 1000 and %d", v, got, spent.Load())
	}
}

// A request for which others were quicker gets what they left, and tells of a loan that is busy.
func TestWhoIsLateTellsOfABusyLoan(t *testing.T) {
	t.Parallel()

	const burst = 10_000

	for spent, late := range map[int64]holder.Verdict{1: holder.Spent, 600: holder.SpentLate} {
		l, b := striped(t, burst, spent)

		tat, v := l.SpendLate(secondTick, 2, b)
		if left := (secondTick*b.Q + burst*b.P - tat) / b.P; v != late || left != burst-spent-2 {
			t.Errorf("after %d: %v, %d left", spent, v, left)
		}

		if _, v = l.SpendLate(secondTick, burst-spent, b); v != holder.Dry {
			t.Errorf("after %d, for more than is left: %v", spent, v)
		}
	}
}
