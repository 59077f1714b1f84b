package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/rule"
)

func limit(n int) string {
	return fmt.Sprintf("rules: [{id: ten, keyBy: user, limit: %d, window: 1m, overrides: [{key: \"\\u00e9<&>\", limit: 7}]}]", n)
}

func change(t *testing.T, book *coordinator.Book, n int) uint64 {
	t.Helper()

	version, err := book.Apply(parse(t, limit(n)))
	if err != nil {
		t.Fatal(err)
	}

	return version
}

// watching is a Watch that runs; it fails the test when versions go back.
type watching struct {
	t    *testing.T
	stop func()

	mu   sync.Mutex
	sets []*rule.Set
}

func watchFrom(t *testing.T, c *Client, known uint64) *watching {
	t.Helper()

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	w := &watching{t: t}

	go func() { done <- c.Watch(ctx, known, w.take) }()

	w.stop = sync.OnceFunc(func() {
		cancel()

		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v", err)
		}
	})
	t.Cleanup(w.stop)

	return w
}

func (w *watching) take(set *rule.Set) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	if n := len(w.sets); n > 0 && set.Version <= w.sets[n-1].Version {
		w.t.Errorf("version %d after %d", set.Version, w.sets[n-1].Version)
	}

	w.sets = append(w.sets, set)

	return nil
}

// last returns the set that came last; an empty one before the first.
func (w *watching) last() *rule.Set {
	w.mu.Lock()
	defer w.mu.Unlock()

	if len(w.sets) == 0 {
		return &rule.Set{}
	}

	return w.sets[len(w.sets)-1]
}

func (w *watching) has(version uint64) func() bool {
	return func() bool { return w.last().Version == version }
}

func TestRulesArriveWhole(t *testing.T) {
	book := newBook(t)
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), book), Signer: signer(t, 1)})
	c := dialTo(t, nil, s)
	w := watchFrom(t, c, 0)

	eventually(t, "the first rules", w.has(book.Current().Version))

	next := change(t, book, 20)
	eventually(t, "the changed rules", w.has(next))

	if got, want := string(w.last().Marshal()), string(book.Current().Marshal()); got != want {
		t.Errorf("rules %s, want %s", got, want)
	}

	if got := c.newest.Load(); got != next {
		t.Errorf("the client knows version %d, want %d", got, next)
	}

	if got := s.Stats(); got.Watchers != 1 || got.Signatures != 2 {
		t.Errorf("server stats %+v: want one signature for each set", got)
	}

	w.stop()
	eventually(t, "the server forgets the watcher", func() bool { return s.Stats().Watchers == 0 })
}

// Whoever waits for his turn to watch goes at once when a call was answered: it has had its turn.
func TestAnAnswerEndsTheWaitForRules(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)})
	c := dialTo(t, nil, s)
	r := c.replicas[0]

	var n calls

	if _, err := c.Acquire(t.Context(), n.take("k")); err != nil {
		t.Fatal(err)
	}

	for range breakAfter {
		r.failed(c.now(), false)
	}

	back := make(chan bool)

	go func() { back <- c.await(t.Context(), time.Hour) }()

	r.hasten(0, minBackoff)

	if _, err := c.Acquire(t.Context(), n.take("k")); err != nil {
		t.Fatal(err)
	}

	if !<-back {
		t.Error("the wait ended as if nobody had answered")
	}

	if c.await(t.Context(), time.Millisecond) {
		t.Error("an answer ended two waits")
	}
}

func TestOneSignatureServesAllWatchers(t *testing.T) {
	book := newBook(t)
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), book), Signer: signer(t, 1)})

	for range 5 {
		w := watchFrom(t, dialTo(t, nil, s), 0)
		eventually(t, "the rules", w.has(book.Current().Version))
	}

	if got := s.Stats().Signatures; got != 1 {
		t.Errorf("%d signatures", got)
	}
}

