package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/leaseway/leaseway"
	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/rpc"
	"github.com/leaseway/leaseway/internal/rulefeed"
	rulestorefile "github.com/leaseway/leaseway/internal/rulestore/file"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/rule"
)

// engine is what decides: a Limiter, and where its leases come from. That is a coordinator with its store in this process,
// or, for a holder, a client of remote ones; the fields of the other kind are nil.
type engine struct {
	log     *slog.Logger
	limiter *leaseway.Limiter

	coordinator *coordinator.Coordinator
	book        *coordinator.Book
	name        string // of the limiter, and its incarnation
	incarnation uint64
	store       store.Store
	storeCounts source
	signer      *rpc.Signer
	rules       *ruleFile            // nil without --rules
	accord      *coordinator.Accord  // of those rules, among all coordinators of a store in Redis
	shown       *rulestorefile.Store // of rules, for those who look at them
	ruleStore   *rulefeed.Late       // nil with --rules
	feed        *rulefeed.Feed       // from ruleStore
	overrides   *coordinator.Overrides
	meter       *coordinator.Meter // of the coordinator
	notes       *notes             // by which it tells others of its store what it hears

	client *rpc.Client
	token  *shownToken // by which it calls; nil for none
}

// openEngine opens either kind. What it opened before an error it closes.
func openEngine(ctx context.Context, config *Config, log *slog.Logger) (*engine, error) {
	e := &engine{log: log}

	var err error
	if config.holder() {
		err = e.openHolder(ctx, config)
	} else {
		err = e.openCoordinator(ctx, config)
	}

	if err != nil {
		return nil, errors.Join(err, e.close(ctx))
	}

	return e, nil
}

// openCoordinator starts with the rules: bad ones are the likeliest reason not to start, and leave nothing to undo.
func (e *engine) openCoordinator(ctx context.Context, config *Config) error {
	book := coordinator.NewBook(nil)
	e.book = book

	if err := e.openRules(ctx, config, book); err != nil {
		return err
	}

	var err error

	if e.store, e.storeCounts, err = openStore(ctx, config, e.log); err != nil {
		return err
	}

	if err := e.joinRules(ctx, config); err != nil {
		return err
	}

	if config.Proxy == nil { // nobody leases from a proxy
		if e.signer, err = openSigner(config, e.log); err != nil {
			return err
		}
	}

	e.meter = coordinator.NewMeter()

	if e.coordinator, err = coordinator.New(coordinator.Config{
		Store: e.store, Book: book, Overrides: e.overrides, Meter: e.meter, Logger: e.log,
	}); err != nil {
		return err
	}

	e.name, e.incarnation = config.Name, newIncarnation()

	opts := append(config.shedding(), leaseway.WithName(config.Name), leaseway.WithIncarnation(e.incarnation),
		leaseway.WithDeadline(config.Deadline), leaseway.WithLogger(e.log))
	if config.inMemory() {
		opts = append(opts, leaseway.WithInProcess()) // no call leaves the process, so none needs to be waited for
	}

	e.limiter, err = leaseway.Over(ctx, e.coordinator, opts...)
	e.openNotes(config.inMemory())

	return err
}

func (e *engine) openRules(ctx context.Context, config *Config, book *coordinator.Book) error {
	if config.Rules == "" {
		return e.openFeed(ctx, config, book)
	}

	apply := book.Apply
	if !config.inMemory() {
		e.accord = coordinator.NewAccord(book, nil, e.log)
		apply = e.accord.Apply
	}

	e.shown = rulestorefile.New(config.Rules)
	e.rules = &ruleFile{path: config.Rules, log: e.log, now: book.Current, apply: func(set *rule.Set) (uint64, error) {
		version, err := apply(set)
		if err == nil {
			err = e.shown.Show(book.Current())
		}

		return version, err
	}}

	return e.rules.open()
}

// joinRules has the rules of a file numbered as other coordinators of the store have them, if there can be any.
func (e *engine) joinRules(ctx context.Context, config *Config) error {
	register, ok := e.store.(store.Register)
	if e.accord == nil || !ok {
		return nil
	}

	if err := e.accord.Join(ctx, register); err != nil {
		return usage("--rules %s: %v", config.Rules, err)
	}

	e.log.Info("rules in force, numbered as by all coordinators of this store", "path", config.Rules,
		"rules", len(e.book.Current().Rules), "version", e.book.Current().Version)

	return e.shown.Show(e.book.Current())
}

// follow has f look at the files that the engine has open.
func (e *engine) follow(f *follower) {
	if e.rules != nil {
		f.follow(e.rules.path, e.rules.refresh)
	}

	if e.token != nil {
		f.follow(e.token.path, e.token.refresh)
	}
}

// readiness is how to ask whether the engine can decide. Asking is cheap: anyone may, and as often as they like.
func (e *engine) readiness() *readiness {
	if e.client == nil {
		watch := &storeWatch{counts: func() (answered, unanswered int64, unbeaten bool) {
			stats := e.coordinator.Stats()

			return stats.OK, stats.Unavailable, stats.Unbeaten
		}}

		return &readiness{store: func() string { return watch.fault(time.Now()) }, feed: e.feedFault}
	}

	// A holder decides without its coordinator, too: that is what it is for. To
	// take all of them out of service then would make an outage of a degradation.
	return &readiness{
		rules:    func() bool { return e.limiter.Rules().Version > 0 },
		degraded: func() bool { return e.limiter.Degraded() || e.client.Unavailable() },
		store: func() string {
			if e.client.Stats().Mixed {
				return "the coordinators have different stores: name only those of one with --coordinator"
			}

			return ""
		},
	}
}

// run does what goes on beside the requests, until ctx ends.
func (e *engine) run(ctx context.Context) {
	var tasks sync.WaitGroup

	if e.feed != nil {
		plans := &rollouts{store: e.ruleStore, latest: e.feed.Latest, counts: e.fleet().rolledOut, now: time.Now, log: e.log}

		tasks.Go(func() { _ = e.feed.Run(ctx) })
		tasks.Go(func() { e.notes.run(ctx) })
		tasks.Go(func() { plans.run(ctx) })
	}

	if e.accord != nil {
		tasks.Go(func() { _ = e.accord.Run(ctx) })
		tasks.Go(func() { _ = e.book.Watch(ctx, e.book.Current().Version, e.shown.Show) })
	}

	if e.coordinator != nil {
		_ = e.coordinator.Run(ctx) // which returns when ctx ends, and only then, as the feed does
	}

	tasks.Wait()
}

// close gives leases back, then closes what they came from, so that they are in the snapshot.
func (e *engine) close(ctx context.Context) error {
	var errs []error

	if e.limiter != nil {
		if err := e.limiter.Close(ctx); err != nil {
			// They come back by themselves when their TTL ends.
			e.log.Warn("leases were not returned", "error", err)
		}
	}

	if e.client != nil {
		errs = append(errs, e.client.Close())
	}

	if e.store != nil {
		errs = append(errs, e.store.Close(ctx))
	}

	return errors.Join(append(errs, e.closeRules())...)
}
