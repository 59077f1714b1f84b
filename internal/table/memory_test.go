package table_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
)

// A server that has to do with many callers remembers each of them in few bytes, most of all those that ask
// seldom, of whom there are most. The bounds are what was measured, and a few bytes.
func TestBytesAKey(t *testing.T) { //nolint:paralleltest // it measures the heap, which all tests share
	const keys = 5_000

	for _, c := range []struct {
		name, rule string
		rounds     int   // of a request for each key, 50 ms apart
		then       int64 // µs between the last round and the measure
		leases     int64
		most       int64 // bytes a key
	}{
		{"asked once, at rest", "limit: 100, window: 1h", 1, 50 * ms, 0, 45},
		{"of a window, at rest", "algorithm: fixed_window, limit: 100, window: 1h", 1, 50 * ms, 0, 70},
		{"idle", "limit: 100, window: 1h", 1, 5 * sec, 0, 5},
		{"asked just now", "limit: 100, window: 1h", 1, 10 * ms, 0, 335},
		{"leased", "limit: 100000, window: 1h, lease: {ttl: 60s}", 6, 20 * ms, keys, 335},
		{"leased of a window", "algorithm: fixed_window, limit: 100000, window: 1h, lease: {ttl: 60s}", 6, 20 * ms, keys, 400},
		{"idle after its lease", "limit: 100000, window: 1h, lease: {ttl: 10s}", 6, 30 * sec, 0, 5},
		{"refused just now", "limit: 1, window: 1h", 2, 1 * sec, 0, 400},
		{"refused, and at rest", "limit: 1, window: 1h", 2, 3 * sec, 0, 70},
		{"refused for a day", "algorithm: fixed_window, limit: 1, window: 1d", 2, 3 * sec, 0, 70},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := "rules: [{id: r, keyBy: user, " + c.rule + "}]"
			_, empty := heapOf(t, doc, func(*rig) {})

			s, all := heapOf(t, doc, func(r *rig) {
				for i := range c.rounds {
					if i > 0 {
						r.wait(50 * ms)
					}

					for k := range keys {
						r.take(0, "r", fmt.Sprintf("user-%06d", k), 1)
					}
				}

				r.wait(c.then)
			})

			if s.Leases != c.leases {
				t.Fatalf("%d leases, want %d", s.Leases, c.leases)
			}

			if got := (all - empty) / keys; got > c.most {
				t.Errorf("%d bytes a key, want %d at most", got, c.most)
			} else {
				t.Logf("%d bytes a key", got)
			}
		})
	}
}

// Where the store is in the same process, a bucket that is lent is in the table, and nowhere else: what a key in use takes
// is all that there is of it. Of the numbers of keys one is where a table of keys has just doubled.
func TestBytesALentKey(t *testing.T) { //nolint:paralleltest // it measures the heap, which all tests share
	for _, keys := range []int64{5_000, 6_200, 10_000} {
		now := rigStart
		b := newBank(t, func() int64 { return now }, memory.Config{})
		tb := table.New(b.coord, table.Config{Inline: true, Clock: table.NewVirtualClock(now)})
		b.apply("rules: [{id: r, keyBy: user, limit: 100, window: 1h}]", tb)

		take := func(key string) {
			var out table.Outcome

			tb.Rule("r").Take(t.Context(), key, 1, &out)
		}

		take("first")

		before := heap()

		for k := range keys {
			take(fmt.Sprintf("user-%06d", k))
		}

		got := (heap() - before) / keys

		if lent := b.store.Stats().Keys; lent != keys+1 {
			t.Fatalf("%d keys are lent, want %d", lent, keys+1)
		}

		if got > 100 {
			t.Errorf("%d bytes a key of %d, want 100 at most", got, keys)
		} else {
			t.Logf("%d bytes a key of %d", got, keys)
		}

		runtime.KeepAlive(tb)
	}
}

// heapOf returns what the table of a holder takes after use, without what its coordinator keeps, and its counts.
func heapOf(t *testing.T, doc string, use func(r *rig)) (s table.Stats, bytes int64) {
	t.Helper()

	r := newRig(t, 1, doc)
	r.take(0, "r", "first", 1)
	use(r)

	s = r.holders[0].Stats()
	with := heap()
	r.holders = nil
	without := heap()

	runtime.KeepAlive(r)

	return s, with - without
}

func heap() int64 {
	var m runtime.MemStats

	for range 3 { // what pools let go of needs more than one collection
		runtime.GC()
	}

	runtime.ReadMemStats(&m)

	return int64(m.HeapAlloc)
}
