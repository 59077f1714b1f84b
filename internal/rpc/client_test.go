package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

func acquire(tb testing.TB, c *Client, batch *ledger.Batch) *ledger.Answers {
	tb.Helper()

	answers, err := c.Acquire(tb.Context(), batch)
	if err != nil {
		tb.Fatal(err)
	}

	return answers
}

func TestAClientGetsWhatTheCoordinatorSays(t *testing.T) {
	kept, book := newStore(t), newBook(t)
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, kept, book), Signer: signer(t, 1)})
	c := dialTo(t, nil, s)
	n := &calls{}

	batch := n.take("u1", "u1\x00", strings.Repeat("k", MaxKey))
	batch.Version = book.Current().Version
	batch.Asks[0].Ask.RaiseTo = 5
	batch.Asks = append(batch.Asks, ledger.KeyAsk{Rule: "none", Key: "u1"}, ledger.KeyAsk{Rule: "ten", Key: "u2", Ask: ledger.Ask{Spent: -1}})

	answers := acquire(t, c, batch)
	if answers.Store != kept.ID() || answers.Live != 1 || answers.Version != book.Current().Version {
		t.Errorf("answers %+v", answers)
	}

	for i, want := range []ledger.KeyCode{ledger.KeyOK, ledger.KeyOK, ledger.KeyOK, ledger.KeyUnknownRule, ledger.KeyInvalid} {
		if answers.Keys[i].Code != want {
			t.Errorf("key %d: code %d, want %d", i, answers.Keys[i].Code, want)
		}
	}

	if a := answers.Keys[0].Answer; a.Taken != 1 || a.Granted != 5 || a.Lease == 0 || a.Seq != 1 || a.Terms.Bucket.Burst != 10 || a.Terms.TTL != 60_000_000 {
		t.Errorf("answer %+v: want one taken and five leased of ten", a)
	}

	// The same call again, as after a lost answer, changes nothing.
	if again := acquire(t, c, batch).Keys[0].Answer; again.Taken != 1 || again.Granted != 5 {
		t.Errorf("the doubled ask got %+v", again)
	}

	if got := s.Stats(); got.Signatures != 2 || got.Calls != 2 {
		t.Errorf("server stats %+v", got)
	}
}

// Two coordinators of one store: when one dies, the next call goes to the other, and the counts are one.
func TestAnotherCoordinatorOfTheStoreTakesOver(t *testing.T) {
	kept, book := newStore(t), newBook(t)
	config := ServerConfig{Coordinator: newCoordinator(t, kept, book), Signer: signer(t, 1)}
	a, b := serve(t, config), serve(t, config)
	c := dialTo(t, nil, a, b)
	n := &calls{}

	c.begin(0)

	for range 4 {
		acquire(t, c, n.take("u1"))
	}

	a.kill()

	for range 6 {
		if answers := acquire(t, c, n.take("u1")); answers.Keys[0].Answer.Taken != 1 {
			t.Fatalf("a take within the limit was refused: %+v", answers.Keys[0])
		}
	}

	if answers := acquire(t, c, n.take("u1")); answers.Keys[0].Answer.Taken != 0 {
		t.Error("an eleventh take was given: the coordinators count apart")
	}

	if c.Unavailable() {
		t.Error("unavailable while one lives")
	}
}

// In a large fleet nobody calls a coordinator at the very moment at which it can be reached again, even if it was gone
// for so short a time that no breaker opened.
func TestALargeFleetIsNotBackAtOnce(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)})
	c := dialTo(t, nil, s)
	r := c.replicas[0]

	eventually(t, "the connection stands", func() bool { return r.conn.GetState() == connectivity.Ready })
	s.kill()
	eventually(t, "the connection is gone", func() bool { return r.conn.GetState() != connectivity.Ready })
	c.crowd.live.Store(10_000)
	s.start()
	eventually(t, "it is left alone", func() bool { return r.rest.Load() > 0 })

	if r.open() || time.Duration(r.rest.Load()) > c.now()+maxSpread {
		t.Errorf("it is left alone until %v, and is now %v", time.Duration(r.rest.Load()), c.now())
	}
}

