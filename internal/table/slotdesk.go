package table

import (
	"context"
	"sync"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/slots"
)

const (
	slotCalls   = 16        // calls about slots under way at once
	slotTries   = 4         // calls that one request makes itself, one after the other
	tellIdle    = 250_000   // µs after which idle slots are reported, so that others get them
	offerEvery  = 3_000_000 // µs after which an offer is renewed
	slotOutage  = 200_000   // µs until a key is looked at again while no coordinator answers
	maxBerths   = slots.MaxNeeds
	deskRefills = time.Millisecond
)

// desk is where slots are asked for and given back, beside the queue of tokens:
// who asks for a slot must not wait behind a million refills.
type desk struct {
	mu      sync.Mutex
	queue   []*slotKey
	agenda  agenda
	stir    chan struct{} // the wheel's
	urgent  chan struct{} // a request waits
	refill  chan struct{} // nobody waits
	flying  chan struct{}
	calls   sync.WaitGroup
	build   sync.Mutex // one batch at a time is built, so that a key's seqs go up
	tickets tickets
}

func (d *desk) init() {
	d.urgent = make(chan struct{}, 1)
	d.refill = make(chan struct{}, 1)
	d.flying = make(chan struct{}, slotCalls)
}

// enqueueSlots asks for k: at once if a request waits, else with the next tick. Never under k's lock.
func (t *Table) enqueueSlots(k *slotKey, urgent bool) {
	if t.cfg.Inline || t.steps != nil {
		for range slotTries {
			if len(t.slotCall(context.Background(), []*slotKey{k})) == 0 {
				return
			}
		}

		return
	}

	d := &t.desk

	if !k.asking.Swap(true) {
		d.mu.Lock()
		d.queue = append(d.queue, k)
		d.mu.Unlock()
	}

	if urgent {
		signal(d.urgent)
	} else {
		signal(d.refill)
	}
}

// runDesk sends calls until ctx ends, and then waits for those under way.
func (t *Table) runDesk(ctx context.Context) {
	d := &t.desk

	delay := time.NewTimer(time.Hour)
	defer delay.Stop()
	delay.Stop()

	armed := false

	for {
		select {
		case <-ctx.Done():
			d.calls.Wait()

			return
		case <-d.urgent:
			t.flushSlots()
		case <-d.refill:
			if !armed {
				armed = true

				delay.Reset(deskRefills)
			}
		case <-delay.C:
			armed = false

			t.flushSlots()
		}
	}
}

// flushSlots sends what is queued, as many calls as may be under way.
func (t *Table) flushSlots() {
	d := &t.desk

	for {
		select {
		case d.flying <- struct{}{}:
		default:
			return // a call that ends flushes again
		}

		d.mu.Lock()
		n := min(len(d.queue), maxBatch)
		chunk := append([]*slotKey(nil), d.queue[:n]...)
		d.queue = append(d.queue[:0], d.queue[n:]...)
		d.mu.Unlock()

		if n == 0 {
			<-d.flying

			return
		}

		d.calls.Go(func() {
			defer func() {
				<-d.flying
				signal(d.urgent)
			}()

			for _, k := range t.slotCall(context.Background(), chunk) {
				t.enqueueSlots(k, k.lined.Load() > 0)
			}
		})
	}
}

// slotCall asks the source once about keys, and returns those that should ask again.
func (t *Table) slotCall(ctx context.Context, keys []*slotKey) (more []*slotKey) {
	c, _ := t.flights.Get().(*flight)
	defer t.land(c)

	defer t.recovered(func(err error) {
		for _, k := range keys { // those that were not reached have left the queue as well
			k.asking.Store(false)
		}

		t.fail(t.clock.Now(), nil, err)
		t.loseSlots(t.clock.Now(), c.keys)
	})

	t.boardSlots(c, keys)

	boarded := c.keys
	if len(boarded) == 0 {
		return nil
	}

	ctx, cancel := t.bounded(ctx)
	defer cancel()

	t.counts.calls.Add(1)
	t.counts.asks.Add(int64(len(boarded)))

	answers, ok := t.exchange(ctx, c)
	now := t.clock.Now()

	if !ok {
		t.loseSlots(now, boarded)

		return nil
	}

	for i, k := range boarded {
		if k.hear(now, &answers.Keys[i]) {
			more = append(more, k)
		}
	}

	return more
}

