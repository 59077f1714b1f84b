// Package coordinator grants leases: it finds the rule that an ask is about,
// hands the ask to the store under that rule's terms, and passes the rules in
// force on to holders.
//
//	holders ──Acquire──▶ bounds ──▶ rule and override ──▶ store (atomic, its own time)
//	   ▲                                   ▲
//	   └───────Watch────── Book ◀──Apply───┘── file, rule store, caller
//
// It keeps no count of its own: everything that must be exact is in the store, so
// any number of coordinators can stand before one store and any of them can stop.
// What it remembers is the present rules (Book) and who has asked lately (presence).
//
// Its neighbours are store and ledger below, and rpc (the same calls over a
// network) and the SDK above, which sees a Coordinator as its Source.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/rule"
)

// Config says what a Coordinator works with.
type Config struct {
	// Store keeps the ledgers. Required.
	Store store.Store
	// Book has the rules in force. Required.
	Book *Book
	// Overrides are negotiated limits from outside the rule document; nil for none.
	Overrides *Overrides
	// Meter sees what keys use; nil for none.
	Meter *Meter
	// Beat is the time between two notes to the store of who lives; 2 s by default.
	Beat time.Duration
	// Clock tells which day or month it is, for calendar windows; time.Now by default.
	Clock func() time.Time
	// Logger hears of recovered panics and of beats that fail; silent by default.
	Logger *slog.Logger
}

// Coordinator answers batches of asks and passes on rules. It is safe for concurrent use.
type Coordinator struct {
	store    store.Store
	book     *Book
	logger   *slog.Logger
	beat     time.Duration
	clock    func() time.Time
	presence *presence
	counts   counts
	outside  *Overrides // nil for none
	meter    *Meter     // nil for none
	rollouts rollouts
	work     sync.Pool // of *work
}

// New returns a Coordinator, or an error that names what config lacks. It
// answers at once; Run keeps the count of live holders fresh.
func New(config Config) (*Coordinator, error) {
	switch {
	case config.Store == nil:
		return nil, errors.New("coordinator: Config.Store is missing (pass a store, such as memory.New)")
	case config.Book == nil:
		return nil, errors.New("coordinator: Config.Book is missing (pass NewBook(nil))")
	case config.Beat < 0:
		return nil, fmt.Errorf("coordinator: Config.Beat is %v (leave it 0 for 2s)", config.Beat)
	case config.Beat == 0:
		config.Beat = 2 * time.Second
	}

	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}

	if config.Clock == nil {
		config.Clock = time.Now
	}

	return &Coordinator{
		clock: config.Clock, store: config.Store, book: config.Book, logger: config.Logger, beat: config.Beat,
		presence: newPresence(config.Store, config.Clock), outside: config.Overrides, meter: config.Meter,
		rollouts: rollouts{rules: xsync.NewMap[string, *rolledOut]()},
		work:     sync.Pool{New: func() any { return &work{} }},
	}, nil
}

// Run tells the store which holders live, every Config.Beat, until ctx ends, and then returns ctx's error.
func (c *Coordinator) Run(ctx context.Context) error {
	ticker := time.NewTicker(c.beat)
	defer ticker.Stop()

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			err := c.presence.beat(ctx)
			if ctx.Err() != nil {
				continue
			}

			c.counts.unbeaten.Store(err != nil)

			if err != nil {
				c.rarely("the store did not take the note of who lives", "error", err)
			}
		}
	}
}

// Acquire applies a batch of asks, each to its own ledger, and returns an answer
// for each, in order. The batch is not changed. An error means that the batch as
// a whole cannot be read, or that a bug was hit: nothing is known of any ask.
func (c *Coordinator) Acquire(ctx context.Context, batch *ledger.Batch) (*ledger.Answers, error) {
	return c.answer(ctx, batch, batch == nil || !batch.Visit || len(batch.Asks) > 0)
}

// answer applies a batch, whose holder lives if it is counted.
func (c *Coordinator) answer(ctx context.Context, batch *ledger.Batch, counted bool) (answers *ledger.Answers, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.counts.panics.Add(1)
			c.rarely("a panic was recovered", "panic", p, "stack", string(debug.Stack()))
			answers, err = nil, fmt.Errorf("coordinator: a panic was recovered: %v", p)
		}
	}()

	if err := checkBatch(batch); err != nil {
		return nil, err
	}

	c.counts.acquires.Add(1)
	c.counts.asks.Add(int64(len(batch.Asks)))

	answers = replyTo(batch)
	edition := c.book.now()

	if batch.Version > edition.set.Version {
		c.book.Raise(batch.Version) // its next batch finds newer rules here, if not this one
		edition = c.book.reach(ctx, edition, batch.Version)
	}

	if batch.Version > edition.set.Version {
		fill(answers.Keys, ledger.KeyBehind)
	} else {
		c.apply(ctx, edition, batch, answers.Keys)
	}

	answers.Live = c.presence.live.Load()
	if counted {
		answers.Live = c.presence.see(ctx, batch, edition.fit(batch.Tallies))
	}

	answers.Store = c.store.ID()
	answers.Version = edition.set.Version
	c.counts.codes(answers.Keys)

	return answers, nil
}

