//go:build unix

package faults

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

var soak = flag.Duration("soak", 0, "how long TestSoak runs, up to three times that on a slow machine; it is skipped at 0")

const (
	soakKeys  = 1_000_000 // that come and go, again and again
	soakEvery = 10 * time.Second
	soakLooks = 20 // for one line: what counts is the least of them, since calls come and go
	soakWork  = 64 // goroutines
	soakVisit = 2  // requests of a key while it is there
	soakPause = 2 * time.Millisecond
)

// Half of the keys have a bucket, and half a window.
const soakRules = `
rules:
  - {id: bucket, scope: /bucket, keyBy: user, limit: 10, window: 1s}
  - {id: window, scope: /window, keyBy: user, algorithm: fixed_window, limit: 5, window: 1s}
`

// A million keys come and go through a real server and the SDK, for minutes: what they leave behind, in either
// process, is nothing. What a process holds when all is warm it may still hold at the end, and no more.
//
//	make soak            # 3 minutes
//	make soak SOAK=1h
func TestSoak(t *testing.T) {
	if *soak <= 0 {
		t.Skip("run make soak")
	}

	c := newCoordinator(t, soakRules)
	// On a busy machine answers may be late, which would make outages of it, and every key's debt is kept through one.
	l := dial(t, 1, []string{c.grpc}, leaseway.WithDeadline(unhurried))[0]
	visitors := newVisitors(t, l)
	client := &http.Client{}

	t.Cleanup(client.CloseIdleConnections)

	began, look := time.Now(), time.NewTicker(min(soakEvery, *soak/12)/soakLooks)
	defer look.Stop()

	var samples, looks []sample

	// On a slow machine it goes on until all keys came, up to three times as long.
	for took := time.Duration(0); took < *soak || visitors.came.Load() < soakKeys && took < 3**soak; took = time.Since(began) {
		<-look.C

		if looks = append(looks, sample{holder: ourselves(), server: scrape(t, client, c.http)}); len(looks) < soakLooks {
			continue
		}

		s := sample{least(looks, sample.ofHolder), least(looks, sample.ofServer)}
		samples, looks = append(samples, s), looks[:0]

		stats := l.Stats()
		fmt.Fprintf(os.Stderr, "%4.0f s: %d keys came, %d are known; holder: %s; server: %s; %d calls, %d failed\n", time.Since(began).Seconds(),
			visitors.came.Load(), stats.Keys, s.holder, s.server, stats.Calls, stats.Failed)
	}

	visitors.stop()

	if n := visitors.came.Load(); n < soakKeys {
		t.Errorf("only %d keys came: give it more time", n)
	}

	flat(t, "holder", samples, sample.ofHolder)
	flat(t, "server", samples, sample.ofServer)
}

// footprint is what one process holds.
type footprint struct {
	heap       float64 // bytes that the last collection left
	goroutines float64
}

func (p footprint) String() string {
	return fmt.Sprintf("%.1f MB, %.0f goroutines", p.heap/1e6, p.goroutines)
}

type sample struct{ holder, server footprint }

func (s sample) ofHolder() footprint { return s.holder }
func (s sample) ofServer() footprint { return s.server }

// flat fails if a process holds more in the last quarter than in the second, when everything is warm.
func flat(t *testing.T, name string, samples []sample, of func(sample) footprint) {
	t.Helper()

	quarter := len(samples) / 4
	if quarter == 0 {
		t.Fatal("too short: give it more time")
	}

	warm, late := least(samples[quarter:2*quarter], of), least(samples[len(samples)-quarter:], of)
	t.Logf("%s: %v when warm, %v in the end", name, warm, late)

	const part, bytes, goroutines = 1.1, 8e6, 20

	if late.heap > warm.heap*part+bytes {
		t.Errorf("%s: the heap grew from %.1f MB to %.1f MB", name, warm.heap/1e6, late.heap/1e6)
	}

	if late.goroutines > warm.goroutines+goroutines {
		t.Errorf("%s: %.0f goroutines became %.0f", name, warm.goroutines, late.goroutines)
	}
}

// least is what a process held at the least: calls and keys come and go by chance, and what piles up does not go.
func least(samples []sample, of func(sample) footprint) footprint {
	m := of(samples[0])

	for _, s := range samples[1:] {
		p := of(s)
		m.heap, m.goroutines = min(m.heap, p.heap), min(m.goroutines, p.goroutines)
	}

	return m
}

// visitors make requests for one key after the other.
type visitors struct {
	came atomic.Int64
	end  chan struct{}
	work sync.WaitGroup
	stop func()
}

func newVisitors(t *testing.T, l *leaseway.Limiter) *visitors {
	t.Helper()

	v := &visitors{end: make(chan struct{})}
	v.stop = sync.OnceFunc(func() {
		close(v.end)
		v.work.Wait()
	})

	t.Cleanup(v.stop)

	for range soakWork {
		v.work.Go(func() {
			pause := time.NewTicker(soakPause)
			defer pause.Stop()

			for {
				select {
				case <-v.end:
					return
				case <-pause.C:
				}

				n := v.came.Add(1) % soakKeys
				req := leaseway.Request{User: fmt.Sprintf("user-%07d", n), Method: http.MethodGet, Path: []string{"/bucket", "/window"}[n%2]}

				for range soakVisit {
					l.Decide(t.Context(), req)
				}
			}
		})
	}

	return v
}

func ourselves() footprint {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)

	return footprint{heap: float64(live[0].Value.Uint64()), goroutines: float64(runtime.NumGoroutine())}
}

// scrape asks a server for its metrics. Its next collection is due at twice what the last one left.
func scrape(t *testing.T, client *http.Client, address string) (p footprint) {
	t.Helper()

	resp, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")

		var n float64

		_, _ = fmt.Sscan(value, &n)

		switch name {
		case "go_memstats_next_gc_bytes":
			p.heap = n / 2
		case "go_goroutines":
			p.goroutines = n
		}
	}

	if p.heap == 0 || p.goroutines == 0 {
		t.Fatal("the server does not say what it holds")
	}

	return p
}
