package holder_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/rate"
)

// anyBucket draws a bucket: of tokens that take long or short, whole microseconds or not, few or many, and maybe with stripes.
func anyBucket(t *rapid.T) holder.Bucket {
	limit := rapid.SampledFrom([]int64{1, 3, 7, 10, 1_000, 999_983, 50_000_000}).Draw(t, "limit")
	window := rapid.SampledFrom([]int64{1_000, 1_000_000, 60_000_000}).Draw(t, "window")

	burst := rapid.Int64Range(1, 12).Draw(t, "burst")

	var stripes *holder.Stripes

	if rapid.Bool().Draw(t, "striped") {
		burst, stripes = burst*2_000, &holder.Stripes{}
	}

	b, err := rate.NewBucket(limit, window, burst)
	if err != nil {
		t.Fatal(err)
	}

	return holder.Bucket{Bucket: b, Stripes: stripes}
}

// cost draws how many tokens of b a request takes, few more often than many.
func cost(t *rapid.T, b *holder.Bucket) int64 {
	if rapid.Bool().Draw(t, "few") {
		return rapid.Int64Range(1, min(b.Burst, 3)).Draw(t, "n")
	}

	return rapid.Int64Range(1, b.Burst).Draw(t, "n")
}

// plain returns a bucket without stripes.
func plain(b rate.Bucket, _ error) holder.Bucket { return holder.Bucket{Bucket: b} }

// spender returns Spend, from any of the stripes if b has some.
func spender(t *rapid.T, b *holder.Bucket) func(l *holder.Loan, tick, n int64) (tat int64, v holder.Verdict) {
	return func(l *holder.Loan, tick, n int64) (tat int64, v holder.Verdict) {
		if b.Stripes == nil {
			return l.Spend(tick, n, b)
		}

		return l.SpendStriped(tick, n, b, rapid.IntRange(0, 1).Draw(t, "stripe"))
	}
}

// span draws a time that is about what some tokens of b take, µs.
func span(t *rapid.T, b *holder.Bucket) int64 {
	const hour = 3_600_000_000 // a loan that idles as long has ended

	return rapid.Int64Range(0, min(hour, 2*(b.P*b.Burst/b.Q+1))).Draw(t, "span") / rapid.Int64Range(1, 20).Draw(t, "part")
}

// lent returns a loan of b that is full at now.
func lent(now int64, b *holder.Bucket) *holder.Loan {
	l := &holder.Loan{}
	l.Begin(rate.At(now), b)

	return l
}

// A loan is the bucket: with a clock that is read each time every answer is the bucket's own.
func TestALoanIsTheBucket(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		b := anyBucket(t)
		now, spent, lately := int64(1_000_000), int64(0), int64(0)
		tat := rate.At(now)
		l, spend := lent(now, &b), spender(t, &b)

		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				now += span(t, &b)
				lately = 0
			case 1: // it ends, and is lent anew
				counted, _ := l.Count(&b)
				spent -= counted

				at, v := l.End(holder.Ended{At: now, Ticks: holder.Exact{}}, &b)
				end := holder.Full(at, &b)

				if want := tat; v != holder.Closed || rate.At(now).Less(want) && end != want {
					t.Fatalf("it ends full at %v (%v), want %v", end, v, want)
				}

				if again, _ := l.End(holder.Ended{At: now, Ticks: holder.Exact{}}, &b); again != at {
					t.Fatalf("it ends twice, at %d and %d", at, again)
				}

				l = &holder.Loan{}
				l.Begin(end.Max(rate.At(now)), &b)
			case 2:
				n := rapid.Int64Range(1, b.Burst).Draw(t, "back")
				l.Credit(now, n, &b, true)
				tat = b.Add(tat, -n).Max(rate.At(min(now, tat.Micros))) // full at most
			default:
				n := cost(t, &b)
				if rapid.IntRange(0, 9).Draw(t, "too many") == 0 {
					n = b.Burst + 1
				}

				want, ok := b.Take(now, tat, n)
				tat = want

				cell, v := spend(l, now, n)
				if v == holder.Turned {
					cell, v = l.Turn(at(now), n, &b)
				}

				if v.Passed() != ok {
					t.Fatalf("at %d, %d tokens of %+v: %v, want %v", now, n, b, v, ok)
				}

				missed := int64(0) // of what others took in this tick

				if ok {
					spent += n
					lately += n
				}

				if ok && b.Stripes != nil {
					missed = lately - n
				}

				level := max(0, cell-now*b.Q)
				told, left := (b.Burst*b.P-level)/b.P, max(0, b.Avail(now, tat))

				if told < left || told > left+missed {
					t.Fatalf("at %d: %d left, want %d, and at most %d more", now, told, left, missed)
				}
			}
		}

		if got, _ := l.Count(&b); got != spent {
			t.Fatalf("counted %d tokens, want %d", got, spent)
		}
	})
}

