// Package rulefeed keeps the rules of a rule store in force in a coordinator.
//
//	          ┌─────────── Watch: a head is new ───────────┐
//	rule store│                                            ▼
//	 (late) ──┴── Load ──▶ State ── mend ──▶ Above(base) ──▶ Book ──▶ holders
//	    ▲                                                    │  │
//	    └────────── renumber: a higher base ◀── behind ──────┘  └──▶ kept on disk
//
// The store counts versions from 1, and all coordinators of a store must number alike: what they hand to holders is the store's
// version above a base, which is a setting of the store. When a holder shows a higher version than there is, or the
// store's own go back, as after a backup was restored, the base goes up for all of them.
//
// A store that is out of reach, or a row that is no rule, changes nothing of what is in force: a Feed starts with the rules that
// it kept on disk, and a rule whose row is bad stays as it was last good.
//
// Its neighbours are rulestore, where the rules come from, and coordinator, whose Book it fills; the server runs it.
package rulefeed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// Config says what a Feed works with.
type Config struct {
	// Store has the rules. Required.
	Store rulestore.Store
	// Book gets them; nothing else may put rules into it. Required.
	Book *coordinator.Book
	// Dir is where the last good rules are kept for a start without the store; "" for nowhere.
	Dir string
	// Kind is a word for the store, such as sqlite: what was kept of one is not taken for another's. "" for any.
	Kind string
	// Seed is what the store begins with if it never had a rule or setting; nil for nothing.
	Seed *rule.Set
	// OnOverrides is called, and must return soon, when a version has changed overrides: of which rules and which of their
	// keys. No keys of a rule are all of them, and no rules are all rules. nil for nothing.
	OnOverrides func(version uint64, rules map[string][]string)
	// Logger hears of versions, of bad rows and of a store that does not answer; silent by default.
	Logger *slog.Logger
	// Now is the clock of bases and of the ends of switches; nil for that of the system.
	Now func() time.Time
}

// Feed follows a rule store. Open comes first, then Run; Stats may be called at any time.
type Feed struct {
	config Config
	log    *slog.Logger

	behind  atomic.Uint64 // the highest version that a holder showed above the present one
	charged atomic.Uint64 // the highest that a ledger was charged under, likewise
	shown   chan struct{} // there is one
	news    chan news     // the last that Watch told
	known   rulestore.Head
	back    bool // the store is of an older state than known: see adopt
	applied bool // rules of the store are in force: known is of them
	good    memory
	rebased time.Time // when the base last went up

	latest  atomic.Pointer[rulestore.State]
	base    atomic.Uint64
	version atomic.Uint64 // of the store, in force
	down    atomic.Pointer[string]
	older   atomic.Bool            // what is down is an older state
	stuck   atomic.Pointer[string] // why the store's rules are not in force, though it answers
	bad     atomic.Pointer[[]rulestore.BadRow]
	changes atomic.Int64
	refused atomic.Int64
}

type news struct {
	head rulestore.Head
	err  error
}

const (
	// again is how soon the store is read again after it could not be, or was not fit.
	again = time.Second
	// openWithin bounds how long a start waits for the store.
	openWithin = 10 * time.Second
	// firstPause is how long a start waits for another coordinator that is at the base.
	firstPause = 20 * time.Millisecond
	// rebaseEvery is the least time between two changes of the base.
	rebaseEvery = time.Second
)

// New returns a Feed, or an error that names what config lacks.
func New(config Config) (*Feed, error) {
	if config.Store == nil || config.Book == nil {
		return nil, errors.New("rulefeed: Config.Store and Config.Book are required")
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	f := &Feed{config: config, log: config.Logger, shown: make(chan struct{}, 1), news: make(chan news, 1)}
	config.Book.Number(f.showBehind)
	config.Book.Heed(f.showCharged)
	return f, nil
}

// Open puts the store's rules in force, or those kept on disk when it cannot be reached. Without either it is an error: to
// start without the limits that somebody wrote would be to let everything pass.
func (f *Feed) Open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	err := f.first(ctx)
	if err == nil {
		return nil
	}
	last, keptErr := f.kept()
	if keptErr == nil && last != nil {
		keptErr = f.config.Book.Put(last.Set)
		f.latest.Store(last)
	}
	if keptErr != nil || last == nil {
		return errors.Join(fmt.Errorf("rules: %w", err), keptErr)
	}
	f.noteDown(err)
	f.log.Warn("started with the last rules that were kept, without the rule store",
		"rules", len(last.Set.Rules), "version", last.Set.Version)
	return nil
}

// first reads the store until its rules are in force: other coordinators may be at its base, or its seed, at the same time.
func (f *Feed) first(ctx context.Context) error {
	for {
		err := f.refresh(ctx)
		if err != nil || f.applied {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("the rules of the store cannot be put in force: " + text(f.stuck.Load()))
		case <-time.After(firstPause):
		}
	}
}

