package table

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

const (
	maxBatch    = 256 // keys of one call
	maxCalls    = 64  // calls under way at once
	refillDelay = time.Millisecond
	// A call may take longer than a request waits for it: a late answer still refills.
	callDeadlines  = 5
	minCallTimeout = 100 * time.Millisecond
	// In an outage nobody waits for a call: one that is slow to bring an answer still ends it. If all gave up
	// sooner than a coordinator that is just back can answer them, none would ever be heard.
	probePatience = 4

	beatEvery = 2 * time.Second // without a call, until one about nothing

	// A lease of the next window is asked for this long before it begins, µs.
	leadLeast  = 20_000
	leadSpread = 200_000
)

// send makes one call for entries, and another for those that then still want one.
func (t *Table) send(entries []*Entry) {
	c, _ := t.flights.Get().(*flight)
	defer t.land(c)

	defer t.recovered(func(err error) {
		for _, e := range entries { // those that were not reached have left the queue as well
			e.asking.Store(false)
		}

		t.fail(t.clock.Now(), c.entries, err)
	})

	for len(entries) > 0 {
		t.call(context.Background(), c, entries)

		if !t.cfg.Inline {
			for _, e := range c.more {
				t.enqueue(e, true)
			}

			return
		}

		entries = append(entries[:0], c.more...)
	}
}

// flight is one call: what it needs is kept for the next.
type flight struct {
	batch   ledger.Batch
	reply   ledger.Answers
	entries []*Entry   // whose asks are in the batch
	keys    []*slotKey // the same in a call about slots
	more    []*Entry   // that should ask again
	costs   []int64    // of the waiters on board
	back    bool       // give everything back
}

func newFlight() any { return &flight{} }

// land keeps c for another flight, without what it refers to.
func (t *Table) land(c *flight) {
	clear(c.batch.Asks)
	clear(c.batch.Tallies)
	clear(c.entries)
	clear(c.more)
	clear(c.keys)
	t.flights.Put(c)
}

// call asks the source once about entries.
func (t *Table) call(ctx context.Context, c *flight, entries []*Entry) {
	c.more = c.more[:0]

	t.board(c, entries)

	if len(c.entries) == 0 {
		return
	}

	ctx, cancel := t.bounded(ctx)
	defer cancel()

	t.counts.calls.Add(1)
	t.counts.asks.Add(int64(len(c.entries)))

	answers, ok := t.exchange(ctx, c)
	if !ok {
		return
	}

	now := t.clock.Now()

	for i, e := range c.entries {
		if e.hear(now, &answers.Keys[i]) {
			c.more = append(c.more, e)
		}
	}
}

// exchange makes the call, and notes what it says of the fleet and of the coordinator.
func (t *Table) exchange(ctx context.Context, c *flight) (*ledger.Answers, bool) {
	answers, err := t.acquire(ctx, &c.batch)

	if err == nil && answers.Version < c.batch.Version {
		// A coordinator that numbers its rules by itself did nothing but give them a newer number: it can be asked again.
		t.counts.calls.Add(1)

		answers, err = t.acquire(ctx, &c.batch)
	}

	if err == nil && len(answers.Keys) != len(c.batch.Asks) {
		err = fmt.Errorf("%d answers to %d asks", len(answers.Keys), len(c.batch.Asks))
	}

	if err == nil && answers.Version < c.batch.Version {
		err = errors.New("the coordinator runs older rules than this holder")
	}

	if err != nil {
		t.fail(t.clock.Now(), c.entries, err)

		return nil, false
	}

	if !t.closed.Load() && t.out.succeed() {
		t.cfg.Logger.Info("the coordinator answers again", "holder", t.cfg.Name)
	}

	t.setLive(max(1, answers.Live))

	return answers, true
}

// beat is a call about no key.
func (t *Table) beat() {
	c, _ := t.flights.Get().(*flight)
	defer t.land(c)

	defer t.recovered(func(err error) { t.fail(t.clock.Now(), nil, err) })

	ctx, cancel := t.bounded(context.Background())
	defer cancel()

	t.board(c, nil)
	t.exchange(ctx, c)
}

// bounded limits a call to callTimeout, unless nothing here passes by itself:
// then the source ends it in time.
func (t *Table) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.cfg.Inline || t.steps != nil {
		return ctx, func() {}
	}

	return context.WithTimeout(ctx, t.callTimeout())
}

func (t *Table) callTimeout() time.Duration {
	d := max(minCallTimeout, callDeadlines*time.Duration(t.deadline)*time.Microsecond)
	if t.Down() {
		d *= probePatience
	}

	return d
}

// acquire calls the source; a panic in it is an outage.
func (t *Table) acquire(ctx context.Context, batch *ledger.Batch) (answers *ledger.Answers, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.mishaps.Note("calling the source", p)

			err = fmt.Errorf("panic in the source: %v", p)
		}
	}()

	return t.source.Acquire(ctx, batch)
}

// board builds the call. Seqs of one key must go up, so one is built at a time.
func (t *Table) board(c *flight, entries []*Entry) {
	t.queue.build.Lock()
	defer t.queue.build.Unlock()

	seq := t.seq.Add(1)
	c.costs, c.entries = c.costs[:0], c.entries[:0]
	c.batch = ledger.Batch{
		Holder: t.holder, Name: t.cfg.Name, Seq: seq, Version: t.Set().Version,
		Asks: c.batch.Asks[:0], Tallies: c.batch.Tallies[:0], Reply: &c.reply,
	}

	for _, e := range entries {
		e.asking.Store(false)

		if e.stray && slices.ContainsFunc(c.entries, e.twin) { // they would get one answer, and both spend it
			c.more = append(c.more, e)

			continue
		}

		if ask, ok := e.ask(t.clock.Now(), seq, c); ok {
			c.batch.Asks = append(c.batch.Asks, ledger.KeyAsk{Rule: e.rule().id, Key: e.rule().ledgerKey(e.key()), Ask: ask})
			c.entries = append(c.entries, e)
		}
	}

	if len(c.entries) > 0 || len(entries) == 0 { // or else there will be no call
		c.batch.Tallies = t.tallies(c.batch.Tallies)
	}
}

