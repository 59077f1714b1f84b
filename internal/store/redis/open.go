package redis

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

const (
	// openingTTL is how long one coordinator may take to set the marks of new data.
	openingTTL  = 10 * time.Second
	openingPoll = 20 * time.Millisecond
)

// openSeen opens, and keeps in a file that there is data here.
func (s *Store) openSeen(ctx context.Context, cfg *Config) error {
	before, err := readSeen(cfg.Seen)
	if err != nil && cfg.Logger != nil {
		cfg.Logger.Warn("it is not known whether this Redis had data before", "error", err)
	}

	s.known = before.at(cfg)

	if err := s.open(ctx); err != nil {
		return err
	}

	if s.first && cfg.Logger != nil {
		cfg.Logger.Info("there was no data in this Redis: every budget begins full, as at a first start; "+
			"if there should have been, all of it is lost", "prefix", cfg.Prefix)
	}

	if cfg.Seen == "" {
		return nil
	}

	now := &seen{Data: fmt.Sprintf("%016x", s.ID()), Prefix: cfg.Prefix, Addresses: cfg.Addresses}
	if before.at(cfg) && before.Data == now.Data {
		return nil
	}

	if before.at(cfg) && cfg.Logger != nil {
		cfg.Logger.Warn("this Redis has lost the data that was here: budgets begin as used up, unless their rule says otherwise",
			"lost", before.Data, "data", now.Data)
	}

	if err := now.write(cfg.Seen); err != nil && cfg.Logger != nil {
		cfg.Logger.Warn("that there is data in Redis cannot be kept on disk", "error", err)
	}

	return nil
}

// open finds out whose data this is. Where there is none, exactly one
// coordinator of those that start together sets the marks, and then the id:
//
//	no id, no marks ───> first start: each slot is marked as never lost, unless data was seen here before
//	no id, some marks ─> a node has lost its data: its slots are marked as lost now
//	id ────────────────> nothing to do
func (s *Store) open(ctx context.Context) error {
	for {
		known, err := s.readID(ctx)
		if known || err != nil {
			return err
		}

		first, err := s.client.Do(ctx, s.client.B().Set().Key(s.names.opening()).Value("1").Nx().Px(openingTTL).Build()).ToString()

		switch {
		case err != nil && !rueidis.IsRedisNil(err):
			return err
		case first == "OK":
			return s.begin(ctx)
		case !sleep(ctx, openingPoll):
			return fmt.Errorf("another coordinator is setting up its data, and has not finished: %w", ctx.Err())
		}
	}
}

// readID takes the data's id over, and reports whether there is one.
func (s *Store) readID(ctx context.Context) (known bool, err error) {
	text, err := s.client.Do(ctx, s.client.B().Get().Key(s.names.id()).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}

	if err != nil {
		return false, err
	}

	id, err := readID(text)
	s.id.Store(id)

	return err == nil, err
}

// begin sets the marks that are missing, and then the id.
func (s *Store) begin(ctx context.Context) error {
	marks := s.names.marks()
	gets := make([]rueidis.Completed, len(marks))

	for i, mark := range marks {
		gets[i] = s.client.B().Get().Key(mark).Build()
	}

	var missing []string

	for i, response := range s.client.DoMulti(ctx, gets...) {
		switch err := response.Error(); {
		case rueidis.IsRedisNil(err):
			missing = append(missing, marks[i])
		case err != nil:
			return err
		}
	}

	var loss int64
	if len(missing) < len(marks) || s.known {
		now, err := s.now(ctx)
		if err != nil {
			return err
		}

		loss = now
	}

	s.first = loss == 0

	if err := s.mark(ctx, missing, loss); err != nil {
		return err
	}

	fresh, err := randomID()
	if err != nil {
		return err
	}

	err = s.client.Do(ctx, s.client.B().Set().Key(s.names.id()).Value(fresh).Nx().Px(keepData).Build()).Error()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}

	if err := s.client.Do(ctx, s.client.B().Del().Key(s.names.opening()).Build()).Error(); err != nil {
		return err
	}

	known, err := s.readID(ctx)
	if err == nil && !known {
		err = errors.New("the id of the data was set, and is not there: does Redis evict keys? (set maxmemory-policy to noeviction)")
	}

	return err
}

// mark sets those of the marks that are not there: data was lost at loss, µs, or never if that is 0.
func (s *Store) mark(ctx context.Context, marks []string, loss int64) error {
	sets := make([]rueidis.Completed, len(marks))
	value := rueidis.BinaryString(binary.LittleEndian.AppendUint64(nil, uint64(loss)))

	for i, mark := range marks {
		sets[i] = s.client.B().Set().Key(mark).Value(value).Nx().Px(keepData).Build()
	}

	for _, response := range s.client.DoMulti(ctx, sets...) {
		if err := response.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
	}

	return nil
}

// now returns the store's time, µs.
func (s *Store) now(ctx context.Context) (int64, error) { return timeOf(ctx, s.client, s.clock) }

// timeOf returns what clock says, or Redis if it is nil, µs.
func timeOf(ctx context.Context, client rueidis.Client, clock func() int64) (int64, error) {
	if clock != nil {
		return clock(), nil
	}

	parts, err := client.Do(ctx, client.B().Time().Build()).AsIntSlice()
	if err == nil && len(parts) != 2 {
		err = errAnswer
	}

	if err != nil {
		return 0, fmt.Errorf("TIME said %v: %w", parts, err)
	}

	return parts[0]*1_000_000 + parts[1], nil
}

// renewMarks has the marks and the id live as long as at the beginning.
func (s *Store) renewMarks(ctx context.Context) error {
	keys := append(s.names.marks(), s.names.numbers(), s.names.id()) // the id last: it says that the others were renewed
	commands := make([]rueidis.Completed, len(keys))

	for i, key := range keys {
		commands[i] = s.client.B().Pexpire().Key(key).Milliseconds(keepData.Milliseconds()).Build()
	}

	for _, response := range s.client.DoMulti(ctx, commands...) {
		if err := response.Error(); err != nil {
			return err
		}
	}

	return nil
}

// randomID returns an id that no other data has, as text; never 0.
func randomID() (string, error) {
	var b [8]byte

	for {
		if _, err := rand.Read(b[:]); err != nil {
			return "", err
		}

		if b != [8]byte{} {
			return string(b[:]), nil
		}
	}
}