// exactly is a clock that stands still, whose ticks end when they begin.
type exactly struct {
	holder.Exact

	now int64
}

// Now is the time.
func (e exactly) Now() int64 { return e.now }

// coarseClock ticks now and then; it knows when its ticks were over.
type coarseClock struct {
	now, tick int64
	ends      map[int64]int64
}

// Now is the time.
func (c *coarseClock) Now() int64 { return c.now }

// After is when tick was over; one that is not is over now.
func (c *coarseClock) After(tick int64) int64 {
	if end, over := c.ends[tick]; over {
		return end
	}

	return c.now
}

// By a coarse clock a loan never admits more than a bucket that knows the time
// of every request: checked by one that admits everything and tells how deep it was.
func TestALoanAdmitsNoMoreByACoarseClock(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		b := anyBucket(t)
		c := &coarseClock{now: 1_000_000, tick: 1_000_000, ends: map[int64]int64{}}
		l, spend := lent(c.now, &b), spender(t, &b)
		deep := rate.At(c.now) // when the bucket of all that was admitted is full again

		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				c.now += span(t, &b)
			case 1: // the clock ticks, late or not
				if c.now > c.tick {
					c.ends[c.tick], c.tick = c.now, c.now
				}
			case 2:
				n := rapid.Int64Range(1, b.Burst).Draw(t, "back")
				l.Credit(c.now, n, &b, true)
				deep = b.Add(deep, -n)
			case 3: // it ends, and is lent anew
				at, _ := l.End(holder.Ended{At: c.now, Ticks: c}, &b)
				l = &holder.Loan{}
				l.Begin(holder.Full(at, &b).Max(rate.At(c.now)), &b)
			default:
				n := cost(t, &b)
				when := holder.When{Tick: c.tick, Coarse: true, Clock: c}

				_, v := spend(l, c.tick, n)
				if v == holder.Turned {
					_, v = l.Turn(&when, n, &b)
				}

				if v == holder.Dry { // then by the real clock
					when = holder.When{Tick: c.tick, Clock: c}
					_, v = l.Turn(&when, n, &b)
				}

				if !v.Passed() {
					continue
				}

				deep = b.Add(deep.Max(rate.At(c.now)), n)
				if full := b.Add(rate.At(c.now), b.Burst); full.Less(deep) {
					t.Fatalf("at %d more than the bucket was admitted: full at %v, at most at %v", c.now, deep, full)
				}
			}
		}
	})
}

// What was spent in a tick may have been spent at its very end: none of it comes back earlier, whether the loan is turned then or ends.
func TestWhatATickSpentIsDatedAtItsEnd(t *testing.T) {
	t.Parallel()

	const first, next, token, burst = 1_000_000, 1_002_000, 1_000, 10 // µs: in a tick two tokens come back

	spent := func(b *holder.Bucket) (*holder.Loan, *coarseClock) {
		c := &coarseClock{now: next, tick: next, ends: map[int64]int64{first: next}}
		l := lent(first, b)
		l.Turn(&holder.When{Tick: first, Coarse: true, Clock: c}, 0, b)

		if _, v := l.Spend(first, burst, b); v != holder.Spent {
			t.Fatal(v)
		}

		return l, c
	}

	b := plain(rate.NewBucket(1_000, 1_000_000, burst))
	l, c := spent(&b)

	if _, v := l.Turn(&holder.When{Tick: next, Coarse: true, Clock: c}, 1, &b); v != holder.Dry {
		t.Errorf("when the tick is over a token is to be had: %v", v)
	}

	l, c = spent(&b)
	if at, v := l.End(holder.Ended{At: next, Ticks: c}, &b); v != holder.Closed || at != next+burst*token {
		t.Errorf("it ends full at %d (%v), want %d", at, v, next+burst*token)
	}
}

// A full bucket gives all that it holds at once, however late its clock is.
func TestALoanGivesAllThatItHoldsAtOnce(t *testing.T) {
	t.Parallel()

	b := plain(rate.NewBucket(100, 60_000_000, 100))
	c := &coarseClock{now: 1_000_900, tick: 1_000_000, ends: map[int64]int64{}}
	l := lent(c.now, &b)

	for i := range 100 {
		_, v := l.Spend(c.tick, 1, &b)
		if v != holder.Spent {
			_, v = l.Turn(&holder.When{Tick: c.tick, Clock: c}, 1, &b)
		}

		if v != holder.Spent {
			t.Fatalf("request %d: %v", i, v)
		}
	}

	if _, v := l.Turn(&holder.When{Tick: c.tick, Clock: c}, 1, &b); v != holder.Dry {
		t.Errorf("one more than it holds: %v", v)
	}
}