// Run follows the store until ctx ends, and returns ctx's error.
func (f *Feed) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- f.config.Store.Watch(ctx, f.tell) }()
	defer func() {
		cancel()
		<-watched //nolint:errcheck // it is the context's
	}()

	var (
		retry, late <-chan time.Time
		caught      time.Time
	)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-f.news:
			if n.err != nil {
				f.noteDown(n.err)
				continue
			}
			f.noteUp()
			f.back = f.applied && (n.head.Rules < f.known.Rules || n.head.Overrides < f.known.Overrides)
			f.overrides(ctx, n.head)
			retry = f.follow(ctx)
		case <-f.shown:
			if late == nil { // whatever a holder says, the store is not read for it all the time
				late = time.After(again - min(again, time.Since(caught)))
			}
		case <-late:
			late, caught = nil, time.Now()
			f.catchUp(ctx)
			retry = f.follow(ctx)
		case <-retry:
			retry = f.follow(ctx)
		}
	}
}

// tell keeps only the last news: it is called one at a time.
func (f *Feed) tell(head rulestore.Head, err error) {
	select {
	case <-f.news:
	default:
	}
	f.news <- news{head, err}
}

// follow reads the store, and returns when to do so again if that did not do.
func (f *Feed) follow(ctx context.Context) <-chan time.Time {
	read := f.refresh
	if f.back {
		read = f.adopt
	}
	err := read(ctx)
	if err != nil && ctx.Err() == nil {
		f.noteDown(err)
	}
	if err != nil || f.stuck.Load() != nil {
		return time.After(again)
	}
	return nil
}

// overrides passes on that they may have changed.
func (f *Feed) overrides(ctx context.Context, head rulestore.Head) {
	if f.back {
		return // they are of an older state, which may not be taken
	}
	if f.config.OnOverrides != nil && head.Overrides != f.known.Overrides {
		f.config.OnOverrides(head.Overrides, f.changed(ctx, f.known.Overrides))
	}
	f.known.Overrides = head.Overrides
}

// refresh puts what the store has in force. An error is the store's; what is wrong with the rules is noted and logged.
func (f *Feed) refresh(ctx context.Context) error {
	state, err := f.config.Store.Load(ctx)
	if err != nil {
		return err
	}
	shown := f.highest()
	f.latest.Store(state)
	if f.applied && state.Rules == f.known.Rules && f.stuck.Load() == nil && f.base.Load()+state.Rules >= shown {
		return nil
	}
	base, ok := baseOf(state)
	if f.applied && state.Rules < f.known.Rules && (!ok || base+state.Rules <= f.config.Book.Current().Version) {
		return nil // an older state, which adopt looks at, unless another coordinator has
	}
	if done, err := f.seed(ctx, state); done || err != nil {
		return err
	}
	if !ok {
		return f.rebase(ctx, state, uint64(max(0, f.config.Now().UnixMicro())))
	}
	f.base.Store(base)
	f.noteBad(state.Bad)
	set := f.good.mend(state, f.current(base)).Above(base)
	switch err := f.config.Book.Put(set); {
	case errors.Is(err, coordinator.ErrOlder):
		return f.rebase(ctx, state, f.config.Book.Current().Version)
	case err != nil:
		f.refuse(err)
		return nil
	}
	f.inForce(state, set)
	if state.Overrides < f.known.Overrides { // another coordinator found that they went back
		f.forget(state.Overrides)
	}
	if set.Version < shown {
		return f.rebase(ctx, state, shown)
	}
	return nil
}

// current is what is in force, by the versions of the store.
func (f *Feed) current(base uint64) *rule.Set {
	set := f.config.Book.Current()
	if set.Version < base {
		return nil
	}
	return set
}

// inForce notes that the rules of a state are.
func (f *Feed) inForce(state *rulestore.State, set *rule.Set) {
	if f.stuck.Swap(nil) != nil || !f.applied || state.Rules != f.known.Rules {
		f.changes.Add(1)
		f.log.Info("rules in force", "rules", len(set.Rules), "version", state.Rules)
		f.logSwitches(set)
		f.keep(state, set)
	}
	f.applied, f.known.Rules = true, state.Rules
	f.version.Store(state.Rules)
}

// showBehind is what the Book calls.
func (f *Feed) showBehind(version uint64) { f.show(&f.behind, version) }

// showCharged is, too. While the store does not answer it says nothing: then another coordinator may have read newer rules before,
// and to outnumber those would have old ones decide.
func (f *Feed) showCharged(version uint64) { f.show(&f.charged, version) }

// highest is the highest version that there is beside the present one.
func (f *Feed) highest() uint64 { return max(f.behind.Load(), f.charged.Load()) }

func (f *Feed) show(kept *atomic.Uint64, version uint64) {
	for {
		highest := kept.Load()
		if version <= highest {
			return
		}
		if kept.CompareAndSwap(highest, version) {
			break
		}
	}
	select {
	case f.shown <- struct{}{}:
	default:
	}
}
