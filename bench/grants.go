package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/internal/store"
	memorystore "github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/rule"
)

const (
	grantKeys = 1 << 14 // keys whose leases are renewed in turn
	grantTime = 300 * time.Millisecond
	grantSize = 300 // tokens
)

// batchSizes are the keys of one call, of each column.
func batchSizes() []int { return []int{1, 16, 256} }

// grants measures what a coordinator spends on a lease.
func grants() contest {
	c := contest{
		name: "grants", title: "A coordinator's grants", goal: 2, against: "the store alone", rounds: 5,
		about: "A lease is reported as spent and raised again. Processor time for each, in nanoseconds, of one caller whose " +
			"calls carry 1, 16 or 256 keys. Over gRPC it is that of both sides, the caller's included.",
		entrants: []entrant{
			granting("the memory store alone", peer, storeGranter),
			granting("coordinator, called in its process", ours, coordinatorGranter),
			granting("coordinator, over gRPC", ours, rpcGranter(false)),
			granting("coordinator, over gRPC, signed and verified", ours, rpcGranter(true)),
			granting("no coordinator: gRPC that sends 60 bytes a key back", floor, echo),
		},
	}

	for _, n := range batchSizes() {
		c.columns = append(c.columns, fmt.Sprintf("ns, %d a call", n))
	}

	return c
}

// granter answers batches.
type granter struct {
	acquire func(batch *ledger.Batch) (*ledger.Answers, error)
	close   func()
	// used is the processor time of all who work on it; nil for that of this process.
	used func() (time.Duration, error)
}

func granting(name string, side side, open func() (granter, error)) entrant {
	return entrant{name: name, side: side, measure: func(column int) (sample, error) {
		g, err := open()
		if err != nil {
			return sample{}, err
		}

		defer g.close()

		return g.measure(batchSizes()[column], newRenewals(grantKeys))
	}}
}

// measure renews the leases of all keys, size at a time, over and over; that every key has one comes before.
func (g *granter) measure(size int, r *renewals) (sample, error) {
	if g.used == nil {
		g.used = func() (time.Duration, error) { return processorTime(), nil }
	}

	if err := r.all(g, size); err != nil {
		return sample{}, err
	}

	began, err := g.used()
	if err != nil {
		return sample{}, err
	}

	done := 0

	for end := time.Now().Add(grantTime); time.Now().Before(end); done += size {
		if err := r.renew(g, size); err != nil {
			return sample{}, err
		}
	}

	ended, err := g.used()

	return sample{value: float64((ended - began).Nanoseconds()) / float64(done)}, err
}

func storeGranter() (granter, error) {
	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return granter{}, err
	}

	return overStore(s)
}

// grantTerms are those of the rule that the coordinators have.
func grantTerms() (ledger.Terms, error) {
	terms, err := termsOf(endless())
	terms.TTL = time.Minute.Microseconds()

	return terms, err
}

// overStore asks a store without a coordinator.
func overStore(s store.Store) (granter, error) {
	terms, err := grantTerms()
	ctx := context.Background()
	ops, results := make([]store.Op, 0), make([]store.Result, 0)

	return granter{acquire: func(batch *ledger.Batch) (*ledger.Answers, error) {
		if len(ops) != len(batch.Asks) {
			ops, results = make([]store.Op, len(batch.Asks)), make([]store.Result, len(batch.Asks))
			batch.Reply.Keys = make([]ledger.KeyAnswer, len(batch.Asks))
		}

		for i := range ops {
			ops[i] = store.Op{Key: store.Key{Rule: "r", Key: batch.Asks[i].Key}, Terms: terms, Ask: batch.Asks[i].Ask}
		}

		s.Apply(ctx, ops, results)

		for i := range results {
			if results[i].Err != nil {
				return nil, results[i].Err
			}

			batch.Reply.Keys[i] = ledger.KeyAnswer{Code: ledger.KeyOK, Answer: results[i].Answer}
		}

		return batch.Reply, nil
	}, close: func() { _ = s.Close(ctx) }}, err
}

func newCoordinator(s store.Store) (*coordinator.Coordinator, error) {
	set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, keyBy: user, limit: 1000000000, window: 1s, lease: {ttl: 1m}}]"))
	if err != nil {
		return nil, err
	}

	book := coordinator.NewBook(nil)
	_, wrong := book.Apply(set)
	c, err := coordinator.New(coordinator.Config{Store: s, Book: book})

	return c, errors.Join(wrong, err)
}

func coordinatorGranter() (granter, error) {
	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return granter{}, err
	}

	return inProcess(s)
}

// inProcess calls a coordinator that is part of the caller's program.
func inProcess(s store.Store) (granter, error) {
	c, err := newCoordinator(s)
	ctx := context.Background()

	return granter{
		acquire: func(batch *ledger.Batch) (*ledger.Answers, error) { return c.Acquire(ctx, batch) },
		close:   func() { _ = s.Close(ctx) },
	}, err
}

func rpcGranter(signed bool) func() (granter, error) {
	return func() (granter, error) {
		s, err := memorystore.New(memorystore.Config{})
		if err != nil {
			return granter{}, err
		}

		return overRPC(signed)(s)
	}
}

// overRPC calls a coordinator behind gRPC on this machine.
func overRPC(signed bool) func(kept store.Store) (granter, error) {
	return func(kept store.Store) (granter, error) {
		c, err := newCoordinator(kept)
		if err != nil {
			return granter{}, err
		}

		ctx := context.Background()

		var listen net.ListenConfig

		listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return granter{}, err
		}

		server, client := rpc.ServerConfig{Coordinator: c}, rpc.Config{
			URLs: []string{"grpc://" + listener.Addr().String()}, Holder: 1, AllowUnsigned: !signed, Timeout: time.Minute,
		}

		if signed {
			public, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return granter{}, err
			}

			if server.Signer, err = rpc.NewSigner(private); err != nil {
				return granter{}, err
			}

			client.Keys = []ed25519.PublicKey{public}
		}

		s := rpc.NewServer(server)

		var serving sync.WaitGroup

		serving.Go(func() { _ = s.Serve(listener) }) // until Stop

		holder, err := rpc.Dial(client)

		return granter{
			acquire: func(batch *ledger.Batch) (*ledger.Answers, error) { return holder.Acquire(ctx, batch) },
			close: func() {
				_ = holder.Close()
				s.Stop(ctx)
				serving.Wait()
				_ = kept.Close(ctx)
			},
		}, err
	}
}
