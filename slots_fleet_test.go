package leaseway_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
)

// patient lets a request wait for its answer however slow the machine is: a
// coordinator that is late counts as gone, and local shares would come on top.
func patient() leaseway.Option { return leaseway.WithDeadline(time.Minute) }

// Holders behind gRPC share a few slots: never more are in flight, all of them
// are used, and none is lost.
func TestFewSlotsOverAFleet(t *testing.T) {
	t.Parallel()

	const limit, holders, goroutines = 7, 4, 16

	f := newFleet(t, fmt.Sprintf("rules: [{id: r, keyBy: user, algorithm: concurrency, limit: %d}]", limit), holders, patient())

	var (
		inFlight, most, admitted atomic.Int64
		each                     [holders]atomic.Int64
		work                     sync.WaitGroup
	)

	start := time.Now()

	for i, l := range f.holders {
		for range goroutines {
			work.Go(func() {
				over := time.NewTicker(2 * time.Millisecond)
				defer over.Stop()

				for time.Since(start) < time.Second || each[i].Load() == 0 && time.Since(start) < 30*time.Second {
					d := l.Decide(t.Context(), leaseway.Request{User: "u"})
					if d.Allowed {
						raise(&most, inFlight.Add(1))
						admitted.Add(1)
						each[i].Add(1)
						<-over.C
						inFlight.Add(-1)
					} else {
						<-over.C
					}

					l.Done(d)
				}
			})
		}
	}

	work.Wait()

	if m := most.Load(); m > limit || m < limit {
		t.Errorf("%d were in flight at a time, want %d", m, limit)
	}

	for i := range each {
		if each[i].Load() == 0 {
			t.Errorf("holder %d got nothing of %d", i, admitted.Load())
		}
	}

	f.takeAll(t, limit)
}

// takeAll takes n slots of user u at the first holder, which all must come back, and one more, which must not.
func (f *fleet) takeAll(t *testing.T, n int) {
	t.Helper()

	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()

	start := time.Now()

	for got := 0; got < n; {
		if f.holders[0].Decide(t.Context(), leaseway.Request{User: "u"}).Allowed {
			got++

			continue
		}

		if time.Since(start) > 30*time.Second {
			t.Fatalf("%d of %d slots came back", got, n)
		}

		<-tick.C
	}

	if d := f.holders[0].Decide(t.Context(), leaseway.Request{User: "u"}); d.Allowed {
		t.Errorf("more than %d are in flight", n)
	}
}

// Of many slots most requests find one here, without a call.
func TestManySlotsOverAFleet(t *testing.T) {
	t.Parallel()

	f := newFleet(t, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 1000}]", 3, patient())

	var (
		work     sync.WaitGroup
		requests atomic.Int64
	)

	for _, l := range f.holders {
		for range 20 {
			work.Go(func() {
				over := time.NewTicker(time.Millisecond)
				defer over.Stop()

				for range 300 {
					d := l.Decide(t.Context(), leaseway.Request{User: "u"})
					if !d.Allowed {
						t.Errorf("60 in flight under a limit of 1000: %+v", d)
					}

					requests.Add(1)
					<-over.C
					l.Done(d)
				}
			})
		}
	}

	work.Wait()

	calls := int64(0)
	for _, l := range f.holders {
		calls += l.Stats().Asks
	}

	if calls*20 > requests.Load() {
		t.Errorf("%d requests took %d asks, want one for twenty at most", requests.Load(), calls)
	}

	f.takeAll(t, 1000)
}

// childEnv has a copy of this program take slots until it is killed: address, name and number.
const childEnv = "LEASEWAY_TEST_SLOTS"

// TestSlotChild is the child of the tests below, and nothing otherwise.
func TestSlotChild(t *testing.T) {
	job := strings.Fields(os.Getenv(childEnv))
	if len(job) != 3 {
		t.Skip("it is for a child process")
	}

	l, err := leaseway.Dial(t.Context(), job[:1], leaseway.WithName(job[1]), patient())
	if err != nil {
		t.Fatal(err)
	}

	want, _ := strconv.Atoi(job[2])
	got := 0

	for range want {
		if l.Decide(t.Context(), leaseway.Request{User: "u"}).Allowed {
			got++
		}
	}

	fmt.Println("took", got)
	select {}
}

