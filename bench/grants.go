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
}

func granting(name string, side side, open func() (granter, error)) entrant {
	return entrant{name: name, side: side, measure: func(column int) (sample, error) {
		g, err := open()
		if err != nil {
			return sample{}, err
		}

		defer g.close()

		return g.measure(batchSizes()[column])
	}}
}

// measure renews the leases of all keys, size at a time, over and over.
func (g *granter) measure(size int) (sample, error) {
	known := make([]ledger.Answer, grantKeys)
	keys := make([]string, grantKeys)

	for i := range keys {
		keys[i] = fmt.Sprintf("user-%06d", i)
	}

	batch := &ledger.Batch{Holder: 1, Asks: make([]ledger.KeyAsk, size), Reply: &ledger.Answers{}}
	done, next := 0, 0
	began := processorTime()

	for end := time.Now().Add(grantTime); time.Now().Before(end); done += size {
		batch.Seq++

		for i := range batch.Asks {
			a := &known[(next+i)%grantKeys]
			batch.Asks[i] = ledger.KeyAsk{Rule: "r", Key: keys[(next+i)%grantKeys], Ask: ledger.Ask{
				Holder: 1, Seq: batch.Seq, Lease: a.Lease, Spent: a.Granted, RaiseTo: a.Granted + grantSize,
			}}
		}

		answers, err := g.acquire(batch)
		if err != nil {
			return sample{}, err
		}

		for i := range answers.Keys {
			if k := &answers.Keys[i]; k.Code != ledger.KeyOK || k.Answer.Granted <= known[(next+i)%grantKeys].Granted {
				return sample{}, fmt.Errorf("%s was granted nothing", batch.Asks[i].Key)
			}

			known[(next+i)%grantKeys] = answers.Keys[i].Answer
		}

		next += size
	}

	return sample{value: float64((processorTime() - began).Nanoseconds()) / float64(done)}, nil
}

func storeGranter() (granter, error) {
	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return granter{}, err
	}

	terms, err := termsOf(endless())
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

func newCoordinator() (c *coordinator.Coordinator, closeStore func(), err error) {
	set, err := rule.Parse("rules.yaml", []byte("rules: [{id: r, keyBy: user, limit: 1000000000, window: 1s, lease: {ttl: 1m}}]"))
	if err != nil {
		return nil, nil, err
	}

	s, err := memorystore.New(memorystore.Config{})
	if err != nil {
		return nil, nil, err
	}

	book := coordinator.NewBook(nil)
	_, wrong := book.Apply(set)
	c, err = coordinator.New(coordinator.Config{Store: s, Book: book})

	return c, func() { _ = s.Close(context.Background()) }, errors.Join(wrong, err)
}

func coordinatorGranter() (granter, error) {
	c, closeStore, err := newCoordinator()
	ctx := context.Background()

	return granter{
		acquire: func(batch *ledger.Batch) (*ledger.Answers, error) { return c.Acquire(ctx, batch) }, close: closeStore,
	}, err
}

// rpcGranter calls a coordinator behind gRPC on this machine.
func rpcGranter(signed bool) func() (granter, error) {
	return func() (granter, error) {
		c, closeStore, err := newCoordinator()
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
				closeStore()
			},
		}, err
	}
}