// Streams of rules are bounded: one more than there may be is told to come back, or to go elsewhere, and leaves the others their places.
func TestOneWatcherTooManyIsRefused(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)})
	api := leasewayv1.NewCoordinatorServiceClient(raw(t, s))
	first := func(others int64) (*leasewayv1.WatchRulesResponse, error) {
		s.holder.watchers.Store(others)

		stream, err := api.WatchRules(t.Context(), &leasewayv1.WatchRulesRequest{Holder: holderID})
		if err != nil {
			return nil, err
		}

		return stream.Recv()
	}

	_, err := first(maxWatchers)
	if after, said := comeBack(err); !said || after != maxComeBack {
		t.Errorf("one more than %d got %v, to come back after %v", maxWatchers, err, after)
	}

	if n := s.Stats().Watchers; n != maxWatchers {
		t.Errorf("then there are %d, want %d", n, maxWatchers)
	}

	if rules, err := first(maxWatchers - 1); err != nil || rules.GetEnvelope() == nil {
		t.Errorf("the last for whom there is room got %v, %v", rules, err)
	}
}

// Across the death of the coordinator that is watched, and its return, rules go on and only forward.
func TestAWatchSurvivesItsCoordinator(t *testing.T) {
	kept, book := newStore(t), newBook(t)
	config := ServerConfig{Coordinator: newCoordinator(t, kept, book), Signer: signer(t, 1)}
	servers := []*running{serve(t, config), serve(t, config)}
	c := dialTo(t, nil, servers...)
	w := watchFrom(t, c, 0)

	for round := range 3 {
		version := change(t, book, 20+round)
		eventually(t, "rules of this round", w.has(version))

		watched := servers[0]
		if c.Stats().Replicas[1].Watched {
			watched = servers[1]
		}

		watched.kill()

		version = change(t, book, 30+round)
		eventually(t, "rules from the other coordinator", w.has(version))
		watched.start()
	}
}

// A coordinator that stops in good order sends its watchers on, rather than wait for them.
func TestAGracefulStopEndsWatches(t *testing.T) {
	book := newBook(t)
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), book), Signer: signer(t, 1)})
	w := watchFrom(t, dialTo(t, nil, s), 0)
	eventually(t, "the rules", w.has(book.Current().Version))

	s.Stop(t.Context()) // whose end would fail the test

	if err := <-s.served; err != nil {
		t.Error(err)
	}

	s.served = nil
}

func TestWhoKnowsTheRulesGetsOnlyNewerOnes(t *testing.T) {
	book := newBook(t)
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), book), Signer: signer(t, 1)})
	w := watchFrom(t, dialTo(t, nil, s), book.Current().Version)
	eventually(t, "the watch begins", func() bool { return s.Stats().Watchers == 1 })

	next := change(t, book, 20)
	eventually(t, "the changed rules", w.has(next))

	if len(w.sets) != 1 {
		t.Errorf("%d sets came, want the newer one only", len(w.sets))
	}
}

// A coordinator that lost its memory, under a clock that was set back, still gets its rules through.
func TestRestartedCoordinatorsAreNewer(t *testing.T) {
	s := serve(t, ServerConfig{Coordinator: newCoordinator(t, newStore(t), newBook(t)), Signer: signer(t, 1)})
	future := uint64(1) << 52
	w := watchFrom(t, dialTo(t, nil, s), future)
	eventually(t, "rules above those known", func() bool { return w.last().Version > future })
}

// scripted is a CoordinatorService that sends each watcher what the test wrote down, and then waits.
type scripted struct {
	leasewayv1.UnimplementedCoordinatorServiceServer

	send []*leasewayv1.WatchRulesResponse
}

func (s scripted) WatchRules(_ *leasewayv1.WatchRulesRequest, stream grpc.ServerStreamingServer[leasewayv1.WatchRulesResponse]) error {
	for _, msg := range s.send {
		if err := stream.Send(msg); err != nil {
			return err
		}
	}

	<-stream.Context().Done()

	return stream.Context().Err()
}

