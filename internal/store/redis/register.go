package redis

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/leaseway/leaseway/internal/store"
)

// maxNumbers bounds the texts of an agreement: some hundred thousand rules.
const maxNumbers = 16 << 20

var _ store.Register = (*Store)(nil)

// Numbers returns what the coordinators of this data have agreed on; see store.Register.
func (s *Store) Numbers(ctx context.Context, known string) (n store.Numbers, err error) {
	s.closing.RLock()
	defer s.closing.RUnlock()

	if err := s.usable(ctx); err != nil {
		return n, err
	}

	ctx, cancel := within(ctx)
	defer cancel()

	key := s.names.numbers()

	n.Head, err = s.client.Do(ctx, s.client.B().Hget().Key(key).Field("head").Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return store.Numbers{}, nil
	}

	if err != nil {
		return store.Numbers{}, fmt.Errorf("numbers: Redis: %w", err)
	}

	if n.Head == known {
		return n, nil
	}

	fields, err := s.client.Do(ctx, s.client.B().Hgetall().Key(key).Build()).AsStrMap() // both, as of one moment
	if err != nil {
		return store.Numbers{}, fmt.Errorf("numbers: Redis: %w", err)
	}

	return store.Numbers{Head: fields["head"], Rules: fields["rules"]}, nil
}

// Renumber replaces it; see store.Register.
func (s *Store) Renumber(ctx context.Context, before string, now store.Numbers) (bool, error) {
	s.closing.RLock()
	defer s.closing.RUnlock()

	if err := s.usable(ctx); err != nil {
		return false, err
	}

	if size := len(now.Head) + len(now.Rules); size > maxNumbers {
		return false, fmt.Errorf("numbers: %d bytes are more than the %d that are kept (write fewer rules)", size, maxNumbers)
	}

	ctx, cancel := within(ctx)
	defer cancel()

	seen := s.library.loads.Load()
	send := func() (int64, error) {
		return s.client.Do(ctx, s.client.B().Fcall().Function(s.library.number).Numkeys(1).Key(s.names.numbers()).
			Arg(before, now.Head, now.Rules, decimal(keepData.Milliseconds())).Build()).AsInt64()
	}

	done, err := send()
	if refusalOf(err) == unknownFunction {
		s.library.load(ctx, s.client, seen)

		done, err = send()
	}

	if err != nil {
		return false, fmt.Errorf("numbers: Redis: %w", err)
	}

	return done == 1, nil
}
