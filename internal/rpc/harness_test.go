package rpc

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	leasewayv1 "github.com/leaseway/leaseway/gen/leaseway/v1"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// A Client and a Coordinator are the same to a holder, and a Coordinator fits a Server.
var (
	_ table.Source = (*Client)(nil)
	_ Coordinator  = (*coordinator.Coordinator)(nil)
	_ Coordinator  = (*Client)(nil) // so that a server can stand before a client
)

// Both sides hold to the same bounds.
var _ = [1]struct{}{}[MaxAsks-coordinator.MaxAsks+MaxKey-coordinator.MaxKey]

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// document has long leases, so that no answer comes too late on a slow machine.
const document = "rules: [{id: ten, keyBy: user, limit: 10, window: 1m, lease: {ttl: 1m}}]"

// holderID is the incarnation of the tests' clients.
const holderID = 7

func parse(tb testing.TB, text string) *rule.Set {
	tb.Helper()

	set, err := rule.Parse("test", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}

	return set
}

// steady returns c for each connection, nil for nil.
func steady(c *tls.Config) func() *tls.Config {
	if c == nil {
		return nil
	}

	return func() *tls.Config { return c }
}

// privateKey returns a key that is the same in every run.
func privateKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n

	return ed25519.NewKeyFromSeed(seed)
}

func publicKey(n byte) ed25519.PublicKey { return privateKey(n).Public().(ed25519.PublicKey) }

func signer(tb testing.TB, keys ...byte) *Signer {
	tb.Helper()

	private := make([]ed25519.PrivateKey, len(keys))
	for i, n := range keys {
		private[i] = privateKey(n)
	}

	s, err := NewSigner(private...)
	if err != nil {
		tb.Fatal(err)
	}

	return s
}

func newStore(tb testing.TB) store.Store {
	tb.Helper()

	kept, err := memory.New(memory.Config{})
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() { _ = kept.Close(context.Background()) })

	return kept
}

func newBook(tb testing.TB) *coordinator.Book {
	tb.Helper()

	book := coordinator.NewBook(nil)
	if _, err := book.Apply(parse(tb, document)); err != nil {
		tb.Fatal(err)
	}

	return book
}

func newCoordinator(tb testing.TB, kept store.Store, book *coordinator.Book) *coordinator.Coordinator {
	tb.Helper()

	c, err := coordinator.New(coordinator.Config{Store: kept, Book: book})
	if err != nil {
		tb.Fatal(err)
	}

	return c
}

// running is a server that listens on loopback, and can be stopped and started again on the same port.
type running struct {
	*Server

	t       testing.TB
	config  ServerConfig
	address string
	served  chan error
}

func serve(tb testing.TB, config ServerConfig) *running {
	tb.Helper()

	r := &running{t: tb, config: config, address: "127.0.0.1:0"}
	r.start()
	tb.Cleanup(r.kill)

	return r
}

func (r *running) start(register ...func(*Server)) {
	r.t.Helper()

	var config net.ListenConfig

	listener, err := config.Listen(context.Background(), "tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}

	r.address = listener.Addr().String()
	r.Server = NewServer(r.config)

	for _, add := range register {
		add(r.Server)
	}

	r.served = make(chan error, 1)

	go func(s *Server) { r.served <- s.Serve(listener) }(r.Server)
}

// kill cuts all connections at once, as a crash does.
func (r *running) kill() {
	if r.served == nil {
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r.Stop(ctx)

	if err := <-r.served; err != nil {
		r.t.Errorf("Serve: %v", err)
	}

	r.served = nil
}

// dialTo returns a client of the servers, which believes key 1.
func dialTo(tb testing.TB, change func(*Config), servers ...*running) *Client {
	tb.Helper()

	// A machine that has other things to do takes seconds to hash the largest batch under the race detector.
	config := Config{Holder: holderID, Name: "test", Keys: []ed25519.PublicKey{publicKey(1)}, Timeout: time.Minute}
	for _, s := range servers {
		config.URLs = append(config.URLs, "grpc://"+s.address)
	}

	if change != nil {
		change(&config)
	}

	c, err := Dial(config)
	if err != nil {
		tb.Fatal(err)
	}

	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})

	return c
}

// begin makes the client call server i first.
func (c *Client) begin(i int) { c.sticky.Store(int64(i)) }

// calls makes batches with increasing seqs.
type calls struct{ seq uint64 }

func (n *calls) take(keys ...string) *ledger.Batch {
	n.seq++

	batch := &ledger.Batch{Holder: holderID, Name: "test", Seq: n.seq}
	for _, key := range keys {
		batch.Asks = append(batch.Asks, ledger.KeyAsk{Rule: "ten", Key: key, Ask: ledger.Ask{
			Holder: holderID, Seq: n.seq, Takes: []int64{1},
		}})
	}

	return batch
}

// eventually waits until a condition holds, and fails the test when it does not in time.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()

	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()

	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()

	for !holds() {
		select {
		case <-deadline.C:
			tb.Fatalf("not in time: %s", what)
		case <-poll.C:
		}
	}
}

// serveService starts a bare gRPC server with a CoordinatorService of the test's own.
func serveService(tb testing.TB, service leasewayv1.CoordinatorServiceServer) *running {
	tb.Helper()

	r := &running{t: tb, address: "127.0.0.1:0"}
	r.start(func(s *Server) { leasewayv1.RegisterCoordinatorServiceServer(s, service) })
	tb.Cleanup(r.kill)

	return r
}