// ask builds e's message, unless one is on its way.
func (e *Entry) ask(now int64, seq uint64, c *flight) (ledger.Ask, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	t := e.rule().table
	e.refresh()

	if _, ok := e.Asked(); ok || e.gone || e.mute() {
		return ledger.Ask{}, false
	}

	if e.ahead && len(e.waits()) == 0 && !c.back && !e.leaving() {
		e.ahead = false
		e.asked()

		return e.AskAhead(now, holder.Need{Seq: seq, Holder: t.holder}), true
	}

	if len(e.waits()) == 0 && !c.back && !e.leaving() && e.Suffices(now) {
		return ledger.Ask{}, false // it was low when this flight was called for, and an answer came since
	}

	takes, needs := e.board(c)
	e.fold()
	e.asked()

	return e.Ask(now, t.clock, holder.Need{
		Seq: seq, Holder: t.holder, Takes: takes, Needs: needs, Brief: now < e.rule().brief.Load(),
		Holders: t.live.Load(), TTL: e.limits.Load().ttl, Return: e.leaving() || c.back,
	}), true
}

// hear takes in an answer, and reports whether e should ask again.
func (e *Entry) hear(now int64, a *ledger.KeyAnswer) (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if a.Code != ledger.KeyOK || !e.Hear(now, &a.Answer) {
		e.lost(now, a.Code == ledger.KeyOK)

		if a.Code == ledger.KeyUnknownRule && e.leaving() {
			e.Forget() // its rule is gone everywhere
		}

		return false
	}

	if shared, own := e.rule().terms.Load(), e.rule().own.Load(); e.Share(shared) != shared && own != nil &&
		own.bucket.Bucket == a.Answer.Terms.Bucket && own.ttl == a.Answer.Terms.TTL {
		e.rule().terms.Store(e.Share(nil))
	}

	if a.Answer.Ahead {
		return len(e.waits()) > 0
	}

	e.saw(now, &a.Answer)

	if now < e.rule().brief.Load() {
		e.Hasten() // it was on its way when something changed
	}

	e.lead = uint16((leadLeast + e.rule().table.cfg.Random(leadSpread)) >> leadShift)
	e.scatter(now, &a.Answer)
	e.recheck(now, &a.Answer)

	if a.Answer.Taken != 0 {
		e.win(now)
	}

	if a.Answer.Terms.Algorithm == rate.Concurrency {
		e.Forget() // the rule counts slots by now, of which no token is one: nobody will ever hear of what is owed
	}

	e.land(now, &a.Answer)
	e.rule().table.wheel.sooner(e, sooner(e.Refresh(), e.LookAt()))

	return len(e.waits()) > 0 || e.Owes()
}

// lost is an ask without a usable answer; under the lock.
func (e *Entry) lost(now int64, transient bool) {
	var again int64
	if !transient {
		again = now + e.rule().table.out.jittered(keyBackoff)
	}

	e.Lost(again)

	e.crash()
}

// unanswered is lost for an ask whose call brought nothing.
func (e *Entry) unanswered(now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.lost(now, true)
}

// fail handles a call that brought nothing.
func (t *Table) fail(now int64, entries []*Entry, err error) {
	t.counts.failed.Add(1)

	if t.out.fail(now, 0) {
		t.cfg.Logger.Warn("no coordinator answers; deciding as each rule's onUnavailable says", "holder", t.cfg.Name, "error", err)
	}

	for _, e := range entries {
		t.mishaps.Guard("missing an answer", func() { e.unanswered(now) }) // the others must hear of it
	}
}

// returnAll gives every lease back in as few calls as possible.
func (t *Table) returnAll(ctx context.Context) error {
	for range maxCalls { // wait for the calls under way, and let no other begin
		select {
		case t.queue.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	var holding []*Entry

	for _, r := range t.allRules() {
		r.returnLoans()

		r.keys.all(func(n *name) {
			e := n.entry()

			e.mu.Lock()
			defer e.mu.Unlock()

			if e.Holds() || e.Owes() {
				holding = append(holding, e)
			}
		})
	}

	c := &flight{back: true}

	for len(holding) > 0 && ctx.Err() == nil {
		n := min(len(holding), maxBatch)
		t.call(ctx, c, holding[:n])

		if more := slices.Clone(c.more); len(more) > 0 {
			t.call(ctx, c, more) // a refund needs a lease to be credited to
		}

		holding = holding[n:]
	}

	return ctx.Err()
}

func (t *Table) allRules() []*Rule {
	t.mu.Lock()
	defer t.mu.Unlock()

	rules := make([]*Rule, 0, len(t.rules))
	for _, r := range t.rules {
		r.each(func(r *Rule) { rules = append(rules, r) })
	}

	t.own.each(func(r *Rule) { rules = append(rules, r) })

	return rules
}

// counts of the table's calls.
type counts struct {
	calls, asks, failed, late, overflow, off atomic.Int64

	lent atomic.Int64 // calls for a loan
}
