//go:build unix

package faults

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway"

	"github.com/leaseway/leaseway/internal/proctest"
)

// deadline is how long a request of these tests may wait for a coordinator: the default.
const deadline = 20 * time.Millisecond

// dial returns n holders that lease from the coordinators at urls.
func dial(t *testing.T, n int, urls []string, opts ...leaseway.Option) []*leaseway.Limiter {
	t.Helper()

	holders := make([]*leaseway.Limiter, n)

	for i := range holders {
		l, err := leaseway.Dial(t.Context(), urls, append([]leaseway.Option{leaseway.WithName(fmt.Sprint("holder-", i))}, opts...)...)
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()

			_ = l.Close(ctx) // the coordinator may be gone
		})

		holders[i] = l
	}

	return holders
}

// logTo returns an option that keeps what a holder logs.
func logTo(log *proctest.Transcript) leaseway.Option {
	return leaseway.WithLogger(slog.New(slog.NewTextHandler(log, nil)))
}

// admission is one request that passed, some time between two instants.
type admission struct {
	before, after time.Duration // since the traffic began
	origin        leaseway.Origin
}

// traffic is the requests of many goroutines for one key of one rule, over all
// holders, as fast as about each millisecond, until stop.
type traffic struct {
	began   time.Time
	end     chan struct{}
	work    sync.WaitGroup
	slowest atomic.Int64 // ns
	asked   [6]atomic.Int64
	count   atomic.Int64

	mu       sync.Mutex
	admitted []admission // nil when nobody wants to know
	keep     bool
}

// load says what a traffic is.
type load struct {
	rule, key  string
	goroutines int  // of each holder
	forget     bool // keep no admissions, so that the heap says something
}

func send(t *testing.T, holders []*leaseway.Limiter, l load) *traffic {
	t.Helper()

	tr := &traffic{began: time.Now(), end: make(chan struct{}), keep: !l.forget}
	t.Cleanup(tr.stop)

	for _, holder := range holders {
		rule, err := holder.Rule(l.rule)
		if err != nil {
			t.Fatal(err)
		}

		for range max(1, l.goroutines) {
			tr.work.Go(func() { tr.one(rule, l.key) })
		}
	}

	return tr
}

// one makes requests until the end.
func (tr *traffic) one(rule *leaseway.Rule, key string) {
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()

	for {
		select {
		case <-tr.end:
			return
		case <-pause.C:
		}

		before := time.Since(tr.began)
		decision := rule.Take(key)
		after := time.Since(tr.began)

		tr.count.Add(1)
		tr.asked[decision.Origin].Add(1)
		raise(&tr.slowest, int64(after-before))

		if tr.keep && decision.Allowed {
			tr.mu.Lock()
			tr.admitted = append(tr.admitted, admission{before, after, decision.Origin})
			tr.mu.Unlock()
		}
	}
}

func raise(most *atomic.Int64, to int64) {
	for {
		now := most.Load()
		if to <= now || most.CompareAndSwap(now, to) {
			return
		}
	}
}

func (tr *traffic) stop() {
	tr.mu.Lock()

	select {
	case <-tr.end:
	default:
		close(tr.end)
	}

	tr.mu.Unlock()
	tr.work.Wait()
}

// of returns the admissions of some origins.
func (tr *traffic) of(origins ...leaseway.Origin) (found []admission) {
	tr.mu.Lock()
	defer tr.mu.Unlock()

	for _, a := range tr.admitted {
		if slices.Contains(origins, a.origin) {
			found = append(found, a)
		}
	}

	return found
}

// more waits until n more requests were decided.
func (tr *traffic) more(t *testing.T, n int64) {
	t.Helper()

	to := tr.count.Load() + n
	eventually(t, "more requests are decided", func() bool { return tr.count.Load() >= to })
}

// sees waits until n more requests were decided as origin says.
func (tr *traffic) sees(t *testing.T, origin leaseway.Origin, n int64) {
	t.Helper()

	to := tr.asked[origin].Load() + n
	eventually(t, fmt.Sprintf("decisions come from %v", origin), func() bool { return tr.asked[origin].Load() >= to })
}

// excess returns by how many tokens the worst window of any length surely passes
// burst + perSecond × its length: an admission counts into a window if all of it, from question to answer, lies within.
func excess(all []admission, burst, perSecond float64) float64 {
	const most = 1_000 // windows' beginnings that are looked at

	ends := slices.Clone(all)
	slices.SortFunc(ends, func(a, b admission) int { return int(a.after - b.after) })
	slices.SortFunc(all, func(a, b admission) int { return int(a.before - b.before) })

	worst := -burst

	for i := 0; i < len(all); i += max(1, len(all)/most) {
		from, n := all[i].before, 0

		at, _ := slices.BinarySearchFunc(ends, from, func(a admission, t time.Duration) int { return int(a.after - t) })

		for _, a := range ends[at:] {
			if a.before >= from {
				n++
				worst = max(worst, float64(n)-burst-perSecond*(a.after-from).Seconds())
			}
		}
	}

	return worst
}

// lateness measures by how much this machine lets timers be late, beside the test: that, and not the limiter,
// is what a request may wait beyond its deadline. Twice of it: for the timer, and for the goroutine's turn after it.
type lateness struct{ worst atomic.Int64 }

// watchClock begins to measure.
func watchClock(t *testing.T) *lateness {
	t.Helper()

	l, end := &lateness{}, make(chan struct{})

	var work sync.WaitGroup

	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for {
				began := time.Now()
				timer := time.NewTimer(time.Millisecond)

				select {
				case <-end:
					timer.Stop()

					return
				case <-timer.C:
					raise(&l.worst, int64(time.Since(began)-time.Millisecond))
				}
			}
		})
	}

	t.Cleanup(func() {
		close(end)
		work.Wait()
	})

	return l
}

// allowance is what a request may take beyond its deadline.
func (l *lateness) allowance() time.Duration {
	const least = 5 * time.Millisecond

	return least + 2*time.Duration(l.worst.Load())
}

// punctual fails if a request waited beyond its deadline.
func (tr *traffic) punctual(t *testing.T, clock *lateness) {
	t.Helper()

	slowest, most := time.Duration(tr.slowest.Load()), deadline+clock.allowance()
	t.Logf("the slowest of %d requests took %v, of at most %v", tr.count.Load(), slowest, most)

	if slowest > most {
		t.Errorf("a request took %v: its deadline is %v, and this machine is late by %v", slowest, deadline, clock.allowance())
	}
}
