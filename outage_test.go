package leaseway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// absent is a coordinator that cannot be reached.
type absent struct{}

var errAbsent = errors.New("connection refused")

func (absent) Acquire(context.Context, *ledger.Batch) (*ledger.Answers, error) { return nil, errAbsent }

func (absent) Watch(ctx context.Context, _ uint64, _ func(*rule.Set) error) error {
	<-ctx.Done()

	return ctx.Err()
}

// Servers that are quiet still learn how many they are, and one that restarts
// while the coordinator is gone goes on with its share, not with the whole.
func TestARestartInAnOutageKeepsTheShare(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	f := newFleet(t, "rules: [{id: r, keyBy: user, limit: 1000, window: 1h}]", 0)

	for _, dir := range dirs {
		l, err := leaseway.Dial(t.Context(), []string{f.addr}, leaseway.WithStateDir(dir))
		if err != nil {
			t.Fatal(err)
		}

		f.holders = append(f.holders, l)
	}

	// No request is made: they find out by themselves.
	deadline := time.Now().Add(time.Minute)

	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()

	for _, l := range f.holders {
		for l.Stats().Live != 3 {
			if time.Now().After(deadline) {
				t.Fatalf("a quiet server reckons with %d, want 3", l.Stats().Live)
			}

			<-tick.C
		}
	}

	for _, l := range f.holders { // all of them before the first is missed
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	admitted := 0

	for i := range f.holders {
		again, err := leaseway.Over(t.Context(), absent{}, leaseway.WithStateDir(dirs[i]))
		if err != nil {
			t.Fatal(err)
		}

		r, err := again.Rule("r")
		if err != nil {
			t.Fatal(err)
		}

		for range 1000 {
			if r.Take("k").Allowed {
				admitted++
			}
		}

		if !again.Degraded() {
			t.Error("it does not say that it is degraded")
		}

		if err := again.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	if admitted < 700 || admitted > 800 {
		t.Errorf("%d admitted in the outage, want about four fifths of 1,000 in all", admitted)
	}
}