func (t *Table) loseSlots(now int64, keys []*slotKey) {
	for _, k := range keys {
		t.mishaps.Guard("missing an answer", func() { k.locked(func() { k.lose(now, true) }) }) // the others must hear of it
	}
}

// boardSlots builds the call, and leaves the keys that are in it in c.
func (t *Table) boardSlots(c *flight, keys []*slotKey) {
	t.desk.build.Lock()
	defer t.desk.build.Unlock()

	seq := t.seq.Add(1)
	c.entries, c.keys, c.more, c.costs = c.entries[:0], c.keys[:0], c.more[:0], c.costs[:0]
	c.batch = ledger.Batch{
		Holder: t.holder, Name: t.cfg.Name, Seq: seq, Version: t.Set().Version,
		Asks: c.batch.Asks[:0], Tallies: c.batch.Tallies[:0], Reply: &c.reply,
	}

	for _, k := range keys {
		k.asking.Store(false)

		if ask, ok := k.ask(t.clock.Now(), seq); ok {
			c.batch.Asks = append(c.batch.Asks, ledger.KeyAsk{Rule: k.rule.id, Key: k.ledgerKey(), Ask: ask})
			c.keys = append(c.keys, k)
		}
	}

	if len(c.keys) > 0 {
		c.batch.Tallies = t.tallies(c.batch.Tallies)
	}
}

// ask builds k's message, unless one is on its way.
func (k *slotKey) ask(now int64, seq uint64) (ledger.Ask, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()

	k.refresh()

	if _, flying := k.Asked(); flying || k.gone || k.limit.Load() == 0 || !k.bounds() {
		return ledger.Ask{}, false
	}

	var needs []int64

	sum := int64(0)

	for _, w := range k.line[:min(len(k.line), maxBerths)] {
		if w.n > 0 {
			needs = append(needs, w.n)
			sum += w.n
		}
	}

	a := k.Ask(now, slots.Need{Seq: seq, Needs: needs, Spare: k.spare(now, sum)})
	k.seq, k.told, k.recalled = seq, now, false
	k.rule.counts.asks.Add(1)

	return ledger.Ask{
		Holder: k.rule.table.holder, Seq: seq, Slots: true, Spent: a.Busy, Needs: a.Needs, RaiseTo: a.Want,
		Offer: k.offer,
	}, true
}

// hear takes in an answer, and reports whether k should ask again at once.
func (k *slotKey) hear(now int64, a *ledger.KeyAnswer) (more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()

	got, n := &a.Answer, a.Answer.Terms.Bucket.Burst

	heard := a.Code == ledger.KeyOK && (got.Status == ledger.Superseded || got.Terms.Algorithm == rate.Concurrency) &&
		k.Hear(k.seq, got.TTL, slots.Answer{
			N:          n,
			Superseded: got.Status == ledger.Superseded, Slots: got.Granted, Others: got.Others, Holders: got.Holders, Short: got.Short,
		})
	if !heard {
		k.lose(now, a.Code == ledger.KeyOK)

		return false
	}

	k.downTo, k.fullTill = 0, 0
	k.limit.Store(n) // of an override, or of rules newer than those that were pushed
	k.room.Store(n - got.Others - got.Granted)

	if got.Short {
		k.fullTill = now + got.AskAgain
	}

	k.serve(now)

	if got.Short {
		k.turnAway(func(h *SlotHit) { k.turn(h, FromStore) })
	}

	k.rule.table.desk.sooner(k, max(k.dueAt(now), now+1))

	return len(k.line) > 0 && !got.Short || len(k.line) == 0 && k.eager.Load() && k.Idle() > 0
}

