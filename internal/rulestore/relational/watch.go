package relational

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// Watch asks for the head at once, whenever a change is announced, and every Config.Poll: an announcement that is lost delays
// a change and never loses it.
func (s *Store) Watch(ctx context.Context, tell func(rulestore.Head, error)) error {
	woken := make(chan struct{}, 1)
	s.subscribe(woken)
	defer s.unsubscribe(woken)

	if listen := s.dialect.Listen; listen != nil {
		ctx, cancel := context.WithCancel(ctx)
		var listening sync.WaitGroup
		listening.Go(func() { listen(ctx, func() { nudge(woken) }) })
		defer listening.Wait()
		defer cancel()
	}

	if s.dialect.Part > 0 {
		ctx, cancel := context.WithCancel(ctx)
		var settling sync.WaitGroup
		settling.Go(func() { s.settleAlways(ctx) })
		defer settling.Wait()
		defer cancel()
	}

	w := watch{store: s, tell: tell}
	ticker := time.NewTicker(s.config.Poll)
	defer ticker.Stop()
	for {
		w.ask(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-woken:
		}
	}
}

// watch is what one watcher was told.
type watch struct {
	store *Store
	tell  func(rulestore.Head, error)

	head   rulestore.Head
	known  bool
	failed bool      // and the watcher knows
	aged   bool      // what it knows of is an older state
	back   time.Time // when an older state was first seen; zero: none is
}

// settleBack is how long an older state must have stood until it passes for one that was restored.
const settleBack = 5 * time.Second

// ask reads the head, and tells what is new about it.
func (w *watch) ask(ctx context.Context) {
	head, err := w.store.headNow(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil && w.older(head) {
		err = &rulestore.Error{
			Code: rulestore.Unavailable, Place: "head",
			Message: fmt.Sprintf("the versions of the rule store have gone back from %d to %d",
				max(w.head.Rules, w.head.Overrides), max(head.Rules, head.Overrides)),
			Fix: "wait: what was restored is in force once it has stood for a few seconds", Err: rulestore.ErrOlder,
		}
	}
	if err != nil {
		// While a backup is being restored tables are gone at first, and then there is an older state: that is news.
		if aged := errors.Is(err, rulestore.ErrOlder); !w.failed || aged && !w.aged {
			w.failed, w.aged = true, aged
			w.tell(w.head, err)
		}
		return
	}
	if head != w.head || !w.known || w.failed {
		w.head, w.known, w.failed = head, true, false
		w.tell(head, nil)
	}
}

// older reports whether a head is of an older state, that has not stood long enough to be taken for the present one.
func (w *watch) older(head rulestore.Head) bool {
	switch {
	case head.Rules >= w.head.Rules && head.Overrides >= w.head.Overrides:
		w.back = time.Time{}
	case w.back.IsZero():
		w.back = time.Now()

		return true
	case time.Since(w.back) < settleBack:
		return true
	}
	return false
}

// headNow does not wait for a database that hangs.
func (s *Store) headNow(ctx context.Context) (rulestore.Head, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	c, err := s.open(ctx)
	if err != nil {
		return rulestore.Head{}, err
	}
	defer c.close()
	h, err := c.head(ctx, "")
	return h.head(), err
}

func (s *Store) subscribe(woken chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[woken] = struct{}{}
}

func (s *Store) unsubscribe(woken chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, woken)
}

// wake has the watchers of this process ask now.
func (s *Store) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for woken := range s.watchers {
		nudge(woken)
	}
}

func nudge(woken chan struct{}) {
	select {
	case woken <- struct{}{}:
	default: // it has not looked at the last one yet
	}
}
