package rpc

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
)

// telling is a coordinator whose overrides change when the test says so.
type telling struct {
	Coordinator

	changes  chan []string
	watchers atomic.Int64 // of overrides, so far
}

func (c *telling) WatchOverrides(ctx context.Context, changed func([]string)) error {
	c.watchers.Add(1)

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case rules := <-c.changes:
			changed(rules)
		}
	}
}

// hear has a client tell of overrides, from now on.
func hear(t *testing.T, c *Client) (heard chan []string) {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan []string, 10), make(chan struct{})

	go func() {
		defer close(ended)

		_ = c.WatchOverrides(ctx, func(rules []string) { heard <- rules }) // it is the context's error
	}()

	t.Cleanup(func() { cancel(); <-ended })
	eventually(t, "it is listened for", func() bool {
		c.overrides.mu.Lock()
		defer c.overrides.mu.Unlock()

		return len(c.overrides.each) > 0
	})

	return heard
}

func TestChangedOverridesAreTold(t *testing.T) {
	book := newBook(t)
	coord := &telling{Coordinator: newCoordinator(t, newStore(t), book), changes: make(chan []string)}
	s := serve(t, ServerConfig{Coordinator: coord, Signer: signer(t, 1)})
	c := dialTo(t, nil, s)
	heard, w := hear(t, c), watchFrom(t, c, 0)

	eventually(t, "the first rules", w.has(book.Current().Version))

	for _, rules := range [][]string{{"ten"}, nil, {"ten", "twenty"}} {
		coord.changes <- rules

		if got := <-heard; !slices.Equal(got, rules) {
			t.Errorf("told %v, want %v", got, rules)
		}
	}

	coord.changes <- slices.Repeat([]string{"ten"}, maxTold+1)

	if got := <-heard; got != nil {
		t.Errorf("told %d rules, want none, which are all", len(got))
	}

	next := change(t, book, 20)
	eventually(t, "rules go on", w.has(next))
	w.stop()
	eventually(t, "the server forgets the watcher", func() bool { return s.Stats().Watchers == 0 })
}

// A holder of an earlier version takes a message without rules for a bad one: it is sent none.
func TestWhoDoesNotSayThatItHearsIsNotTold(t *testing.T) {
	book := newBook(t)
	coord := &telling{Coordinator: newCoordinator(t, newStore(t), book), changes: make(chan []string)}
	api := leasewayv1.NewCoordinatorServiceClient(raw(t, serve(t, ServerConfig{Coordinator: coord})))

	stream, err := api.WatchRules(t.Context(), &leasewayv1.WatchRulesRequest{Holder: 1})
	if err != nil {
		t.Fatal(err)
	}

	for range 2 {
		msg, err := stream.Recv()
		if err != nil || msg.GetEnvelope() == nil || msg.GetOverrides() != nil {
			t.Fatalf("got %v, %v", msg, err)
		}

		change(t, book, 20)
	}

	if n := coord.watchers.Load(); n != 0 {
		t.Errorf("overrides are watched for it %d times", n)
	}
}

// Whoever stands between can name any rules, however many, and keeps nobody from the rules thereby.
func TestForgedChangesAreHarmless(t *testing.T) {
	many := slices.Repeat([]string{"ten"}, maxTold+1)
	c := dialTo(t, nil, serveService(t, scripted{send: []*leasewayv1.WatchRulesResponse{
		{Overrides: &leasewayv1.OverridesChanged{Rules: many}},
		{Overrides: &leasewayv1.OverridesChanged{Rules: []string{"", "no such rule"}}},
		rulesOf(t, signer(t, 1), 9, numbered(t, 9)),
	}}))
	heard, w := hear(t, c), watchFrom(t, c, 0)

	if got := <-heard; got != nil {
		t.Errorf("told %d rules, want none, which are all", len(got))
	}

	if got := <-heard; len(got) != 2 {
		t.Errorf("told %q", got)
	}

	eventually(t, "the rules that came after", w.has(9))
}

// A bug in what tells ends the stream, and with it nothing else.
func TestAPanicOfWhatTellsEndsTheStream(t *testing.T) {
	coord := newCoordinator(t, newStore(t), newBook(t))
	api := leasewayv1.NewCoordinatorServiceClient(raw(t, serve(t, ServerConfig{Coordinator: &faultyTeller{coord}})))

	stream, err := api.WatchRules(t.Context(), &leasewayv1.WatchRulesRequest{Holder: 1, Overrides: true})
	for err == nil {
		_, err = stream.Recv()
	}

	if info := detail[*errdetails.ErrorInfo](err); info.GetReason() != reasonPanic {
		t.Errorf("the stream ended with %v", err)
	}

	if _, err := api.Acquire(t.Context(), &leasewayv1.AcquireRequest{Holder: 1, Seq: 1}); err != nil {
		t.Error(err)
	}
}

type faultyTeller struct{ Coordinator }

func (faultyTeller) WatchOverrides(context.Context, func([]string)) error { panic("a bug") }
