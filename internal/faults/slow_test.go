//go:build unix

package faults

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

func contextFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// A coordinator that is slow, in whatever way, costs a request its deadline at most, and most requests nothing; and
// however long that lasts, nothing piles up.
func TestCoordinatorSlow(t *testing.T) {
	for _, fault := range []struct {
		name string
		do   func(c *program, way *link)
		undo func(t *testing.T, c *program, way *link)
	}{
		{"latency", poisoned("latency", `{"latency": 700, "jitter": 100}`), cured},
		{"bandwidth", poisoned("bandwidth", `{"rate": 0}`), cured},
		{"timeout", poisoned("timeout", `{"timeout": 0}`), cured},
		{"reset_peer", poisoned("reset_peer", `{"timeout": 0}`), cured},
		{
			"slow_close",
			func(c *program, way *link) {
				way.poison("slow_close", `{"delay": 30000}`)
				c.Kill()
			},
			restarted,
		},
		{
			"stopped",
			func(c *program, _ *link) { c.Signal(syscall.SIGSTOP) },
			func(_ *testing.T, c *program, _ *link) { c.Signal(syscall.SIGCONT) },
		},
	} {
		t.Run(fault.name, func(t *testing.T) {
			c := newCoordinator(t, outageRules)
			way := newLink(t, c.grpc)
			fleet := dial(t, 2, []string{way.Listen})
			clock := watchClock(t)
			leased := send(t, fleet, load{rule: "local", key: "k", goroutines: 2})
			open := send(t, fleet, load{rule: "open", key: "k", goroutines: 4, forget: true})

			leased.more(t, 300)
			fault.do(c, way)
			eventually(t, "all have noticed", func() bool { return degraded(fleet) })
			open.sees(t, leaseway.OriginOpen, 2_000)

			// What a call holds while it is under way comes and goes; what piles up would do so with every request.
			goroutines, heap := runtime.NumGoroutine(), heapInUse()

			open.sees(t, leaseway.OriginOpen, 4_000)

			if now := runtime.NumGoroutine(); now > goroutines+50 {
				t.Errorf("%d goroutines became %d in 4,000 requests", goroutines, now)
			}

			if now := heapInUse(); now > heap+1<<20 {
				t.Errorf("the heap of %d bytes became %d in 4,000 requests", heap, now)
			}

			fault.undo(t, c, way)
			eventually(t, "all are well again", func() bool { return well(fleet) })
			leased.sees(t, leaseway.OriginStore, 1)
			leased.stop()
			open.stop()
			leased.punctual(t, clock)
			open.punctual(t, clock)

			if over := excess(leased.of(leaseway.OriginLease, leaseway.OriginStore), 300, 600); over > 0 {
				t.Errorf("a window admitted %.1f above burst + rate × time", over)
			}

			if over := excess(leased.of(leaseway.OriginLocal), 0.8*300, 0.8*600); over > 0 {
				t.Errorf("without a coordinator a window admitted %.1f above the holders' shares", over)
			}
		})
	}
}

func poisoned(kind, attributes string) func(*program, *link) {
	return func(_ *program, way *link) { way.poison(kind, attributes) }
}

func cured(_ *testing.T, _ *program, way *link) { way.cure() }

func restarted(t *testing.T, c *program, way *link) {
	t.Helper()
	c.run(t)
	way.cure()
}

// heapInUse returns what is reachable, in bytes.
func heapInUse() uint64 {
	var stats runtime.MemStats

	runtime.GC()
	runtime.ReadMemStats(&stats)

	return stats.HeapAlloc
}