// replyTo returns the answers to fill in, blank.
func replyTo(batch *ledger.Batch) *ledger.Answers {
	answers := batch.Reply
	if answers == nil {
		answers = &ledger.Answers{}
	}

	n := len(batch.Asks)
	answers.Keys = slices.Grow(answers.Keys[:0], n)[:n]
	clear(answers.Keys)

	return answers
}

// Watch calls apply with the rules in force, unless the holder knows them, and
// with every newer set, until ctx ends; then it returns ctx's error. A watcher
// that is slow gets only the newest. A set that apply refuses is not offered again.
func (c *Coordinator) Watch(ctx context.Context, known uint64, apply func(*rule.Set) error) error {
	c.counts.watchers.Add(1)
	defer c.counts.watchers.Add(-1)

	return c.book.Watch(ctx, known, apply)
}

// WatchOverrides calls changed when overrides from outside the document have changed, as Overrides.WatchOverrides
// does, until ctx ends; then it returns ctx's error.
func (c *Coordinator) WatchOverrides(ctx context.Context, changed func(rules []string)) error {
	if c.outside == nil {
		<-ctx.Done()

		return ctx.Err()
	}

	return c.outside.WatchOverrides(ctx, changed)
}

// apply sends to the store what it should decide, and fills in the answers.
func (c *Coordinator) apply(ctx context.Context, edition *edition, batch *ledger.Batch, answers []ledger.KeyAnswer) {
	work, _ := c.work.Get().(*work)
	defer c.done(work)

	ops, index := work.ops[:0], work.index[:0]
	name := c.presence.nameOf(batch)

	if c.outside != nil {
		work.wanted = edition.overridable(batch.Asks, work.wanted[:0])
		work.known = slices.Grow(work.known[:0], len(batch.Asks))[:len(batch.Asks)]
		clear(work.known)
		c.outside.learn(work.wanted, work.known) //nolint:contextcheck // a lookup goes on for the asks that come after this one
	}

	for i := range batch.Asks {
		asked := &batch.Asks[i]

		var found *remembered
		if c.outside != nil {
			found = &work.known[i]
		}

		terms, code := edition.terms(asked, c.clock, found)
		if found != nil && found.unfit {
			c.outside.unfit.Add(1)
		}

		if code != ledger.KeyOK {
			answers[i].Code = code

			continue
		}

		ask := asked.Ask
		ask.Holder, ask.Seq, ask.Name = batch.Holder, batch.Seq, name
		ask.Lag = max(-maxLag, min(ask.Lag, maxLag))
		ask.Long = ask.Long && (found == nil || !found.ends(c.clock, terms.Long()))

		ops = append(ops, store.Op{Key: store.Key{Rule: asked.Rule, Key: asked.Key}, Terms: terms, Ask: ask})
		index = append(index, i)
	}

	work.ops, work.index = ops, index

	if len(ops) == 0 {
		return
	}

	work.results = slices.Grow(work.results[:0], len(ops))[:len(ops)]
	results := work.results
	c.store.Apply(ctx, ops, results)

	now := int64(0)
	if c.meter != nil {
		now = c.clock().UnixMicro()
	}

	for k := range results {
		answer := &answers[index[k]]

		if err := results[k].Err; err != nil {
			answer.Code = ledger.KeyUnavailable
			c.rarely("the store did not answer", "error", err)

			continue
		}

		answer.Answer = results[k].Answer
		c.book.heed(edition, &answer.Answer)

		if t := edition.reached(ops[k].Key.Rule, ops[k].Key.Key); t != nil && !c.presence.counts(batch) {
			c.rollouts.count(t, &ops[k].Ask, &answer.Answer)
		}

		if c.meter != nil {
			c.meter.note(now, edition.rules[ops[k].Key.Rule].rule.Window, &batch.Asks[index[k]], &answer.Answer)
		}

		if c.outside != nil {
			answer.Answer.AskAgain = min(answer.Answer.AskAgain, overridePatience)
		}
	}
}

// work is what one batch needs on its way to the store and back.
type work struct {
	ops     []store.Op
	index   []int // of the ask that an op is for
	results []store.Result
	wanted  []wanted
	known   []remembered // of each ask's key
}

// done keeps w for another batch, without what it refers to.
func (c *Coordinator) done(w *work) {
	clear(w.ops)
	clear(w.results)
	clear(w.wanted)
	c.work.Put(w)
}

func fill(answers []ledger.KeyAnswer, code ledger.KeyCode) {
	for i := range answers {
		answers[i].Code = code
	}
}

// rarely logs, once in a while: what fails at all can fail with every call.
func (c *Coordinator) rarely(message string, attributes ...any) {
	if c.counts.mayLog(time.Now()) {
		c.logger.Error(message, attributes...) //nolint:sloglint // both parts are fixed at each call
	}
}
