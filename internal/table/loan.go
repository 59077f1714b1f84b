package table

import (
	"math"
	"runtime"
	"sync"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// Lender is a Source in this very process that can lend whole buckets, instead of leasing tokens of them.
type Lender interface {
	// StoreTime returns the time of the store, which goes as this process's clock
	// does, µs; ok is false if nothing can be lent of it.
	StoreTime() (now int64, ok bool)

	// Prepare waits, some milliseconds at most, for what Lend has to know of a key, which itself waits for nothing.
	Prepare(ruleID, key string)

	// Lend lends the bucket of a key: to begins with it. ok is false if it has to be leased, or if Acquire can
	// tell why nothing is to be had.
	Lend(ask *ledger.LoanAsk, to ledger.Borrower) (fleet ledger.Fleet, ok bool)

	// Return takes back the bucket of a key from of, if it still has it.
	Return(ask *ledger.LoanAsk, of ledger.Borrower)

	// Used notes that tokens were spent of what was lent.
	Used(ask *ledger.LoanAsk, tokens int64)
}

// loan is one key of one rule whose bucket is here, whole: the same that an
// Entry is for a key that is leased, in one line of a cache. It is lent once, and
// ends once: another loan takes its place, or an Entry if the ledger has somebody else to think of.
//
//	find ── open ──► Spend, or Turn in a new tick ──► answer      (no lock, no I/O)
//	  │ none, ended, or under other limits
//	  ▼
//	borrow ──► Lender ──► Begin: open, until it is recalled, or returned: idle, retired, closed
type loan struct {
	name

	limits *limits // under which it was lent

	holder.Loan //nolint:embeddedstructfieldcheck // what is compared and read first stands before it
}

// lends makes the table borrow from its source, if that lends. The two clocks
// go alike, so their difference is one for good, but for the microsecond that each may
// round down: the least that is seen when the store's is read just after ours.
func (t *Table) lends() {
	lender, ok := t.source.(Lender)
	if !ok || !t.cfg.Inline {
		return
	}

	t.ahead = math.MaxInt64

	for range clockLooks {
		before := t.clock.Now()

		now, ok := lender.StoreTime()
		if !ok {
			return
		}

		t.ahead = min(t.ahead, now-before)
	}

	t.lender = lender
}

// clockLooks is how often two clocks are compared: one of the looks is not interrupted.
const clockLooks = 32

// lendable reports whether buckets of the rule can be lent, as far as the rule can say.
func (r *Rule) lendable() bool {
	own := r.own.Load()

	return r.table.lender != nil && own != nil && own.drains && own.leases
}

// borrow returns the loan of key, open and under the limits in force as far as
// can be said, and whether this call made it. It returns nil for a key that has to be leased.
func (r *Rule) borrow(key string) (l *loan, fresh bool) {
	if !r.lendable() {
		return nil, false
	}

	key = rule.Compact(key)
	s := r.lent.secret.seek(key)

	if l, ok := r.standing(s, key); !ok {
		return l, false
	}

	r.table.lender.Prepare(r.id, r.ledgerKey(key)) // without the lock, which other keys need, too

	p := &r.lending[s.hash>>partShift]

	p.mu.Lock()
	defer p.mu.Unlock()

	if l, ok := r.standingNow(s, key); !ok {
		return l, false
	}

	l = r.lend(s, key, nil)

	return l, l != nil
}

// lending is one change of the loans of a part of a rule's keys at a time.
type lending struct {
	mu      sync.Mutex
	stripes *holder.Stripes // of the loan that is to begin; nil: it has none
}

// lend has the bucket of key lent, with stripes of it or nil, and returns nil if it has to be leased; under the lock of its part.
func (r *Rule) lend(s sought, key string, stripes *holder.Stripes) *loan {
	t, p := r.table, &r.lending[s.hash>>partShift]
	t.borrowing.Store(r.loanID(), r)

	ask := r.loanAsk(key)
	ask.MostQ, ask.Tallies = holder.MostQ(t.clock.Now()), t.tallies(nil)

	p.stripes = stripes
	fleet, ok := t.lender.Lend(&ask, (*borrowed)(t))
	p.stripes = nil

	if !ok {
		return nil
	}

	t.counts.lent.Add(1)
	t.counts.asks.Add(1)
	r.counts.asks.Add(1)

	if fleet.Brief && !t.brief.Load() {
		t.brief.Store(true)
	}

	t.setLive(max(1, fleet.Live))

	return r.lent.at(s, key).loan()
}

// standing returns the loan of a key if it stands, and reports whether one can be made if not.
func (r *Rule) standing(s sought, key string) (l *loan, lendable bool) {
	p := &r.lending[s.hash>>partShift]

	p.mu.Lock()
	defer p.mu.Unlock()

	return r.standingNow(s, key)
}

// standingNow is standing under the lock of the key's part.
func (r *Rule) standingNow(s sought, key string) (l *loan, lendable bool) {
	t := r.table

	if l = r.lent.at(s, key).loan(); l != nil {
		v := l.State()
		if v != holder.Closed && !l.outdated() {
			return l, false
		}

		l.giveBack()

		if v == holder.Closed && t.live.Load() > 1 && !r.retired.Load() {
			r.entryOf(key) // somebody else wanted it: who has it whole again would be first at each of its tokens
		}
	}

	return nil, r.keys.at(s, key) == nil && !r.retired.Load() && !t.closed.Load() && t.keys.Load() < t.cfg.MaxKeys
}

// loanID names the rule for what lends to it, and its test mode apart.
func (r *Rule) loanID() string { return r.ledgerKey(r.id) }

// loanAsk names the loan of a key.
func (r *Rule) loanAsk(key string) ledger.LoanAsk {
	t := r.table

	return ledger.LoanAsk{Holder: t.holder, Name: t.cfg.Name, Version: t.Set().Version, Rule: r.id, Key: r.ledgerKey(key)}
}

// borrowed is what a table has of the buckets of its source; see ledger.Borrower.
type borrowed Table

// rule returns the rule, or its test mode, that a ledger's key is of, and the key there; nil if nothing of it was ever lent.
func (b *borrowed) rule(ruleID, key string) (r *Rule, live string) {
	if live = rule.LiveKey(key); live != key {
		ruleID = rule.TestKey(ruleID)
	}

	if found, ok := b.borrowing.Load(ruleID); ok {
		r, _ = found.(*Rule)
	}

	return r, live
}

// Begin has the loan of a key begin, and found from now on.
func (b *borrowed) Begin(ruleID, key string, lent *ledger.Lent) {
	r, key := b.rule(ruleID, key)
	l := &loan{limits: r.loaned(key, &lent.Terms)}
	l.setKey(key)

	if p := &r.lending[r.lent.secret.seek(key).hash>>partShift]; p.stripes != nil {
		l.limits = l.limits.striped(p.stripes)

		b.striped.Add(1)
	}

	tat := lent.TAT.Shift(-b.ahead)
	if lent.Full {
		tat = tat.Min(rate.At(b.clock.Now())) // to the microsecond, whatever the clocks say
	}

	l.Begin(tat, &l.limits.bucket)
	r.lent.add(&l.name)
	b.keys.Add(1)

	if b.loans.Add(1) == 1 {
		signal(b.lent)
	}
}

// Recall ends the loan of a key.
func (b *borrowed) Recall(ruleID, key string) (back ledger.Lent, ok bool) {
	r, key := b.rule(ruleID, key)
	if r == nil {
		return back, false
	}

	l := r.lent.find(key).loan()
	if l == nil {
		return back, false
	}

	if l.State() == holder.Closed {
		return back, false // it was recalled before
	}

	return ledger.Lent{TAT: l.close().Shift(b.ahead), Terms: *l.limits.lent}, true
}

// ReturnAll gives all loans back.
func (b *borrowed) ReturnAll() {
	b.borrowing.Range(func(_, found any) bool {
		if r, ok := found.(*Rule); ok {
			r.returnLoans()
		}

		return true
	})
}

// close ends the loan, if it is not over, and returns when its bucket is full.
func (l *loan) close() rate.Time {
	v := l.limits
	c := v.rule.table.clock

	for {
		if at, over := l.End(holder.Ended{At: c.Now(), Ticks: c}, &v.bucket); over == holder.Closed {
			return holder.Full(at, &v.bucket)
		}

		runtime.Gosched() // somebody is in the middle of a decision
	}
}

// outdated reports whether the loan's limits are of another version than its key has now.
func (l *loan) outdated() bool {
	r := l.limits.rule

	return l.limits.version != r.version.Load() && l.limits.version != r.versionOf(l.key()).Version
}

// giveBack ends the loan, gives its bucket back and forgets it; under the lock of its part.
func (l *loan) giveBack() {
	r := l.limits.rule
	t := r.table

	ask := r.loanAsk(l.key())
	t.lender.Return(&ask, (*borrowed)(t))
	l.close() // a store that is closed takes nothing back
	l.fold()

	if r.lent.remove(&l.name) {
		t.keys.Add(-1)
		t.loans.Add(-1)

		if l.limits.bucket.Stripes != nil {
			t.striped.Add(-1)
		}
	}
}

// fold moves what the loan counted into its rule's counts, and reports whether there was anything; under the lock of its part.
func (l *loan) fold() bool {
	r := l.limits.rule
	spent, v := l.Count(&l.limits.bucket)

	for ; v == holder.Turned; spent, v = l.Count(&l.limits.bucket) {
		runtime.Gosched()
	}

	l.limits.counts.allowed[FromLease].Add(spent)
	l.limits.tally.fold(spent, 0)

	if spent > 0 {
		ask := r.loanAsk(l.key())
		r.table.lender.Used(&ask, spent)
	}

	return spent != 0
}
