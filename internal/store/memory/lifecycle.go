package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// open takes in what an earlier store left in cfg.Dir and starts to say that this one is alive.
func (s *Store) open(cfg Config) error {
	d, err := openDirectory(cfg.Dir)
	if err != nil {
		return err
	}

	s.dir = d

	if err := s.inherit(cfg); err != nil {
		d.release()

		return fmt.Errorf("memory store: data directory %s: %w", cfg.Dir, err)
	}

	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.marker.Go(func() { s.keepMark(ctx) })

	return nil
}

// inherit finds out how the last store ended, sets the clock after all that it
// knew, and makes sure that its snapshot is never taken in again.
func (s *Store) inherit(cfg Config) error {
	mark, marked, markErr := s.dir.lastMark()

	saved, restored, readErr := s.takeIn(cfg.MaxKeys)
	if readErr != nil && !errors.As(readErr, new(*corruptError)) {
		return readErr
	}

	s.now = steady(cfg.Clock, max(mark, saved))
	now := s.now()

	switch {
	case readErr != nil, !restored && markErr != nil:
		s.loss = max(1, now) // there is nothing that says when: as late as can be
	case !restored && marked:
		s.loss = max(1, min(mark+markEvery.Microseconds(), now))
	}

	if err := s.dir.writeMark(now); err != nil {
		return err
	}

	return s.finish(restored, errors.Join(readErr, markErr))
}

// finish removes the snapshot and tells what was found.
func (s *Store) finish(restored bool, cause error) error {
	switch {
	case restored:
		s.log.Info("memory store: ledgers restored", slog.Int64("keys", s.Stats().Keys))
	case errors.As(cause, new(*corruptError)):
		name, err := s.dir.setAside()
		if err != nil {
			return err
		}

		s.log.Error("memory store: the snapshot is not readable; all counts are lost and every key starts empty",
			slog.Any("error", cause), slog.String("keptAs", name))
	case s.loss != 0:
		attrs := []any{slog.Time("at", time.UnixMicro(s.loss).UTC())}
		if cause != nil {
			attrs = append(attrs, slog.Any("error", cause))
		}

		s.log.Warn("memory store: the last run did not stop in order, and its counts are lost: so that nobody gets a second budget, "+
			"every key counts as having spent all of it at that time, but under rules with afterLoss: full", attrs...)
	}

	return s.dir.consume()
}

// A corruptError says that the snapshot is there and cannot be used.
type corruptError struct{ cause error }

func (e *corruptError) Error() string {
	return "the snapshot is corrupt or foreign: " + e.cause.Error()
}
func (e *corruptError) Unwrap() error { return e.cause }

// takeIn reads the snapshot if there is one, and returns when it was made. An
// error that is no corruptError means that the file could not be read at all.
func (s *Store) takeIn(maxKeys int) (saved int64, restored bool, err error) {
	f, err := s.dir.snapshot()
	if f == nil || err != nil {
		return 0, false, err
	}
	defer f.Close()

	saved, err = s.readSnapshot(f)
	if err != nil {
		s.clear(maxKeys)

		return 0, false, &corruptError{err}
	}

	return saved, true, nil
}

// Close stops the store. With a directory it writes the snapshot; an error says
// that there is none, because of the disk or of ctx, and that the next start
// will be one after a crash. Further calls return the same.
func (s *Store) Close(ctx context.Context) error {
	s.closing.Do(func() { s.closed = s.shut(ctx) })

	return s.closed
}

func (s *Store) shut(ctx context.Context) error {
	s.beats.close()
	s.borrowers.closed.Store(true)
	s.borrowers.returnAll()

	for i := range s.shards {
		s.shards[i].close()
	}

	if s.dir == nil {
		return nil
	}

	s.stop()
	s.marker.Wait()

	defer s.dir.release()

	now := s.now()

	err := s.dir.replace(func(w io.Writer) error { return s.writeSnapshot(ctx, w, now) })
	if err != nil {
		// Then at least the time of the loss is known to the end.
		return fmt.Errorf("memory store: the counts cannot be kept, and the next start takes every budget for spent: %w",
			errors.Join(err, s.dir.writeMark(now)))
	}

	return s.dir.removeMark()
}
