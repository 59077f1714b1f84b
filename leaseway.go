// Package leaseway limits how fast callers may use an API, exactly across a
// whole fleet, from each server's own memory.
//
// A Limiter decides requests under a rule document (package rule). It holds
// leases: tokens of each caller's budget that a coordinator granted and that it
// spends without asking anyone. So a decision costs nanoseconds, and still no
// window of any length sees more than burst + rate × time over all servers.
//
//	limiter, err := leaseway.Dial(ctx, []string{"127.0.0.1:8081"})  // remote coordinators
//	limiter, err := leaseway.Embedded(rules)                        // this process alone
//
//	decision := limiter.Decide(ctx, leaseway.Request{APIKey: "k1", Method: "GET", Path: "/v1/search"})
//
// Where a rule bounds what is in flight (algorithm: concurrency) the request holds a slot until it is over:
//
//	defer limiter.Done(decision)
//
// A refusal is a Decision, not an error, and Decide never fails: while no
// coordinator answers, each rule's onUnavailable says what to do. Package
// leasewayhttp has the middleware that answers 429 with the right headers.
package leaseway

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/store/memory"
	"github.com/leaseway/leaseway/internal/table"
	"github.com/leaseway/leaseway/rule"
)

// Source is where a Limiter's leases and rules come from. Dial and Embedded
// make their own; only programs of this module implement others.
type Source = table.Source

// Limiter decides requests. It is safe for concurrent use. Close it.
type Limiter struct {
	table   *table.Table
	shedder *shedder
	options options

	stop    context.CancelFunc
	work    sync.WaitGroup
	release []func(context.Context) error // what the Limiter made for itself
	saved   *savedRules

	scratches sync.Pool // of *scratch
	shadowed  shadowed
	closed    atomic.Bool
	ended     chan struct{} // closed when Close is done
	outcome   error         // of Close; to be read once ended is closed
	trip      func(stage)   // of tests alone, see at
}

// embeddedTTL is how long leases live that never leave the process.
const embeddedTTL = 10 * time.Second

// firstRules is how long Dial waits for a coordinator when no rules are kept on disk.
const firstRules = 5 * time.Second

// Embedded returns a Limiter with a coordinator and a memory store inside this
// process: the limits hold for this process alone. The rules stay as they are:
// where they are to change while the program runs, Dial a coordinator, or open a
// Redis by leasewayredis.OpenFile.
func Embedded(rules *rule.Set, opts ...Option) (*Limiter, error) {
	if rules == nil {
		return nil, &Error{Code: CodeInvalid, Message: "no rules", Hint: "parse a document with rule.Parse"}
	}

	book := coordinator.NewBook(nil)
	book.Lengthen(embeddedTTL)

	if _, err := book.Apply(rules); err != nil {
		return nil, &Error{Code: CodeInvalid, Message: "these rules cannot be put in force", Err: err}
	}

	store, err := memory.New(memory.Config{})
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Message: "the memory store does not start", Err: err}
	}

	c, err := coordinator.New(coordinator.Config{Store: store, Book: book})
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Message: "the coordinator does not start", Err: err}
	}

	l := newLimiter(c, true, append(slices.Clip(opts), optionFunc(func(o *options) { o.alone = true })))
	l.release = append(l.release, store.Close)

	if err := l.table.SetRules(book.Current()); err != nil {
		return nil, &Error{Code: CodeInvalid, Message: "these rules cannot be put in force", Err: err}
	}

	l.idle(rules)
	l.start(func(ctx context.Context) { _ = c.Run(ctx) })

	return l, nil
}

// Over returns a Limiter over any Source, with Dial's waiting for the first rules.
func Over(ctx context.Context, source Source, opts ...Option) (*Limiter, error) {
	l := newLimiter(source, false, opts)

	kept, err := l.saved.load()
	if err != nil {
		l.options.logger.Warn("the rules kept on disk cannot be used", "error", err)
	}

	if kept != nil {
		_ = l.table.SetRules(kept) // the first set is never too old
	}

	ready := make(chan struct{})

	l.start(func(ctx context.Context) { l.watch(ctx, source, ready) })

	if kept != nil {
		return l, nil
	}

	timer := time.NewTimer(firstRules)
	defer timer.Stop()

	select {
	case <-ready:
		return l, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		if l.options.late {
			l.options.logger.Warn("no coordinator sent any rules yet: everything is allowed until one does")

			return l, nil
		}
	}

	l.halt()

	return nil, &Error{
		Code: CodeUnavailable, Message: "no coordinator sent any rules", Err: err,
		Hint: "check that one runs at these addresses; with WithStateDir a server starts from the last rules it had",
	}
}

