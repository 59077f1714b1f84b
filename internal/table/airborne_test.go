package table_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/table"
)

// logged is a source whose calls take as long as is said, and that notes how many keys each had.
type logged struct {
	table.Source

	mu    sync.Mutex
	takes time.Duration
	keys  []int
}

func (l *logged) Acquire(ctx context.Context, b *ledger.Batch) (*ledger.Answers, error) {
	l.mu.Lock()
	takes := l.takes
	l.keys = append(l.keys, len(b.Asks))
	l.mu.Unlock()

	select {
	case <-time.After(takes):
		return l.Source.Acquire(ctx, b)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// become has the calls from now on take d, and returns the keys of those before.
func (l *logged) become(d time.Duration) (keys []int) {
	l.mu.Lock()
	defer l.mu.Unlock()

	keys, l.takes, l.keys = l.keys, d, nil

	return keys
}

// flying runs a test of requests for keys that nobody leases, over a source that is not near.
func flying(t *testing.T, test func(l *logged, take func(key string) (took time.Duration, origin table.Origin))) {
	t.Helper()

	r := newRig(t, 1, "rules: [{id: r, keyBy: user, limit: 100, window: 1h}]")

	synctest.Test(t, func(t *testing.T) {
		l := &logged{Source: r.coord}
		tb := table.New(l, table.Config{})
		ctx, stop := context.WithCancel(t.Context())

		var work sync.WaitGroup

		work.Go(func() { tb.Run(ctx) })

		if err := tb.SetRules(r.book.Current()); err != nil {
			t.Fatal(err)
		}

		test(l, func(key string) (time.Duration, table.Origin) {
			var out table.Outcome

			began := time.Now()
			tb.Rule("r").Take(ctx, key, 1, &out)

			return time.Since(began), out.Origin
		})

		stop()
		work.Wait()
	})
}

// After a call of many keys the next one waits for company, for a twentieth of a request's deadline here; after one of few it does not.
func TestACallAfterABusyOneGathers(t *testing.T) {
	t.Parallel()

	flying(t, func(l *logged, take func(string) (time.Duration, table.Origin)) {
		const trip, pause = 4 * time.Millisecond, time.Millisecond

		l.become(trip)

		for i := range 30 { // how long a call takes is known then
			take(fmt.Sprint("alone-", i))
		}

		l.become(trip)

		var all sync.WaitGroup

		for i := range 6 { // one leaves alone, the others when it has landed, and land after two trips
			all.Go(func() {
				<-time.After(time.Duration(i) * 100 * time.Microsecond)
				take(fmt.Sprint("crowd-", i))
			})
		}

		for i := range 2 {
			all.Go(func() {
				late := time.Duration(i+1) * 200 * time.Microsecond
				<-time.After(2*trip + late)

				if took, _ := take(fmt.Sprint("late-", i)); took != pause-late+trip {
					t.Errorf("late request %d took %v, want what is left of a pause of %v, and a trip", i, took, pause)
				}
			})
		}

		all.Wait()

		if took, _ := take("alone"); took != trip {
			t.Errorf("a request alone took %v, want %v", took, trip)
		}

		if keys := l.become(trip); !slices.Equal(keys, []int{1, 5, 2, 1}) {
			t.Errorf("calls had %v keys", keys)
		}
	})
}

// What comes while a call is under way leaves in one call when it has landed; a call that is alone leaves at once.
func TestWhatComesMeanwhileLeavesTogether(t *testing.T) {
	t.Parallel()

	flying(t, func(l *logged, take func(string) (time.Duration, table.Origin)) {
		const trip = 4 * time.Millisecond

		l.become(trip)

		for i := range 30 { // how long a call takes is known then
			if took, _ := take(fmt.Sprint("alone-", i)); took != trip {
				t.Fatalf("a request alone took %v, want %v", took, trip)
			}
		}

		l.become(trip)

		var all sync.WaitGroup

		for i := range 40 {
			all.Go(func() {
				<-time.After(time.Duration(i) * 100 * time.Microsecond) // all within the first one's call

				if took, origin := take(fmt.Sprint("crowd-", i)); took > 2*trip || origin != table.FromStore {
					t.Errorf("request %d took %v, answered from %v: want two trips at most, from the store", i, took, origin)
				}
			})
		}

		all.Wait()

		if keys := l.become(0); len(keys) != 2 || keys[0] != 1 || keys[1] != 39 {
			t.Errorf("calls had %v keys, want 1 and 39", keys)
		}
	})
}

// A call that takes much longer than its like keeps others waiting for a moment only, and never too
// long for an answer in time, whatever calls took before.
func TestASlowCallKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()

	for _, usual := range []time.Duration{200 * time.Microsecond, 15 * time.Millisecond} {
		flying(t, func(l *logged, take func(string) (time.Duration, table.Origin)) {
			l.become(usual)

			for i := range 100 {
				take(fmt.Sprint("before-", i))
			}

			l.become(90 * time.Millisecond) // the deadline is 20 ms

			var slow sync.WaitGroup

			slow.Go(func() {
				if _, origin := take("slow"); origin != table.FromLocal {
					t.Errorf("the slow one was answered from %v", origin)
				}
			})

			synctest.Wait()
			l.become(usual)

			const rounded = 10 * time.Microsecond // of the average

			most := rounded + max(time.Millisecond, min(2*usual, 5*time.Millisecond, (20*time.Millisecond-usual)/2)) + usual
			if took, origin := take("quick"); took > most || origin != table.FromStore {
				t.Errorf("a request beside a slow call took %v from %v, want %v at most, from the store", took, origin, most)
			}

			slow.Wait()
		})
	}
}
