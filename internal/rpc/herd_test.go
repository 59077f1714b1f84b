// Ten thousand clients under the race detector are another matter.

//go:build unix && !race

package rpc

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/connectivity"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

const (
	herdConnections = 200
	herdHolders     = 10_000
	herdWithin      = 10 * time.Second
)

// newHerd returns clients of one server, many to a connection.
func newHerd(t *testing.T, server *running) []*Client {
	t.Helper()

	trust, err := newTrust([]ed25519.PublicKey{publicKey(1)}, false)
	if err != nil {
		t.Fatal(err)
	}

	where, err := parseAddress("grpc://"+server.address, false)
	if err != nil {
		t.Fatal(err)
	}

	herd := make([]*Client, herdHolders)
	conns := make([]*replica, herdConnections)

	for i := range conns {
		if conns[i], err = dial(where, &Config{}, &crowd{}); err != nil {
			t.Fatal(err)
		}
	}

	for i := range herd {
		c := newClient(Config{Holder: uint64(i + 1), Name: "herd", Logger: slog.New(slog.DiscardHandler)}, trust)
		conn := conns[i%len(conns)].conn
		r := &replica{address: where, crowd: &c.crowd, conn: conn, stub: leasewayv1.NewCoordinatorServiceClient(conn)}
		c.replicas = []*replica{r}
		c.background.Go(func() { r.follow(c.closing, c.now) })
		herd[i] = c
	}

	t.Cleanup(func() {
		for _, c := range herd {
			c.close()
			c.background.Wait()
		}

		for _, r := range conns {
			_ = r.conn.Close()
		}
	})

	return herd
}

// comeIn asks for a lease until it has one, as a holder does: with the time of a call, and a short pause after one that failed.
func (c *Client) comeIn(ctx context.Context, seq *atomic.Uint64) error {
	for {
		for c.Unavailable() && ctx.Err() == nil { // as Acquire would say at once; ten thousand who ask often are a load of their own
			wait(ctx, 250*time.Millisecond+rand.N(500*time.Millisecond))
		}

		n := seq.Add(1)
		ask := ledger.Ask{Holder: c.config.Holder, Seq: n, RaiseTo: 1, Keep: true}
		batch := &ledger.Batch{Holder: c.config.Holder, Name: "herd", Seq: n, Asks: []ledger.KeyAsk{
			{Rule: "all", Key: "one for all", Ask: ask},
			{Rule: "all", Key: strconv.FormatUint(c.config.Holder, 10), Ask: ask},
		}}

		call, cancel := context.WithTimeout(ctx, 400*time.Millisecond)
		answers, err := c.Acquire(call, batch)

		cancel()

		if err == nil && answers.Keys[0].Code == ledger.KeyOK {
			return nil
		}

		if ctx.Err() != nil {
			return fmt.Errorf("holder %d: %w", c.config.Holder, err)
		}

		wait(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond))
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// settle gives every holder its first answer, a few at a time.
func settle(ctx context.Context, t *testing.T, herd []*Client, seq *atomic.Uint64) {
	t.Helper()

	const few = 50

	var work sync.WaitGroup

	for i := range few {
		work.Go(func() {
			for j := i; j < len(herd); j += few {
				if err := herd[j].comeIn(ctx, seq); err != nil {
					t.Error(err)
				}
			}
		})
	}

	work.Wait()
}

// When a coordinator comes back, a fleet that all waits for it is served: every
// holder watches the rules, and asks for a lease of a key of its own and of one that all share.
func TestAHerdIsServed(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds; run without -short")
	}

	// Ten thousand holders are not one process, which would mostly look through their stacks for garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(1_000))

	book := coordinator.NewBook(nil)
	if _, err := book.Apply(parse(t, "rules: [{id: all, keyBy: user, limit: 1000000, window: 1s, lease: {ttl: 30s}}]")); err != nil {
		t.Fatal(err)
	}

	server := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), book), Signer: signer(t, 1)})
	herd := newHerd(t, server)

	eventually(t, "the connections stand", func() bool {
		return !slices.ContainsFunc(herd, func(c *Client) bool { return c.replicas[0].conn.GetState() != connectivity.Ready })
	})

	ctx, cancel := context.WithTimeout(t.Context(), 18*herdWithin)
	defer cancel()

	var seq atomic.Uint64

	settle(ctx, t, herd, &seq)
	settle(ctx, t, herd, &seq) // so that all have heard how many they are
	server.kill()
	eventually(t, "all have noticed", func() bool {
		return !slices.ContainsFunc(herd, func(c *Client) bool { return c.replicas[0].conn.GetState() == connectivity.Ready })
	})

	var (
		all, watching sync.WaitGroup
		mu            sync.Mutex
		served        []time.Duration
		restarted     atomic.Int64
		watchers, end = context.WithCancel(ctx)
		informed      atomic.Int64
	)

	for _, c := range herd {
		watching.Go(func() {
			once := sync.OnceFunc(func() { informed.Add(1) })
			_ = c.Watch(watchers, 0, func(*rule.Set) error { once(); return nil })
		})
		all.Go(func() {
			if c.comeIn(ctx, &seq) != nil {
				return // it shows in the count of those who were served
			}

			mu.Lock()
			defer mu.Unlock()

			served = append(served, time.Since(time.Unix(0, restarted.Load())))
		})
	}

	restarted.Store(time.Now().UnixNano())
	lostBefore, spentBefore := starved(), used(t)
	server.start()
	all.Wait()
	eventually(t, "all have the rules", func() bool { return informed.Load() == herdHolders || ctx.Err() != nil })

	took, lost, spent := time.Since(time.Unix(0, restarted.Load())), starved()-lostBefore, used(t)-spentBefore
	stats := server.Stats()

	end()
	watching.Wait()

	// Where others have most of the processors calls come too late, and are repeated for as long as that lasts.
	if lost > took/2 {
		t.Skipf("%d of %d were served after %v; the machine had other things to do for %v of it", len(served), herdHolders, took, lost)
	}

	if len(served) != herdHolders {
		t.Fatalf("%d of %d were served", len(served), herdHolders)
	}

	slices.Sort(served)
	t.Logf("served: the first after %v, half after %v, all after %v, and with rules after %v, %v of the processors used, waited for them for %v; "+
		"%d calls, %d refused for want of room, %d signatures",
		served[0], served[len(served)/2], served[len(served)-1], took, spent, lost, stats.Calls, stats.Refused, stats.Signatures)

	// Two processors in that time are so much work. On a machine that has other things to do beside, time says nothing else.
	if spent > 2*herdWithin {
		t.Errorf("%d were served and had their rules for %v of the processors, want %v", herdHolders, spent, 2*herdWithin)
	}

	if took > herdWithin && lost < took/20 {
		t.Errorf("%d were served and had their rules after %v, want %v", herdHolders, took, herdWithin)
	}

	for i, d := range served { // nor did all of them come at once
		if j, _ := slices.BinarySearch(served, d+time.Millisecond); j-i > herdHolders/10 {
			t.Fatalf("%d of %d were served within one millisecond", j-i, herdHolders)
		}
	}
}

// used returns how much of the processors this process has had.
func used(t *testing.T) time.Duration {
	t.Helper()

	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// starved returns how long this process had work and no processor for it, because
// others did: half of what its threads waited, since there are two processors. 0 where the system does not tell.
func starved() (sum time.Duration) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")

	for _, file := range files {
		text, _ := os.ReadFile(file)

		var ran, waited int64
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			sum += time.Duration(waited)
		}
	}

	return sum / 2
}