func newLimiter(source Source, inline bool, opts []Option) *Limiter {
	o := gather(opts)
	if o.inline {
		inline = true
	}

	saved := &savedRules{dir: o.stateDir}

	l := &Limiter{
		options:   o,
		release:   o.release,
		ended:     make(chan struct{}),
		scratches: sync.Pool{New: newScratch},
		saved:     saved,
		table: table.New(source, table.Config{
			Name: o.name, Holder: o.holder, Deadline: o.deadline, MaxKeys: o.maxKeys,
			Logger: o.logger, Clock: o.clock, Inline: inline, Alone: o.alone, Workers: o.workers,
			Switches: o.switches,
			Live:     saved.live(), OnLive: func(n int64) {
				if err := saved.saveLive(n); err != nil {
					o.logger.Warn("how many servers there are cannot be kept on disk", "error", err)
				}
			},
		}),
	}
	l.shedder = newShedder(l.table, &l.options)

	return l
}

// start runs the Limiter's background work until Close.
func (l *Limiter) start(also func(context.Context)) {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop

	bugs := l.table.Mishaps()

	l.work.Go(func() { bugs.Keep(ctx, "working in the background", l.table.Run) })
	l.work.Go(func() { bugs.Keep(ctx, "measuring the load", l.shedder.run) })
	l.work.Go(func() { bugs.Keep(ctx, "following the rules", also) })
}

func (l *Limiter) halt() {
	l.stop()
	l.work.Wait()
}

// watch follows the source's rules until ctx ends; ready is closed with the first.
func (l *Limiter) watch(ctx context.Context, source Source, ready chan struct{}) {
	if told, ok := source.(table.Teller); ok {
		l.work.Go(func() {
			l.table.Mishaps().Keep(ctx, "hearing of overrides", func(ctx context.Context) {
				_ = told.WatchOverrides(ctx, l.table.Overridden) // it ends with ctx
			})
		})
	}

	first := sync.OnceFunc(func() { close(ready) })
	pause := watchAgain

	for ctx.Err() == nil {
		err := source.Watch(ctx, l.table.Set().Version, func(set *rule.Set) error {
			pause = watchAgain

			if err := l.table.SetRules(set); err != nil {
				l.options.logger.Warn("rules were refused", "version", set.Version, "error", err)

				return err
			}

			first()
			l.idle(set)

			if err := l.saved.save(set); err != nil {
				l.options.logger.Warn("the rules cannot be kept on disk", "error", err)
			}

			return nil
		})
		if ctx.Err() != nil {
			return
		}

		l.options.logger.Warn("the rules are not being watched; trying again", "error", err)

		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
			pause = min(2*pause, watchAgainMost)
		}
	}
}

// The pauses after a watch that failed, before jitter.
const (
	watchAgain     = 100 * time.Millisecond
	watchAgainMost = 5 * time.Second
)

// Degraded reports whether no coordinator answers, so that decisions follow each rule's onUnavailable.
func (l *Limiter) Degraded() bool { return l.table.Down() }

// Rules returns the rule set in force. It must not be changed.
func (l *Limiter) Rules() *rule.Set { return l.table.Set() }

// Close gives back what is leased, as far as ctx allows, and stops the
// Limiter's work. Decisions made after it follow each rule's onUnavailable.
// Another call waits for the first, as far as its own ctx allows, and returns
// the same.
func (l *Limiter) Close(ctx context.Context) error {
	if !l.closed.Swap(true) {
		l.outcome = l.shut(ctx)
		close(l.ended)
	}

	select {
	case <-l.ended:
		return l.outcome
	default: // a context that has ended must not hide an outcome that is there
	}

	select {
	case <-l.ended:
		return l.outcome
	case <-ctx.Done():
		return ctx.Err()
	}
}

// shut is what Close does, once.
func (l *Limiter) shut(ctx context.Context) error {
	err := l.table.Close(ctx)
	l.halt()

	for _, release := range l.release {
		if e := release(ctx); err == nil {
			err = e
		}
	}

	return err
}

// incarnation draws what identifies this process among all holders, restarts included.
func incarnation() uint64 {
	for {
		if n := rand.Uint64(); n != 0 {
			return n
		}
	}
}
