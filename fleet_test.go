package leaseway_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

// fleet is a coordinator behind gRPC, and holders that dial it.
type fleet struct {
	book    *coordinator.Book
	addr    string
	holders []*leaseway.Limiter
}

func newFleet(tb testing.TB, doc string, n int, opts ...leaseway.Option) *fleet {
	tb.Helper()

	set, err := rule.Parse("rules.yaml", []byte(doc))
	if err != nil {
		tb.Fatal(err)
	}

	f := &fleet{book: coordinator.NewBook(nil)}
	if _, err := f.book.Apply(set); err != nil {
		tb.Fatal(err)
	}

	store, err := memory.New(memory.Config{})
	if err != nil {
		tb.Fatal(err)
	}

	c, err := coordinator.New(coordinator.Config{Store: store, Book: f.book})
	if err != nil {
		tb.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	server := rpc.NewServer(rpc.ServerConfig{Coordinator: c})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}

	var work sync.WaitGroup

	work.Go(func() { _ = c.Run(ctx) })
	work.Go(func() { _ = server.Serve(listener) })
	tb.Cleanup(func() {
		stop()
		server.Stop(ctx)
		work.Wait()
		_ = store.Close(context.Background())
	})

	f.addr = listener.Addr().String()

	for i := range n {
		l, err := leaseway.Dial(tb.Context(), []string{f.addr}, append(opts, leaseway.WithName(fmt.Sprint("holder-", i)))...)
		if err != nil {
			tb.Fatal(err)
		}

		f.holders = append(f.holders, l)

		tb.Cleanup(func() { _ = l.Close(context.Background()) })
	}

	return f
}

// admission is one request that passed, some time between two instants.
type admission struct{ before, after time.Duration }

// hammer has every holder's goroutines take from key, each waiting as it is
// told, for d and then, at most ten times as long, until each holder got
// something. It returns the admissions of each holder, and how long they took.
func (f *fleet) hammer(tb testing.TB, goroutines int, key string, d time.Duration) (all [][]admission, took time.Duration) {
	tb.Helper()

	var (
		work  sync.WaitGroup
		ended atomic.Int64 // nobody begins after that
		start = time.Now()
		each  = make([][][]admission, len(f.holders))
		got   = make([]atomic.Bool, len(f.holders))
	)

	over := func() bool {
		took := time.Since(start)
		starved := slices.ContainsFunc(f.holders, func(l *leaseway.Limiter) bool { return !got[slices.Index(f.holders, l)].Load() })

		if took < d || starved && took < 10*d {
			return false
		}

		ended.CompareAndSwap(0, int64(took))

		return true
	}

	for i, l := range f.holders {
		r, err := l.Rule("r")
		if err != nil {
			tb.Fatal(err)
		}

		each[i] = make([][]admission, goroutines)

		for g := range goroutines {
			work.Go(func() {
				timer := time.NewTimer(0)
				defer timer.Stop()

				for !over() {
					before := time.Since(start)
					decision := r.Take(key)

					if decision.Allowed {
						got[i].Store(true)

						each[i][g] = append(each[i][g], admission{before, time.Since(start)})

						if decision.Origin.Degraded() {
							tb.Errorf("a decision came from %v", decision.Origin)
						}

						continue
					}

					timer.Reset(min(decision.RetryAfter, d))
					<-timer.C
				}
			})
		}
	}

	work.Wait()

	all = make([][]admission, len(each))
	for i := range each {
		all[i] = slices.Concat(each[i]...)
	}

	return all, time.Duration(ended.Load())
}

// excess returns by how many tokens the worst window of any length passes burst + rate × time.
func excess(all []admission, burst, perSecond float64) float64 {
	// An admission counts into a window if it surely happened within it. Each
	// window that matters begins at some admission's earliest instant.
	slices.SortFunc(all, func(a, b admission) int { return int(a.after - b.after) })

	worst := -burst

	for _, length := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, time.Hour} {
		ends := slices.Clone(all)
		begins := slices.Clone(all)
		slices.SortFunc(begins, func(a, b admission) int { return int(a.before - b.before) })

		for i := 0; i < len(begins); i += max(1, len(begins)/2000) {
			from := begins[i].before
			n, last := 0, from

			for _, a := range ends[searchAfter(ends, from):] {
				if a.after > from+length {
					break
				}

				if a.before >= from {
					n++
					last = a.after
				}
			}

			worst = max(worst, float64(n)-burst-perSecond*(last-from).Seconds())
		}
	}

	return worst
}

func searchAfter(all []admission, from time.Duration) int {
	i, _ := slices.BinarySearchFunc(all, from, func(a admission, t time.Duration) int { return int(a.after - t) })

	return i
}

// The TTL of these leases is long so that a machine that stalls under the race
// detector loses none; it does not enter the bound.

// Twenty servers with a hundred goroutines each, one key, over real gRPC.
func TestTwentyHoldersShareOneKeyExactly(t *testing.T) {
	const (
		rate, burst = 10_000, 10_000
		d           = 3 * time.Second
	)

	f := newFleet(t, fmt.Sprintf("rules: [{id: r, keyBy: user, limit: %d, window: 1s, burst: %d, lease: {ttl: 30s}}]", rate, burst), 20, leaseway.WithDeadline(30*time.Second))
	each, took := f.hammer(t, 100, "k", d)
	all := slices.Concat(each...)

	if over := excess(all, burst, rate); over > 0 {
		t.Errorf("a window admitted %.1f above burst + rate × time", over)
	}

	bound := burst + rate*took.Seconds()
	t.Logf("%d admitted of at most %.0f (%.1f %%)", len(all), bound, 100*float64(len(all))/bound)

	for i, l := range f.holders {
		s := l.Stats()
		if len(each[i]) == 0 {
			t.Errorf("holder %d was starved", i)
		}

		if s.Failed > 0 || s.Panics > 0 {
			t.Errorf("holder %d: %+v", i, s)
		}
	}
}

// A limit that is small for the number of servers is neither multiplied nor divided away.
func TestTenASecondOverTwentyHolders(t *testing.T) {
	const (
		rate, burst = 10, 10
		d           = 5 * time.Second
		rest        = 0.25 // s: a holder that was refused asks again when a quarter of the burst may have come, and no later
	)

	f := newFleet(t, fmt.Sprintf("rules: [{id: r, keyBy: user, limit: %d, window: 1s, burst: %d, lease: {ttl: 30s}}]", rate, burst), 20, leaseway.WithDeadline(30*time.Second))
	each, took := f.hammer(t, 100, "k", d)
	all := slices.Concat(each...)

	if over := excess(all, burst, rate); over > 0 {
		t.Errorf("a window admitted %.1f above burst + rate × time", over)
	}

	if there := burst + rate*(took.Seconds()-rest); float64(len(all)) < 0.95*there {
		t.Errorf("%d admitted of %.0f", len(all), there)
	}

	for i := range each {
		if len(each[i]) == 0 {
			t.Errorf("holder %d was starved", i)
		}
	}

	counts := make([]int, 0, len(each))
	for _, one := range each {
		counts = append(counts, len(one))
	}

	t.Logf("%d admitted: %v", len(all), counts)
}
