package rulefeed

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// Opened is a store that can be closed.
type Opened interface {
	rulestore.Store
	rulestore.Board
	Close() error
}

// Late is a rulestore.Store that may not be there yet: until it could be opened every call but Watch is answered with why not.
type Late struct {
	open func(ctx context.Context) (Opened, error)

	mu    sync.Mutex
	store Opened
	err   error
	ready chan struct{} // closed when there is a store
}

var (
	_ rulestore.Store = (*Late)(nil)
	_ rulestore.Board = (*Late)(nil)
)

// lateEvery is how often it is tried to open the store.
const lateEvery = time.Second

// NewLate tries once to open the store; Watch tries again.
func NewLate(ctx context.Context, open func(ctx context.Context) (Opened, error)) *Late {
	l := &Late{open: open, ready: make(chan struct{})}
	l.try(ctx)
	return l
}

// Close closes the store, if it was opened. No other call may be under way.
func (l *Late) Close() error {
	if store, err := l.now(); err == nil {
		return store.Close()
	}
	return nil
}

// Load implements rulestore.Store.
func (l *Late) Load(ctx context.Context) (*rulestore.State, error) {
	store, err := l.now()
	if err != nil {
		return nil, err
	}
	return store.Load(ctx)
}

// Write implements rulestore.Store.
func (l *Late) Write(ctx context.Context, change *rulestore.Change) (*rulestore.Record, error) {
	store, err := l.now()
	if err != nil {
		return nil, err
	}
	return store.Write(ctx, change)
}

// Overrides implements rulestore.Store.
func (l *Late) Overrides(ctx context.Context, query rulestore.Query) iter.Seq2[rulestore.Override, error] {
	store, err := l.now()
	if err != nil {
		return func(yield func(rulestore.Override, error) bool) { yield(rulestore.Override{}, err) }
	}
	return store.Overrides(ctx, query)
}

// History implements rulestore.Store.
func (l *Late) History(ctx context.Context, page rulestore.Page) ([]rulestore.Record, error) {
	store, err := l.now()
	if err != nil {
		return nil, err
	}
	return store.History(ctx, page)
}

// Pin implements rulestore.Board.
func (l *Late) Pin(ctx context.Context, from string, body []byte) error {
	store, err := l.now()
	if err != nil {
		return err
	}
	return store.Pin(ctx, from, body)
}

// Notes implements rulestore.Board.
func (l *Late) Notes(ctx context.Context) ([]rulestore.Note, rulestore.Head, error) {
	store, err := l.now()
	if err != nil {
		return nil, rulestore.Head{}, err
	}
	return store.Notes(ctx)
}

// Watch implements rulestore.Store. It opens the store as soon as that can be done.
func (l *Late) Watch(ctx context.Context, tell func(rulestore.Head, error)) error {
	told := false
	for {
		store, err := l.now()
		if err == nil {
			return store.Watch(ctx, tell)
		}
		if !told {
			told = true
			tell(rulestore.Head{}, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.ready:
		case <-time.After(lateEvery):
			l.try(ctx)
		}
	}
}

func (l *Late) now() (Opened, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store, l.err
}

// try opens the store, unless it is.
func (l *Late) try(ctx context.Context) {
	if _, err := l.now(); err == nil && l.isReady() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	store, err := l.open(ctx)

	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.err = asUnavailable(err)
	case l.store != nil: // somebody else did meanwhile
		_ = store.Close()
	default:
		l.store, l.err = store, nil
		close(l.ready)
	}
}

func (l *Late) isReady() bool {
	select {
	case <-l.ready:
		return true
	default:
		return false
	}
}

// asUnavailable makes an *rulestore.Error of any.
func asUnavailable(err error) error {
	if _, ok := errors.AsType[*rulestore.Error](err); ok {
		return err
	}
	return &rulestore.Error{Code: rulestore.Unavailable, Message: "the rule store cannot be opened", Fix: "see to the database", Err: err}
}
