package admin

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// view is the rules and settings as this door shows them: what the server follows, but never from before a change that was made
// here. Whoever writes finds at once what was written; what others write shows as soon as the server hears of it. While the
// store is down the last state is shown.
type view struct {
	store  rulestore.Store
	latest func() *rulestore.State

	least atomic.Uint64 // the version of the last change that was made here
	turn  chan struct{} // held to load: who comes meanwhile wants the same
	own   atomic.Pointer[rulestore.State]
}

// loadWithin bounds how long somebody waits for a store that does not answer.
const loadWithin = 10 * time.Second

// state is the present one. It is shared, and never changed.
func (v *view) state(ctx context.Context) (*rulestore.State, error) {
	if s := v.ready(); s != nil {
		return s, nil
	}

	ctx, cancel := context.WithTimeout(ctx, loadWithin)
	defer cancel()

	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return nil, explain(ctx.Err(), false)
	}

	if s := v.ready(); s != nil { // somebody else was here
		return s, nil
	}

	least := v.least.Load()

	loaded, err := v.store.Load(ctx)
	if err == nil {
		v.own.Store(loaded)

		if loaded.Rules < least { // a backup was restored, and what was written here is not there any more
			v.least.CompareAndSwap(least, loaded.Rules)
		}

		return loaded, nil
	}

	if s := v.newest(); s != nil {
		return s, nil // old, and better than nothing
	}

	return nil, explain(err, false)
}

// ready is a state that is new enough; nil if there is none.
func (v *view) ready() *rulestore.State {
	least := v.least.Load()

	for _, s := range [...]*rulestore.State{v.latest(), v.own.Load()} {
		if s != nil && s.Rules >= least {
			return s
		}
	}

	return nil
}

// newest is the newest state that is at hand; nil for none. It asks nobody.
func (v *view) newest() *rulestore.State {
	latest, own := v.latest(), v.own.Load()
	if latest == nil || own != nil && own.Rules > latest.Rules {
		return own
	}

	return latest
}

// wrote notes a change of rules or settings that was made here.
func (v *view) wrote(record *rulestore.Record) {
	for {
		least := v.least.Load()
		if record.Version <= least || v.least.CompareAndSwap(least, record.Version) {
			return
		}
	}
}

// fresh reads the store, for a change to what is there now.
func (v *view) fresh(ctx context.Context) (*rulestore.State, error) {
	loaded, err := v.store.Load(ctx)
	if err != nil {
		return nil, explain(err, false)
	}

	return loaded, nil
}