// lose is an ask without a usable answer; under the lock.
func (k *slotKey) lose(now int64, transient bool) {
	k.Lost()

	t := k.rule.table

	if !transient {
		k.downTo = now + keyBackoff
	}

	k.serve(now)
	k.turnAway(func(h *SlotHit) {
		if !k.withoutStore(now, h) {
			k.turn(h, FromLocal)
		}
	})

	t.desk.sooner(k, now+slotOutage)
}

// dueAt returns when k has something to do by itself, which may be past; under the lock.
func (k *slotKey) dueAt(now int64) int64 {
	at := k.used + idleAfter

	if renew := k.Renew(); renew != 0 {
		at = renew

		if k.Idle() > 0 && !k.rule.table.cfg.Alone {
			at = min(at, k.told+tellIdle)
		}
	} else if k.Busy() > 0 {
		at = now // in flight, and not told
	}

	if k.Idle() < 0 || k.Doubts(now) {
		at = now // more, or less, than was told
	}

	if len(k.line) > 0 && k.fullTill > 0 {
		at = min(at, k.fullTill)
	}

	if k.offer > 0 {
		at = min(at, k.told+offerEvery)
	}

	if k.recalled && k.Slots() > 0 {
		at = now
	}

	return at
}

// visit does what is due for k. It returns when k is to be visited again, 0 if it
// left the table, and whether it should ask now.
func (k *slotKey) visit(now int64) (again int64, ask bool) {
	k.mu.Lock()
	defer k.mu.Unlock()

	if k.gone {
		return 0, false
	}

	k.Expire(now)

	_, flying := k.Asked()
	holds := k.Busy() > 0 || k.Slots() > 0 || len(k.line) > 0 || k.Doubts(now) || k.offer > 0 && k.bounds()

	switch {
	case flying:
		return now + busyAgain, false
	case !holds && now >= k.used+idleAfter:
		k.leave()

		return 0, false
	case !k.bounds():
		return now + slotOutage, false // nobody to tell: what is in flight ends, and what is held expires
	}

	if down, probe := k.down(now, holds); down {
		k.serve(now)

		return now + slotOutage, probe
	}

	at := k.dueAt(now)
	if at <= now {
		return now + busyAgain, holds
	}

	return at, false
}

// advanceSlots does what is due at now.
func (t *Table) advanceSlots(now int64) {
	due := t.desk.take(now)

	defer func() { // as in Advance: what is in flight under the others must go on to be told
		for i, k := range due {
			if i == 0 {
				t.desk.sooner(k, now+idleAfter)
			} else {
				t.desk.sooner(k, now+busyAgain)
			}
		}
	}()

	for ; len(due) > 0; due = due[1:] {
		t.visitSlots(due[0], now)
	}
}

// visitSlots does what is due for k at now.
func (t *Table) visitSlots(k *slotKey, now int64) {
	again, ask := k.visit(now)
	if again != 0 {
		t.desk.sooner(k, again)
	}

	if ask {
		t.enqueueSlots(k, false)
	}
}

// recall has the keys of r ask soon, since their limit may have changed.
func (t *Table) recall(r *Rule) {
	now := t.clock.Now()

	r.slots.all(func(k *slotKey) {
		k.mu.Lock()
		k.recalled = true
		k.mu.Unlock()

		t.desk.sooner(k, now)
	})
}

// returnSlots gives back what is idle, and takes back what is offered, as far as ctx allows. What is in flight expires.
func (t *Table) returnSlots(ctx context.Context) error {
	for range slotCalls { // wait for the calls under way, and let no other begin
		select {
		case t.desk.flying <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	var holding []*slotKey

	for _, r := range append(t.allRules(), t.fleet.all, t.fleet.rest) {
		r.each(func(r *Rule) {
			r.slots.all(func(k *slotKey) {
				k.mu.Lock()
				defer k.mu.Unlock()

				offered := k.offer > 0
				k.offer = 0

				if offered || k.Slots() > 0 || k.Doubts(t.clock.Now()) {
					holding = append(holding, k)
				}
			})
		})
	}

	for len(holding) > 0 && ctx.Err() == nil {
		n := min(len(holding), maxBatch)
		t.slotCall(ctx, holding[:n])
		holding = holding[n:]
	}

	return ctx.Err()
}
