package coordinator

import (
	"context"
	"runtime/debug"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

// What follows is for tables in the coordinator's own process: where the store is there as well, they need not lease
// tokens of a bucket, but can have all of it until somebody else wants to know.

// StoreTime returns the store's time, µs; ok is false if nothing can be lent of it.
func (c *Coordinator) StoreTime() (now int64, ok bool) {
	lender, ok := c.store.(store.Lender)
	if !ok {
		return 0, false
	}

	return lender.Now(), true
}

// Lend lends the bucket of a key whole to a table in this process, until it is
// returned or recalled: to.Begin is told. ok is false if tokens of it have to be leased, or nothing is to be had: Acquire tells.
func (c *Coordinator) Lend(ask *ledger.LoanAsk, to ledger.Borrower) (fleet ledger.Fleet, ok bool) {
	defer c.recovered(func() { ok = false })

	lender, ok := c.store.(store.Lender)
	edition := c.book.now()

	if !ok || ask.Version > edition.set.Version {
		return fleet, false
	}

	asks := [1]ledger.KeyAsk{{Rule: ask.Rule, Key: ask.Key}}

	terms, code := edition.terms(&asks[0], c.clock, c.foreknown(edition, &asks))
	if code != ledger.KeyOK {
		return fleet, false
	}

	live := c.presence.see(context.Background(), &ledger.Batch{
		Holder: ask.Holder, Name: ask.Name, Version: ask.Version, Tallies: ask.Tallies,
	}, edition.fit(ask.Tallies))
	loan := store.Loan{Key: store.Key{Rule: ask.Rule, Key: ask.Key}, Terms: terms, MostQ: ask.MostQ}

	if ok = lender.Lend(&loan, to); !ok {
		return fleet, false
	}

	c.counts.asks.Add(1)
	c.counts.code[ledger.KeyOK].Add(1)

	return ledger.Fleet{Live: live, Brief: c.outside != nil}, true
}

// recovered is deferred: after a panic it calls failed.
func (c *Coordinator) recovered(failed func()) {
	if p := recover(); p != nil {
		c.counts.panics.Add(1)
		c.rarely("a panic was recovered", "panic", p, "stack", string(debug.Stack()))
		failed()
	}
}

// Prepare waits, some milliseconds at most, for what Lend wants to know of a key, so that Lend need not. It takes no lock of the table.
func (c *Coordinator) Prepare(ruleID, key string) {
	if c.outside == nil {
		return
	}

	defer c.recovered(func() {})

	asks := [1]ledger.KeyAsk{{Rule: ruleID, Key: key}}
	c.outside.learn(c.book.now().overridable(asks[:], nil), make([]remembered, 1))
}

// foreknown returns what is known by now of the override of an ask's key; nil if there are none from outside the document.
func (c *Coordinator) foreknown(edition *edition, asks *[1]ledger.KeyAsk) *remembered {
	if c.outside == nil {
		return nil
	}

	known := &remembered{}
	for _, one := range edition.overridable(asks[:], nil) {
		*known, _ = c.outside.of(one.overrideID, c.clock().UnixMicro())
	}

	return known
}

// Return takes back a key's bucket from of, if it still has it.
func (c *Coordinator) Return(ask *ledger.LoanAsk, of ledger.Borrower) {
	if lender, ok := c.store.(store.Lender); ok {
		lender.Return(store.Key{Rule: ask.Rule, Key: ask.Key}, of)
	}
}

// Used notes that tokens were spent of a bucket that was lent.
func (c *Coordinator) Used(ask *ledger.LoanAsk, tokens int64) {
	if t := c.book.now().rules[ask.Rule]; c.meter != nil && t != nil && tokens > 0 {
		c.meter.used(c.clock().UnixMicro(), t.rule.Window, ask, tokens)
	}
}