func TestABreakerOpensAndItsCoordinatorComesBack(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)})
	c := dialTo(t, nil, s)
	n := &calls{}

	acquire(t, c, n.take("u1"))
	s.kill()

	failures := 0

	eventually(t, "the breaker opens", func() bool {
		_, err := c.Acquire(t.Context(), n.take("u1"))
		if err == nil {
			t.Fatal("an answer from a dead server")
		}

		failures++

		return c.Unavailable()
	})

	if failures > breakAfter {
		t.Errorf("%d calls failed before the breaker opened, want %d", failures, breakAfter)
	}

	if state := c.Stats().Replicas[0].State; state != "open" {
		t.Errorf("state %s, want open", state)
	}

	// A probe over a connection that is down would only lengthen the backoff.
	r := c.replicas[0]
	eventually(t, "the connection is down", func() bool { return r.conn.GetState() == connectivity.TransientFailure })
	r.until.Store(1)

	if ok, _ := r.enter(c.now()); ok || !c.Unavailable() {
		t.Error("a probe went over a connection that is down")
	}

	s.start()

	eventually(t, "the coordinator is called again", func() bool {
		_, err := c.Acquire(t.Context(), n.take("u2"))
		if err != nil && !errors.Is(err, ErrUnavailable) && status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}

		return err == nil
	})

	if state := c.Stats().Replicas[0].State; state != "closed" {
		t.Errorf("state %s, want closed", state)
	}
}

// stuck is a coordinator that answers when the caller has gone.
type stuck struct{ Coordinator }

func (stuck) Acquire(ctx context.Context, _ *ledger.Batch) (*ledger.Answers, error) {
	<-ctx.Done()

	return nil, ctx.Err()
}

func TestALateCoordinatorIsLeftAtOnce(t *testing.T) {
	kept, book := newStore(t), newBook(t)
	coord := newCoordinator(t, kept, book)
	slow := serve(t, ServerConfig{Coordinator: stuck{coord}, Signer: signer(t, 1)})
	quick := serve(t, ServerConfig{Coordinator: coord, Signer: signer(t, 1)})
	c := dialTo(t, nil, slow, quick)
	n := &calls{}

	c.begin(0)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()

	if _, err := c.Acquire(ctx, n.take("u1")); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("error %v, want that of the deadline", err)
	}

	if got := c.Stats().Replicas[0]; got.Late != 1 || got.Failures != 1 {
		t.Errorf("stats %+v, want one call that was late", got)
	}

	acquire(t, c, n.take("u1"))

	if got := c.Stats().Replicas[1]; got.Calls < 1 {
		t.Error("the next call went to the late one again")
	}
}

func TestACallerThatGoesAwayIsNoFailure(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: stuck{}, Signer: signer(t, 1)})
	c := dialTo(t, nil, s)
	n := &calls{}

	for range 2 * breakAfter {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)

		calls := s.Stats().Calls

		go func() {
			_, err := c.Acquire(ctx, n.take("u1"))
			done <- err
		}()

		eventually(t, "the call is there", func() bool { return s.Stats().Calls > calls })
		cancel()

		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}

	if got := c.Stats().Replicas[0]; got.Failures != 0 || got.State != "closed" {
		t.Errorf("stats %+v: nobody failed", got)
	}
}

// Memory stores behind two coordinators: a holder leases from neither, and says which two.
func TestTwoStoresAreRefused(t *testing.T) {
	config := func() ServerConfig {
		return ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)}
	}
	a, b := serve(t, config()), serve(t, config())
	c := dialTo(t, nil, a, b)
	n := &calls{}

	var mixed *MixedError

	eventually(t, "the client refuses", func() bool {
		_, err := c.Acquire(t.Context(), n.take("u1"))

		return errors.As(err, &mixed)
	})

	for _, part := range []string{a.address, b.address, "different stores", "exactly one coordinator"} {
		if !strings.Contains(mixed.Error(), part) {
			t.Errorf("error %q does not say %q", mixed, part)
		}
	}

	if !c.Stats().Mixed {
		t.Error("the stats do not say so")
	}

	// With one of them gone there is only one store, which may be used.
	b.kill()
	eventually(t, "the other one is used", func() bool {
		_, err := c.Acquire(t.Context(), n.take("u1"))

		return err == nil
	})

	if c.Stats().Mixed {
		t.Error("still mixed")
	}
}

