package rulestoretest

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// peak watches the heap, until the function that it returns says by how many bytes it grew at most.
func peak(tb testing.TB) func() int64 {
	tb.Helper()
	runtime.GC()
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var (
		watching sync.WaitGroup
		first    = heap()
		most     = first
		done     = make(chan struct{})
	)
	watching.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			most = max(most, heap())
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	})
	return func() int64 {
		close(done)
		watching.Wait()
		return most - first
	}
}