func rulesOf(t *testing.T, s *Signer, version uint64, document []byte) *leasewayv1.WatchRulesResponse {
	t.Helper()

	env, err := s.seal(rulesContext, &leasewayv1.Rules{Version: version, Document: document})
	if err != nil {
		t.Fatal(err)
	}

	return &leasewayv1.WatchRulesResponse{Envelope: env}
}

func numbered(t *testing.T, version uint64) []byte {
	t.Helper()

	return parse(t, document).Next(nil, version).Marshal()
}

func TestRulesThatAreNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		want Cause
		msg  *leasewayv1.WatchRulesResponse
	}{
		"unsigned":             {CauseSignature, rulesOf(t, nil, 9, numbered(t, 9))},
		"a stranger's":         {CauseKey, rulesOf(t, signer(t, 9), 9, numbered(t, 9))},
		"older":                {CauseOlderRules, rulesOf(t, signer(t, 1), 4, numbered(t, 4))},
		"the same again":       {CauseOlderRules, rulesOf(t, signer(t, 1), 5, numbered(t, 5))},
		"beyond all numbers":   {CauseOlderRules, rulesOf(t, signer(t, 1), 1<<60, numbered(t, 1<<60))},
		"an answer as rules":   {CauseSignature, &leasewayv1.WatchRulesResponse{Envelope: seal(t, signer(t, 1), answerContext)}},
		"no envelope":          {CauseMalformed, &leasewayv1.WatchRulesResponse{}},
		"no document":          {CauseMalformed, rulesOf(t, signer(t, 1), 9, []byte("rules: {"))},
		"two version numbers":  {CauseMalformed, rulesOf(t, signer(t, 1), 9, numbered(t, 8))},
		"a document unnumberd": {CauseMalformed, rulesOf(t, signer(t, 1), 9, []byte(document))},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := dialTo(t, nil, serveService(t, scripted{send: []*leasewayv1.WatchRulesResponse{c.msg}}))
			w := watchFrom(t, c2, 5)

			eventually(t, "the refusal is counted", func() bool { return c2.Stats().Refused[c.want].Count > 0 })

			if got := w.last(); got.Version != 0 {
				t.Errorf("version %d was applied", got.Version)
			}
		})
	}
}

// What this release cannot read is skipped; the stream goes on, and so do later rules.
func TestRulesThatCannotBeReadAreSkipped(t *testing.T) {
	s := signer(t, 1)
	c := dialTo(t, nil, serveService(t, scripted{send: []*leasewayv1.WatchRulesResponse{
		rulesOf(t, s, 1, numbered(t, 1)), rulesOf(t, s, 2, []byte("rules: [{id: x, quantum: 1}]")), rulesOf(t, s, 3, numbered(t, 3)),
	}}))
	w := watchFrom(t, c, 0)
	eventually(t, "the third set", w.has(3))

	if len(w.sets) != 2 {
		t.Errorf("%d sets, want the two good ones", len(w.sets))
	}
}

// When calls to a coordinator fail, its stream is not waited for: it may hang as well.
func TestTheRulesMoveWithTheBreaker(t *testing.T) {
	book := newBook(t)
	coord := newCoordinator(t, newStore(t), book)
	hanging := serve(t, ServerConfig{Coordinator: stuck{}, Signer: signer(t, 1)})
	good := serve(t, ServerConfig{Coordinator: coord, Signer: signer(t, 1)})
	c := dialTo(t, nil, hanging, good)

	c.begin(0)

	w := watchFrom(t, c, 0)
	eventually(t, "the hanging one is watched", func() bool { return hanging.Stats().Watchers == 1 })

	r := c.replicas[0]
	for range breakAfter {
		r.failed(c.now(), false)
	}

	eventually(t, "rules from the good one", w.has(book.Current().Version))
}
