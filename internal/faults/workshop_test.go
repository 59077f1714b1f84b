//go:build unix

package faults

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/proctest"
	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

// workshop is coordinators of one store in this process, for what no process of ours can be made to do.
type workshop struct {
	log       *proctest.Transcript
	store     *badStore
	addresses []string
	servers   []*rpc.Server
	stops     []func()
}

// newWorkshop starts n coordinators over one store.
func newWorkshop(t *testing.T, rules string, n int) *workshop {
	t.Helper()

	set, err := rule.Parse("rules.yaml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}

	kept, err := memory.New(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = kept.Close(context.Background()) })

	w := &workshop{log: &proctest.Transcript{}, store: &badStore{Store: kept}}
	for range n {
		w.serve(t, set)
	}

	return w
}

func (w *workshop) serve(t *testing.T, set *rule.Set) {
	t.Helper()

	book := coordinator.NewBook(nil)
	if _, err := book.Apply(set); err != nil {
		t.Fatal(err)
	}

	c, err := coordinator.New(coordinator.Config{Store: w.store, Book: book, Logger: w.log.Logger(slog.LevelInfo)})
	if err != nil {
		t.Fatal(err)
	}

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}

	server := rpc.NewServer(rpc.ServerConfig{Coordinator: c, Logger: w.log.Logger(slog.LevelInfo)})
	ctx, cancel := context.WithCancel(context.Background())

	var work sync.WaitGroup

	work.Go(func() { _ = c.Run(ctx) })
	work.Go(func() { _ = server.Serve(listener) })

	stop := sync.OnceFunc(func() {
		cancel()
		server.Stop(ctx)
		work.Wait()
	})

	t.Cleanup(stop)

	w.addresses = append(w.addresses, listener.Addr().String())
	w.servers = append(w.servers, server)
	w.stops = append(w.stops, stop)
}

// badStore is a store that fails for the keys that it is told, as a node of a cluster would that has them.
type badStore struct {
	store.Store

	broken atomic.Pointer[string] // keys with this prefix have no answer
	panics atomic.Bool
}

var errNode = errors.New("the node does not answer")

// Apply passes on what is not broken.
func (s *badStore) Apply(ctx context.Context, ops []store.Op, results []store.Result) {
	if s.panics.Load() {
		panic("a bug in the store")
	}

	broken := s.broken.Load()

	for i := range ops {
		if broken != nil && strings.HasPrefix(ops[i].Key.Key, *broken) {
			results[i].Err = errNode
		} else {
			s.Store.Apply(ctx, ops[i:i+1], results[i:i+1])
		}
	}
}
