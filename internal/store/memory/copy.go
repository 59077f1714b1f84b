package memory

import (
	"bytes"
	"context"
	"fmt"
)

// Copy returns a store that has the data of s as it is now, its id included, and
// goes on by itself: what a replica is that takes over. Nothing else may use s
// meanwhile. cfg must name no directory. It is for simulations.
func (s *Store) Copy(ctx context.Context, cfg Config) (*Store, error) {
	var data bytes.Buffer

	s.borrowers.returnAll()

	if err := s.writeSnapshot(ctx, &data, s.now()); err != nil {
		return nil, fmt.Errorf("memory store: copy: %w", err)
	}

	c, err := New(cfg)
	if err != nil {
		return nil, err
	}

	if _, err := c.readSnapshot(&data); err != nil {
		return nil, fmt.Errorf("memory store: copy: %w", err)
	}

	return c, nil
}