// A request that read an older tick than another turned the loan for must not date what it spends back.
func TestAStaleTickTurnsNoLoan(t *testing.T) {
	t.Parallel()

	b := plain(rate.NewBucket(10, 1_000_000, 10))
	l := lent(5_000_000, &b)
	turn := func(tick, at int64) holder.Verdict {
		_, v := l.Turn(&holder.When{Tick: tick, Coarse: tick == at, Clock: exactly{now: at}}, 1, &b)

		return v
	}

	if v := turn(5_001_000, 5_001_000); v != holder.Spent {
		t.Fatal(v)
	}

	if v := turn(5_000_000, 5_000_000); v != holder.Turned {
		t.Errorf("by a tick that is over: %v", v)
	}

	if v := turn(5_001_000, 5_001_400); v != holder.Spent {
		t.Errorf("by the real clock: %v", v)
	}
}

// A loan that is over says so to everyone, and counts what was spent of it.
func TestALoanThatIsOverSaysSo(t *testing.T) {
	t.Parallel()

	b := plain(rate.NewBucket(10, 1_000_000, 10))
	when := holder.When{Tick: 7_000, Coarse: true, Clock: exactly{}}
	l := lent(6_000, &b)

	if _, v := l.Turn(&when, 3, &b); v != holder.Spent {
		t.Fatal(v)
	}

	l.Uncount(1, &b)
	l.Credit(7_000, 1, &b, false)
	l.End(holder.Ended{At: 7_000, Ticks: holder.Exact{}}, &b)

	_, spend := l.Spend(7_000, 1, &b)
	_, turn := l.Turn(&when, 1, &b)
	_, at := l.At(&b)

	for what, v := range map[string]holder.Verdict{"Spend": spend, "Turn": turn, "Credit": l.Credit(7_000, 1, &b, true), "At": at} {
		if v != holder.Closed {
			t.Errorf("%s: %v", what, v)
		}
	}

	if n, _ := l.Count(&b); n != 1 { // 3, of which one does not count and one was given back
		t.Errorf("counted %d, want 1", n)
	}

	if n, _ := l.Count(&b); n != 0 {
		t.Errorf("counted %d once more", n)
	}
}

// A request that is held up between its look at the clock and its spending takes tokens by a tick that is over. Once it has said
// so they count from then on, whether others turned the loan meanwhile or not; and they count once.
func TestWhatAHeldUpRequestTookIsRedated(t *testing.T) {
	t.Parallel()

	const (
		before, tick, now = 1_000_000, 1_001_000, 3_000_000 // by which all has come back
		burst, spent, n   = 10_000, 1_000, 20
	)

	for _, c := range []struct {
		stripes *holder.Stripes
		others  int64 // turn the loan meanwhile, and take as many; below 0: they do not turn it
	}{
		{nil, -1}, {nil, 0}, {nil, n - 1}, {nil, 900},
		{&holder.Stripes{}, -1}, {&holder.Stripes{}, 0}, {&holder.Stripes{}, n - 1}, {&holder.Stripes{}, 900},
	} {
		b := plain(rate.NewBucket(burst, 1_000_000, burst))
		b.Stripes = c.stripes
		l := lent(before, &b)
		late := &coarseClock{now: now, tick: now, ends: map[int64]int64{before: tick, tick: tick + 1_000}}
		when := func(tick int64) *holder.When { return &holder.When{Tick: tick, Coarse: true, Clock: late} }

		l.Turn(when(before), spent, &b)
		l.Turn(when(tick), 0, &b)

		spend := l.Spend
		if b.Stripes != nil {
			spend = func(tick, n int64, b *holder.Bucket) (int64, holder.Verdict) { return l.SpendStriped(tick, n, b, 3) }
		}

		tat, v := spend(tick, n, &b)
		if v != holder.Spent {
			t.Fatalf("%+v: %v", c, v)
		}

		left := int64(burst - n)

		if c.others >= 0 {
			l.Turn(when(now), c.others, &b)

			left -= c.others
		}

		if v := l.Redate(now, n, tat, &b); v != holder.Spent {
			t.Fatalf("%+v: %v", c, v)
		}

		if _, v := l.Turn(when(now), left+1, &b); v != holder.Dry {
			t.Errorf("%+v: of %d tokens that are left one more is taken: %v", c, left, v)
		}

		if _, v := l.Turn(when(now), left, &b); v != holder.Spent {
			t.Errorf("%+v: the %d tokens that are left are not to be had: %v", c, left, v)
		}

		if got, _ := l.Count(&b); got != spent+burst {
			t.Errorf("%+v: %d are counted, want %d", c, got, spent+burst)
		}
	}
}
