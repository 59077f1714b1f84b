package table_test

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
)

// However a clock goes on between the looks that one request takes at it, what a
// lent bucket says is left is what one counter would say, and the wait no longer than its.
func TestALentKeySaysAllThatIsLeftByAnyClock(t *testing.T) {
	t.Parallel()

	const token = 1_200_000 * ms // of 3 an hour

	for look := range int64(5) { // µs from one look at the clock to the next
		for between := range int64(4) { // ms from one request to the next
			for ticks := range 2 { // does the coarse clock keep up?
				t.Run(strconv.FormatInt(look, 10)+" µs, "+strconv.FormatInt(between, 10)+" ms, ticks "+strconv.Itoa(ticks), func(t *testing.T) {
					t.Parallel()

					now := rigStart
					clock := func() int64 {
						now += look

						return now
					}
					b := newBank(t, clock, memory.Config{})
					driven := table.NewDrivenClock(clock)
					tb := table.New(b.coord, table.Config{Inline: true, Clock: driven})
					b.apply("rules: [{id: r, limit: 3, window: 1h}]", tb)

					for i := range 100 { // of which the clock is at any point of its tick
						key := strconv.Itoa(i)

						for _, want := range []table.Kind{table.Allowed, table.OverLimit} {
							var out table.Outcome

							now += between * ms

							if ticks == 1 {
								driven.Tick()
							}

							tb.Rule("r").Take(t.Context(), key, 2, &out)

							if out.Kind != want || out.Remaining != 1 || out.RetryAfter > token {
								t.Fatalf("key %d: %+v, want %v with 1 left", i, out, want)
							}
						}
					}
				})
			}
		}
	}
}

// What is left is given to requests that come at once, all of it, whoever looked at the clock first: one that
// did so early comes after what others took meanwhile.
func TestRequestsThatComeAtOnceGetAllThatIsLeft(t *testing.T) {
	t.Parallel()

	for what, take := range map[string]func(r *table.Rule, key string, out *table.Outcome){
		"lent":  func(r *table.Rule, key string, out *table.Outcome) { r.Take(t.Context(), key, 1, out) },
		"alone": func(r *table.Rule, key string, out *table.Outcome) { r.TakeWithout(key, 1, out) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()

			var now atomic.Int64

			now.Store(rigStart)

			clock := func() int64 {
				at := now.Add(1)
				for range at % 7 {
					runtime.Gosched() // others may be quicker with a later look
				}

				return at
			}
			b := newBank(t, now.Load, memory.Config{})
			tb := table.New(b.coord, table.Config{Inline: true, Clock: table.NewDrivenClock(clock)})
			b.apply("rules: [{id: r, keyBy: user, limit: 8, window: 1h, fallback: {limit: 8, window: 1h}}]", tb)

			for i := range 1_000 {
				if n := refusedAtOnce(8, func(out *table.Outcome) { take(tb.Rule("r"), strconv.Itoa(i), out) }); n != 0 {
					t.Fatalf("key %d: %d of 8 requests were refused, and as many tokens left", i, n)
				}
			}
		})
	}
}

// refusedAtOnce makes so many requests at once, and returns how many of them were refused.
func refusedAtOnce(crowd int, take func(out *table.Outcome)) int64 {
	var (
		group   sync.WaitGroup
		start   = make(chan struct{})
		refused atomic.Int64
	)

	for range crowd {
		group.Go(func() {
			<-start

			var out table.Outcome

			take(&out)

			if out.Kind != table.Allowed {
				refused.Add(1)
			}
		})
	}

	close(start)
	group.Wait()

	return refused.Load()
}
