package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

// negotiated is overrides in a map, that counts who asks.
type negotiated struct {
	mu      sync.Mutex
	rows    map[string]coordinator.Override // of the rule r
	slow    time.Duration
	down    error
	lookups int
	keys    int
}

func (n *negotiated) Overrides(_ context.Context, _ string, keys []string) (map[string]coordinator.Override, error) {
	time.Sleep(n.slow) // of a bubble

	n.mu.Lock()
	defer n.mu.Unlock()

	n.lookups++
	n.keys += len(keys)

	found := map[string]coordinator.Override{}

	for _, key := range keys {
		if o, ok := n.rows[key]; ok && (o.Expires.IsZero() || time.Now().Before(o.Expires)) {
			found[key] = o
		}
	}

	return found, n.down
}

func (n *negotiated) Any(context.Context, string) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()

	return len(n.rows) > 0, n.down
}

func (n *negotiated) set(key string, o coordinator.Override) {
	n.mu.Lock()
	defer n.mu.Unlock()

	n.rows[key] = o
}

// of is an override of version v.
func of(limit int64, v uint64) coordinator.Override {
	return coordinator.Override{Override: rule.Override{Limit: limit}, Version: v}
}

// negotiation is a coordinator with overrides from outside, in a bubble.
type negotiation struct {
	*negotiated

	t         *testing.T
	c         *coordinator.Coordinator
	overrides *coordinator.Overrides
	seq       uint64
	wrong     time.Duration // how far the coordinator's clock is ahead
}

func negotiate(t *testing.T, test func(n *negotiation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &negotiation{negotiated: &negotiated{rows: map[string]coordinator.Override{}}, t: t}
		n.overrides = coordinator.NewOverrides(n.negotiated, func() time.Time { return time.Now().Add(n.wrong) }, nil)

		kept, err := memory.New(memory.Config{Clock: func() int64 { return time.Now().UnixMicro() }})
		if err != nil {
			t.Fatal(err)
		}

		book := coordinator.NewBook(nil)
		set, err := rule.Parse("test", []byte("rules: [{id: r, keyBy: user, limit: 10, window: 1h}]"))
		if err == nil {
			_, err = book.Apply(set)
		}

		if err != nil {
			t.Fatal(err)
		}

		n.c, err = coordinator.New(coordinator.Config{Store: kept, Book: book, Overrides: n.overrides})
		if err != nil {
			t.Fatal(err)
		}

		test(n)
		n.overrides.Wait()

		if err := kept.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// limit is that of a key, as one ask that takes cost finds it; given says whether it got that.
func (n *negotiation) limit(key string, cost int64) (limit int64, given bool, again int64) {
	n.t.Helper()

	n.seq++
	batch := &ledger.Batch{Holder: 7, Seq: n.seq, Asks: []ledger.KeyAsk{{Rule: "r", Key: key, Ask: ledger.Ask{Takes: []int64{cost}}}}}

	answers, err := n.c.Acquire(n.t.Context(), batch)
	if err != nil || answers.Keys[0].Code != ledger.KeyOK {
		n.t.Fatalf("%+v, %v", answers, err)
	}

	a := &answers.Keys[0].Answer

	return a.Terms.Bucket.Burst, a.Taken == 1, a.AskAgain
}

func (n *negotiation) want(when, key string, limit int64) {
	n.t.Helper()

	if got, _, _ := n.limit(key, 0); got != limit {
		n.t.Errorf("%s: %s has limit %d, want %d", when, key, got, limit)
	}
}

func TestAnOverrideIsOfItsKeyAlone(t *testing.T) {
	t.Parallel()
	negotiate(t, func(n *negotiation) {
		n.set("acme", of(50, 3))
		n.want("at first", "acme", 50)
		n.want("at first", "ada", 10)

		for range 100 {
			n.want("again", "acme", 50)
			n.want("again", "ada", 10)
		}

		if n.lookups != 2 {
			t.Errorf("%d lookups of two keys", n.lookups)
		}
	})
}

// What is told is in force at the next ask; what is not, in a minute.
func TestAChangedOverride(t *testing.T) {
	t.Parallel()
	negotiate(t, func(n *negotiation) {
		n.want("without any", "acme", 10)
		n.set("acme", of(50, 3))
		n.overrides.Changed(3, map[string][]string{"r": {"acme"}})
		n.want("after the first", "acme", 50)
		n.set("acme", of(60, 4))
		n.want("before it is told", "acme", 50)
		n.overrides.Changed(4, map[string][]string{"r": {"acme"}})
		n.want("when it is told", "acme", 60)
		n.set("acme", of(70, 5))
		time.Sleep(time.Minute)
		n.want("a minute later", "acme", 70)
		n.set("acme", of(80, 6))
		n.overrides.Changed(6, nil)
		n.want("when many have changed", "acme", 80)

		delete(n.rows, "acme")
		n.overrides.Changed(7, map[string][]string{"r": {"acme"}})
		n.want("when it is gone", "acme", 10)
		n.set("acme", of(90, 8))
		n.overrides.Changed(8, map[string][]string{"r": {}})
		n.want("when it is back", "acme", 90)
	})
}

// A clock that is set back makes nothing be believed for longer.
func TestOverridesAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	negotiate(t, func(n *negotiation) {
		n.want("without any", "ada", 10)
		n.set("acme", of(50, 3))
		n.overrides.Changed(3, map[string][]string{"r": {"acme"}})
		n.want("at first", "acme", 50)

		n.wrong = -time.Hour
		n.set("acme", of(60, 4))
		time.Sleep(time.Minute)
		n.want("a minute after the clock was set back", "acme", 60)
	})
}

func TestAnOverrideExpires(t *testing.T) {
	t.Parallel()
	negotiate(t, func(n *negotiation) {
		o := of(50, 3)
		o.Expires = time.Now().Add(10 * time.Second)
		n.set("acme", o)
		n.overrides.Changed(3, nil)
		n.want("before", "acme", 50)
		time.Sleep(10 * time.Second)
		n.want("after", "acme", 10)
	})
}

// A store that fails or hangs holds nobody up, and takes away nothing.
// That an override ends needs no word from the store.
func TestAnOverrideExpiresWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()

	for _, slow := range []time.Duration{0, 10 * time.Second} { // it refuses, or does not answer
		negotiate(t, func(n *negotiation) {
			o := of(50, 3)
			o.Expires = time.Now().Add(30 * time.Second)
			n.set("acme", o)
			n.want("before it ends", "acme", 50)

			n.mu.Lock()
			n.down, n.slow = errors.New("the database is away"), slow
			n.mu.Unlock()

			time.Sleep(29 * time.Second)
			n.want("still", "acme", 50)
			time.Sleep(time.Second)

			for range 5 {
				n.want("after its end", "acme", 10)
				time.Sleep(time.Second)
			}
		})
	}
}