// child starts a process that takes n slots, and returns it when it has them.
func (f *fleet) child(t *testing.T, name string, n int) (*exec.Cmd, int) {
	t.Helper()

	cmd, said := startChild(t, "TestSlotChild", fmt.Sprintf("%s=%s %s %d", childEnv, f.addr, name, n), "took ")

	got, err := strconv.Atoi(said)
	if err != nil {
		t.Fatal(err)
	}

	return cmd, got
}

// startChild has a copy of this program run a test with a setting, and returns what the first line says that begins with prefix.
func startChild(t *testing.T, test, setting, prefix string) (*exec.Cmd, string) {
	t.Helper()

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+test+"$", "-test.timeout", "3m")
	cmd.Env = append(os.Environ(), setting)

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})

	for lines := bufio.NewScanner(out); lines.Scan(); {
		if said, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			return cmd, said
		}
	}

	t.Fatal("the child says nothing")

	return nil, ""
}

// kill ends a child as a crash would, and returns when it is gone.
func kill(t *testing.T, cmd *exec.Cmd) time.Time {
	t.Helper()

	if err := cmd.Process.Kill(); err != nil { // SIGKILL
		t.Fatal(err)
	}

	_ = cmd.Wait()

	return time.Now()
}

// A process that is killed with its requests in flight loses its slots when its
// time is over, and not before; the others never pass the limit.
func TestSlotsOfAKilledProcessComeBack(t *testing.T) {
	t.Parallel()

	const ttl = 5 * time.Second // which a machine with other things to do does not stand still for

	f := newFleet(t, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 5, lease: {ttl: 5s}}]", 1, patient())
	born := time.Now()
	cmd, got := f.child(t, "doomed", 4)

	if got != 4 {
		t.Fatalf("the child has %d slots, want 4", got)
	}

	d := f.holders[0].Decide(t.Context(), leaseway.Request{User: "u"})
	if !d.Allowed || f.holders[0].Decide(t.Context(), leaseway.Request{User: "u"}).Allowed {
		t.Error("beside the child's 4 of 5 there was not room for exactly one")
	}

	f.holders[0].Done(d)

	kill(t, cmd)

	// It told that it lived at most 0.3 of the TTL before its end, and its slots
	// come back 50 ms after the TTL. Which of the requests is the last one before that, is a matter of luck.
	f.takeAll(t, 5)

	if took := time.Since(born); took < ttl {
		t.Errorf("its slots came back %v after they were given, before their time of %v", took, ttl)
	}
}

// Started again under its name, it has them back at once.
func TestARestartedProcessHasItsSlotsAtOnce(t *testing.T) {
	t.Parallel()

	f := newFleet(t, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 5}]", 1, patient())

	first, got := f.child(t, "phoenix", 5)
	if got != 5 {
		t.Fatalf("the child has %d slots, want 5", got)
	}

	if f.holders[0].Decide(t.Context(), leaseway.Request{User: "u"}).Allowed {
		t.Error("a sixth was admitted")
	}

	killed := kill(t, first)
	second, got := f.child(t, "phoenix", 5)

	if got != 5 {
		t.Errorf("the same name again has %d slots after %v, want 5 at once", got, time.Since(killed))
	}

	if f.holders[0].Decide(t.Context(), leaseway.Request{User: "u"}).Allowed {
		t.Error("a sixth was admitted after the restart")
	}

	kill(t, second)

	_, got = f.child(t, "another", 5)
	if got != 0 && time.Since(killed) < 10*time.Second {
		t.Errorf("another name has %d slots of one that was just killed", got)
	}
}

// A server that stops gives its slots back at once.
func TestAStoppedServerLeavesNoSlots(t *testing.T) {
	t.Parallel()

	// The TTL is far longer than this waits for what comes back.
	f := newFleet(t, "rules: [{id: r, keyBy: user, algorithm: concurrency, limit: 500, lease: {ttl: 10m}}]", 2, patient())

	var ds []leaseway.Decision
	for range 200 {
		ds = append(ds, f.holders[1].Decide(t.Context(), leaseway.Request{User: "u"}))
	}

	for _, d := range ds {
		f.holders[1].Done(d)
	}

	if err := f.holders[1].Close(context.Background()); err != nil {
		t.Fatal(err)
	}

	f.takeAll(t, 500)
}
