// Package memory keeps the ledgers in this process: nothing to install, one
// coordinator only. It is the store of the embedded limiter, of tests, of the
// simulator and of a single coordinator, which may keep its data over a
// graceful restart.
//
//	(rule, key) ── keyed hash, 128 bits ──> shard ──> table of 32-byte records
//	                                          │           │
//	                                          │           ├─ at rest: tat and an index into the terms
//	                                          │           └─ held: an index into the shard's ledgers with leases
//	                                          └─ a mutex: one op at a time on its ledgers
//
// A key is its hash: rule and key are hashed with a secret seed, each behind
// its length, so nobody can make two keys meet, and a key costs the same
// whatever its length. A ledger that says no more than a missing one is dropped:
// when an op leaves it so, and by a sweep that ops push along, so that the
// store needs no goroutine for it. A shard that is full makes room, and counts
// what that cost.
//
// With a directory, Close writes a snapshot that the next New takes in, once:
//
//	no files ──────────────> first start: every key is full
//	snapshot ──────────────> restart: same ID, ledgers and leases; the snapshot is removed
//	mark, no snapshot ─────> crash: new ID; every key counts as empty at the last mark
//	snapshot not readable ─> kept aside as .corrupt, then as after a crash
//
// Its neighbours are store (the contract), ledger (all arithmetic) and
// storetest (the suite that holds it to the contract).
package memory

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/store"
)

// DefaultMaxKeys bounds the ledgers unless Config says otherwise: 10 million,
// the most clients that one process is meant for, in half a gigabyte.
const DefaultMaxKeys = 10_000_000

// ErrClosed is the error of every call after Close.
var ErrClosed = errors.New("the memory store is closed")

const (
	maxShards    = 256  // one lock each: far more than processors, so that two ops rarely meet
	minShardKeys = 1024 // below it, chance would fill one shard long before the others
	refresh      = 64   // ops of one call that share a reading of the clock
	sweepEvery   = 64   // ops on one shard that pay for one step of the sweep
)

// Config says how large the store may become and where it keeps its data. The
// zero value is a store of DefaultMaxKeys that forgets everything at Close.
type Config struct {
	// MaxKeys bounds the ledgers; at most about 50 bytes each, and more only
	// while a key is leased. 0 means DefaultMaxKeys.
	MaxKeys int
	// Clock returns the store's time in microseconds since the Unix epoch. The
	// default follows the system's clock as it was at the start, and no step of
	// it since. A clock that steps back is continued from where it was.
	Clock func() int64
	// Dir is where the data stays between a graceful stop and the next start;
	// it is made if missing. "" keeps nothing.
	Dir string
	// Lost is when another store lost the data that this one begins without, µs; 0:
	// there was none. It is for simulations: with Dir the store finds out by itself.
	Lost int64
	// Logger hears of lost and unreadable data. The default is silent.
	Logger *slog.Logger
}

// Store is a store.Store in memory. It is safe for concurrent use.
type Store struct {
	id     uint64
	seed   seed
	loss   int64 // what was known before this instant is lost, µs; 0: nothing was
	now    func() int64
	shards []shard
	terms  *termsTable
	beats  beats

	borrowers borrowers
	hand      atomic.Uint64 // the shard that is swept next
	log       *slog.Logger

	dir     *directory // nil: nothing is kept
	stop    context.CancelFunc
	marker  sync.WaitGroup // who renews the mark
	closing sync.Once
	closed  error // what Close returns
}

var _ store.Store = (*Store)(nil)

// New returns a store that holds what an earlier one left in cfg.Dir. Errors are
// those of the directory; data that cannot be read is logged and counts as lost.
func New(cfg Config) (*Store, error) {
	if cfg.MaxKeys < 0 {
		return nil, fmt.Errorf("memory store: MaxKeys is %d: give a positive number, or 0 for %d", cfg.MaxKeys, DefaultMaxKeys)
	}

	if cfg.MaxKeys == 0 {
		cfg.MaxKeys = DefaultMaxKeys
	}

	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}

	s := &Store{log: cfg.Logger}
	s.clear(cfg.MaxKeys)

	if cfg.Dir == "" {
		s.now, s.loss = steady(cfg.Clock, 0), cfg.Lost

		return s, nil
	}

	if err := s.open(cfg); err != nil {
		return nil, err
	}

	return s, nil
}

// clear makes the store an empty one of maxKeys, with an identity of its own.
func (s *Store) clear(maxKeys int) {
	s.id = randomID()
	s.seed = randomSeed()
	s.terms = newTermsTable()
	s.shards = make([]shard, shardsFor(maxKeys))

	for i := range s.shards {
		s.shards[i].terms, s.shards[i].lent = s.terms, &s.borrowers
		s.shards[i].limit = max(1, maxKeys/len(s.shards))
	}
}

// ID identifies the data; see store.Store.
func (s *Store) ID() uint64 { return s.id }

// Apply applies the ops in order; see store.Store. It never waits for anything
// but another op on the same shard. After ctx is done, or after Close, what is left gets an error.
func (s *Store) Apply(ctx context.Context, ops []store.Op, results []store.Result) {
	ops = ops[:min(len(ops), len(results))]

	var now int64

	for i := range ops {
		if i%refresh == 0 {
			if err := ctx.Err(); err != nil {
				fail(results[i:len(ops)], err)

				return
			}

			now = s.now()
		}

		if s.apply(now, &ops[i], &results[i]) {
			s.sweep(now)
		}
	}
}

// shard returns where the ledger of id is kept.
func (s *Store) shard(id keyID) *shard { return &s.shards[id.lo&uint64(len(s.shards)-1)] }

func fail(results []store.Result, err error) {
	for i := range results {
		results[i] = store.Result{Err: err}
	}
}

// apply handles one op, and reports whether a step of the sweep is due.
func (s *Store) apply(now int64, op *store.Op, result *store.Result) (sweep bool) {
	if err := op.Terms.Check(); err != nil {
		*result = store.Result{Err: fmt.Errorf("rule %q: %w", op.Key.Rule, err)}

		return false
	}

	id := s.seed.hash(op.Key.Rule, op.Key.Key)
	sh := s.shard(id)

	// Deferred, because a panic that is recovered above must not leave the shard locked.
	sh.mu.Lock()
	defer sh.mu.Unlock()

	if sh.closed {
		*result = store.Result{Err: ErrClosed}

		return false
	}

	result.Err = nil
	result.Answer = sh.apply(now, id, visit{op: op, loss: s.loss})
	sh.ops++

	return sh.ops%sweepEvery == 0
}

// sweep drops what says nothing from the next stretches of the next shards, as
// long as there is much of it. A shard that is busy is left for another time.
func (s *Store) sweep(now int64) {
	for range sweepStretches {
		sh := &s.shards[s.hand.Add(1)&uint64(len(s.shards)-1)]
		if !sh.mu.TryLock() {
			return
		}

		more := sh.sweep(now)
		sh.mu.Unlock()

		if !more {
			return
		}
	}
}

// shardsFor returns how many shards, a power of two, hold maxKeys.
func shardsFor(maxKeys int) int {
	n := max(1, min(maxShards, maxKeys/minShardKeys))

	return 1 << (bits.Len(uint(n)) - 1)
}

// randomID returns a number that no other data has; never 0.
func randomID() uint64 {
	for {
		var b [8]byte

		_, _ = rand.Read(b[:]) // never fails
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}