func TestWhichStoreIsAccepted(t *testing.T) {
	a, b := &replica{address: address{url: "A"}}, &replica{address: address{url: "B"}}
	bind := &binding{}

	for i, step := range []struct {
		by    *replica
		store uint64
		taken bool
	}{
		{a, 1, true},  // the first
		{b, 1, true},  // the same, from another one
		{a, 2, false}, // another, while B lives
		{b, 2, true},  // B itself lost its data
		{a, 1, false}, // A is late with the old one
		{a, 2, true},
	} {
		if refusal := bind.accept(step.by, step.store); (refusal == nil) != step.taken {
			t.Errorf("step %d: store %d of %s: refusal %v", i, step.store, step.by.url, refusal)
		}
	}

	for range breakAfter {
		a.fail(0, false, few)
	}

	if refusal := bind.accept(b, 3); refusal != nil {
		t.Errorf("another store while A is broken: %v", refusal.err)
	}
}

func TestBatchesThatServersRefuseAreNotSent(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)})
	c := dialTo(t, nil, s)

	many := &ledger.Batch{Holder: holderID, Seq: 1, Asks: make([]ledger.KeyAsk, MaxAsks+1)}
	large := (&calls{}).take(slices.Repeat([]string{strings.Repeat("k", MaxKey)}, MaxBatchBytes/MaxKey)...)

	for name, batch := range map[string]*ledger.Batch{"many": many, "large": large} {
		if _, err := c.Acquire(t.Context(), batch); err == nil || !strings.Contains(err.Error(), strconv.Itoa(MaxBatchBytes)) {
			t.Errorf("%s: error %v", name, err)
		}
	}

	if got := c.Stats().Replicas[0]; got.Calls != 0 || got.Failures != 0 {
		t.Errorf("stats %+v", got)
	}

	large.Asks = large.Asks[1:] // as large as may be

	for i := range large.Asks {
		large.Asks[i].Key = strconv.Itoa(i) + large.Asks[i].Key[4:]
	}

	if answers := acquire(t, c, large); len(answers.Keys) != MaxBatchBytes/MaxKey-1 {
		t.Errorf("%d answers", len(answers.Keys))
	}
}

// A batch that the coordinator cannot read is the caller's fault, and goes nowhere else.
func TestABadBatchBlamesNobody(t *testing.T) {
	config := ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)}
	s := serve(t, config)
	c := dialTo(t, nil, s, serve(t, config))

	for range 2 * breakAfter {
		c.begin(0)

		if _, err := c.Acquire(t.Context(), &ledger.Batch{Holder: holderID}); status.Code(err) != codes.InvalidArgument {
			t.Fatalf("error %v", err)
		}
	}

	got := c.Stats().Replicas
	if got[0].Failures != 0 || got[1].Calls != 0 || s.Stats().Invalid != 2*breakAfter {
		t.Errorf("stats %+v and %+v", got, s.Stats())
	}
}

func TestAContextThatIsOverMakesNoCall(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)})
	c := dialTo(t, nil, s)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := c.Acquire(ctx, (&calls{}).take("u1")); !errors.Is(err, context.Canceled) || c.Stats().Replicas[0].Calls != 0 {
		t.Errorf("error %v, stats %+v", err, c.Stats().Replicas[0])
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, keys := range []int{1, 64} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			s := serve(b, ServerConfig{Coordinator: newCoordinator(b, newStore(b), newBook(b)), Signer: signer(b, 1)})
			c := dialTo(b, nil, s)
			batch := (&calls{}).take()

			for i := range keys {
				batch.Asks = append(batch.Asks, ledger.KeyAsk{Rule: "ten", Key: fmt.Sprint("user-", i), Ask: ledger.Ask{RaiseTo: 4}})
			}

			b.ReportAllocs()

			for b.Loop() {
				batch.Seq++
				if _, err := c.Acquire(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func (stuck) WatchOverrides(ctx context.Context, _ func([]string)) error {
	<-ctx.Done()

	return ctx.Err()
}

func (stuck) Watch(ctx context.Context, _ uint64, _ func(*rule.Set) error) error {
	<-ctx.Done()

	return ctx.Err()
}