func TestOverridesOfAStoreThatFails(t *testing.T) {
	t.Parallel()
	negotiate(t, func(n *negotiation) {
		n.set("acme", of(50, 3))
		n.want("before", "acme", 50)

		n.down = errors.New("connection refused")

		time.Sleep(2 * time.Minute)
		n.want("while it is down", "acme", 50)
		n.want("while it is down", "ada", 10)

		asked := n.overrides.Stats().Failures
		for range 100 {
			n.want("while it is down", "ada", 10)
		}

		if more := n.overrides.Stats().Failures - asked; more > 1 {
			t.Errorf("%d calls at once to a store that is down", more)
		}

		n.down = nil
		n.slow = time.Second

		time.Sleep(2 * time.Second)

		began := time.Now()
		n.want("while it is slow", "bob", 10)

		if waited := time.Since(began); waited > 10*time.Millisecond {
			t.Errorf("an ask waited %v for a slow store", waited)
		}
	})
}

// Asks for one key at once are one lookup.
func TestOneLookupForManyAsks(t *testing.T) {
	t.Parallel()
	negotiate(t, func(n *negotiation) {
		n.set("acme", of(50, 3))
		n.slow = 2 * time.Millisecond

		var asks sync.WaitGroup

		for i := range 50 {
			asks.Go(func() {
				batch := &ledger.Batch{Holder: uint64(i) + 1, Seq: 1, Asks: []ledger.KeyAsk{{Rule: "r", Key: "acme", Ask: ledger.Ask{Takes: []int64{1}}}}}
				if answers, err := n.c.Acquire(t.Context(), batch); err != nil || answers.Keys[0].Answer.Terms.Bucket.Burst != 50 {
					t.Errorf("%+v, %v", answers, err)
				}
			})
		}

		asks.Wait()

		if n.keys != 1 {
			t.Errorf("%d keys were looked up for 50 asks about one", n.keys)
		}
	})
}

// A refusal is not remembered for longer than a raised limit may take to be in force.
func TestARefusalIsNotRememberedForLong(t *testing.T) {
	t.Parallel()
	negotiate(t, func(n *negotiation) {
		n.set("acme", of(5, 3))
		n.limit("acme", 5)

		if _, given, again := n.limit("acme", 5); given || again > time.Second.Microseconds() {
			t.Errorf("given %v, ask again in %d µs", given, again)
		}
	})
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	t.Parallel()
	negotiate(t, func(n *negotiation) {
		n.set("acme", of(5, 3))

		asks := make([]ledger.KeyAsk, 1000)
		for round := range 600 {
			for i := range asks {
				asks[i] = ledger.KeyAsk{Rule: "r", Key: fmt.Sprint(round, "/", i), Ask: ledger.Ask{Takes: []int64{0}}}
			}

			n.seq++
			if _, err := n.c.Acquire(t.Context(), &ledger.Batch{Holder: 7, Seq: n.seq, Asks: asks}); err != nil {
				t.Fatal(err)
			}
		}

		if kept := n.overrides.Stats().Kept; kept > 1<<19 || kept < 1<<18 {
			t.Errorf("%d keys are remembered of 600,000", kept)
		}
	})
}
