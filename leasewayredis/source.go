package leasewayredis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store/redis"
	"github.com/leaseway/leaseway/rule"
)

// silence is how long Redis must have answered nothing at all, while it was
// asked, to be taken for gone: until then only the keys that it was asked about are.
const silence = 500 * time.Millisecond

var (
	errNotReached = errors.New("no connection to Redis was made yet")
	errSilent     = errors.New("no node of Redis answers")
)

// source is a coordinator in this process, which there is once Redis was reached.
//
//	connecting ──reached──▶ asked ──no answer to anything for a while──▶ silent
//	                          ▲                                            │
//	                          └───────────────any answer───────────────────┘
//
// While it is connecting or silent an Acquire is an error, so that requests do not wait for it.
type source struct {
	book    *coordinator.Book
	accord  *coordinator.Accord // which numbers its rules as other processes on this Redis do
	config  redis.Config
	file    *rulesFile // nil for rules that stay
	log     *slog.Logger
	reached atomic.Pointer[engine]
	failing atomic.Int64 // when asks went unanswered first after the last answer, ns since the epoch; 0: they do not

	stop func()
	work sync.WaitGroup
}

// engine is what counts in Redis.
type engine struct {
	store       *redis.Store
	coordinator *coordinator.Coordinator
}

var _ leaseway.Source = (*source)(nil)

// Acquire asks the coordinator; see leaseway.Source.
func (s *source) Acquire(ctx context.Context, batch *ledger.Batch) (*ledger.Answers, error) {
	e := s.reached.Load()
	if e == nil {
		return nil, errNotReached
	}

	// A call about nothing asks Redis nothing; in an outage it must not pass for an answer.
	if len(batch.Asks) == 0 && s.failing.Load() != 0 {
		if _, err := e.store.Beat(ctx, nil, time.Second); err != nil {
			return nil, s.unanswered(err)
		}

		s.failing.Store(0)
	}

	answers, err := e.coordinator.Acquire(ctx, batch)
	if err != nil || len(batch.Asks) == 0 {
		return answers, err
	}

	for i := range answers.Keys {
		if answers.Keys[i].Code != ledger.KeyUnavailable {
			s.failing.Store(0)

			return answers, nil
		}
	}

	return answers, s.unanswered(nil)
}

// unanswered returns errSilent once Redis has been silent for long enough, and err before.
func (s *source) unanswered(err error) error {
	now := time.Now().UnixNano()
	if s.failing.CompareAndSwap(0, now) || now-s.failing.Load() < int64(silence) {
		return err
	}

	return errSilent
}

// Watch follows the rules, which are here; see leaseway.Source.
func (s *source) Watch(ctx context.Context, known uint64, apply func(*rule.Set) error) error {
	return s.book.Watch(ctx, known, apply)
}

// run says who lives, and numbers the rules as others do, until ctx ends.
func (s *source) run(ctx context.Context) {
	s.work.Go(func() { _ = s.accord.Run(ctx) })

	_ = s.reached.Load().coordinator.Run(ctx)
}

// close ends the work and the connections.
func (s *source) close(ctx context.Context) error {
	s.stop()
	s.work.Wait()

	if e := s.reached.Load(); e != nil {
		return e.store.Close(ctx)
	}

	return nil
}
