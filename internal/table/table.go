// Package table is the shell around the holder: every key that this process
// knows, the calls that refill their leases, and what happens when they fail.
//
//	request ─► Rule.Take ─► lease's balance ─► answer           (no lock, no I/O)
//	                │ dry
//	                ▼
//	          entry's waiters ─► flight: one call carries many keys ─► Source
//	                ▲                                                    │
//	                └───────────── answers, or the local limit ◄─────────┘
//
// One flight at a time per key, and one in all while it is young: what comes
// meanwhile leaves together after it. A request waits for it at most until its
// deadline; then, and while no coordinator answers at all, the rule's
// onUnavailable decides. Refills go out in the background, before a lease runs
// dry, and wait a tick for company. A wheel renews leases at 0.6 of their TTL
// and has keys leave of which nothing is at stake; for a while a trace of each stays.
//
// What is in flight goes the same way through a desk of its own: see slotKey.
//
// Its neighbours: holder (the arithmetic of one lease) below, the SDK above,
// and the Source, a coordinator in this process or behind gRPC.
package table

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/internal/mishap"
	"github.com/leaseway/leaseway/rule"
)

// Config says how a table works; the zero value of each field has a default.
type Config struct {
	Name     string        // the holder's name; "" is fine
	Holder   uint64        // its incarnation; drawn if 0
	Deadline time.Duration // the longest a request waits for the source; 20 ms
	MaxKeys  int64         // keys remembered at most; 4,000,000
	Clock    *Clock        // the real one
	Logger   *slog.Logger  // nothing is logged without it

	// Live is how many holders lived when this process last knew, 1 if it never
	// did; OnLive hears of every change.
	Live   int64
	OnLive func(live int64)

	// Random draws a number from 0 to n - 1, for jitter; rand.Int64N.
	Random func(n int64) int64

	// Inline makes the requests themselves call the source, which suits one
	// that is in this process.
	Inline bool

	// Alone says that no other holder has this source, so that nobody else wants what is idle here.
	Alone bool

	// Workers is how many requests this process serves at once, for a fleet
	// shedder whose capacity is the sum of what servers announce; 0 adds nothing.
	Workers int64

	// Switches are kill switches of this process, beside those of its rules.
	Switches rule.Switches
}

// fewerAfter is how long fewer holders must have lived, µs.
const fewerAfter = 12_000_000

const (
	defaultDeadline = 20 * time.Millisecond
	defaultMaxKeys  = 4_000_000
)

// Table holds the leases of one process.
type Table struct {
	cfg      Config
	source   Source
	clock    *Clock
	deadline int64 // µs
	holder   uint64

	seq     atomic.Uint64
	running atomic.Pointer[running]
	off     atomic.Int64 // until when everything is switched off, µs since the Unix epoch; 0: it is on
	mu      sync.Mutex   // one change of rules at a time
	rules   map[string]*Rule

	out    outage
	queue  queue
	desk   desk
	fleet  Fleet
	own    *Rule    // counts the limits that requests bring along
	steps  *Stepped // what drives this table by hand; nil for most
	wheel  wheel
	counts counts
	keys   atomic.Int64 // traces and loans among them

	traces   atomic.Int64 // keys that rest
	swept    int64        // when traces were last looked at
	sweeping int          // the part that is looked at next

	lender  Lender        // nil: nothing is lent
	ahead   int64         // the store's time less this table's, µs
	loans   atomic.Int64  // keys whose buckets are lent
	striped atomic.Int64  // of them those with stripes
	brief   atomic.Bool   // loans should be given back soon
	walked  int64         // when walkAll last looked at them
	lent    chan struct{} // there are some again

	borrowing sync.Map // every *Rule that has or had loans, by its loanID

	hasty     chan struct{} // there is a rule whose leases should be hastened
	hastening atomic.Int64  // counts parts of keys that were

	live atomic.Int64

	waiters sync.Pool // of *waiter
	lines   sync.Pool // of *line
	flights sync.Pool // of *flight
	mishaps mishap.Log
	closed  atomic.Bool
	tallied atomic.Int64 // when the tallies were last reported
	beats   int64        // calls at the last beat; of dispatch alone
	fewer   atomic.Int64 // since when fewer holders live than are reckoned with; 0: not
}

// running is the rule set in force, with the table's side of each rule.
type running struct {
	set      *rule.Set
	rules    []*Rule       // as in set.Rules
	rolled   []*Rule       // those of them that have a tally
	switches rule.Switches // the set's and the process's own
}

// New returns a table over source. Run must run while it is used.
func New(source Source, cfg Config) *Table {
	if cfg.Deadline <= 0 {
		cfg.Deadline = defaultDeadline
	}

	if cfg.MaxKeys <= 0 {
		cfg.MaxKeys = defaultMaxKeys
	}

	if cfg.Clock == nil {
		cfg.Clock = NewClock()
	}

	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}

	t := &Table{
		cfg: cfg, source: source, clock: cfg.Clock,
		deadline: cfg.Deadline.Microseconds(), rules: map[string]*Rule{},
		holder: cfg.Holder,
	}
	if cfg.Random == nil {
		t.cfg.Random = rand.Int64N
	}

	for t.holder == 0 {
		t.holder = rand.Uint64()
	}

	t.mishaps.Logger = t.cfg.Logger
	t.out.random = t.cfg.Random
	t.live.Store(max(1, cfg.Live))
	t.running.Store(&running{set: &rule.Set{}, switches: cfg.Switches})
	t.off.Store(until(cfg.Switches.All))
	t.queue.init()
	t.desk.init()
	t.fleet.all, t.fleet.rest = t.newRule(rule.FleetAllID), t.newRule(rule.FleetRestID)
	t.own = t.newRule(rule.RequestLimitID)
	t.own.follow(rule.RequestLimits())
	t.wheel.at = t.clock.Now() / slotWidth
	t.wheel.stir = make(chan struct{}, 1)
	t.desk.stir = t.wheel.stir
	t.lent = make(chan struct{}, 1)
	t.hasty = make(chan struct{}, 1)
	t.lends()
	t.waiters.New, t.lines.New, t.flights.New = newWaiter, newLine, newFlight

	return t
}

// Run does the table's background work until ctx ends: ticks, refills, renewals.
func (t *Table) Run(ctx context.Context) {
	var wg sync.WaitGroup

	if !t.clock.virtual {
		wg.Go(func() { t.clock.Run(ctx) })
	}

	if t.lender != nil {
		wg.Go(func() { t.mishaps.Keep(ctx, "giving back what is lent", t.walk) })
	}

	wg.Go(func() { t.mishaps.Keep(ctx, "asking for slots", t.runDesk) })
	wg.Go(func() { t.mishaps.Keep(ctx, "hastening leases", t.runHasten) })

	t.mishaps.Keep(ctx, "asking for tokens", t.dispatch)
	t.queue.calls.Wait()
	wg.Wait()
}

// Close gives every lease back, as far as ctx allows. Decisions go on after it, as in an outage.
func (t *Table) Close(ctx context.Context) error {
	t.closed.Store(true)
	t.out.fail(t.clock.Now(), 1<<60)

	return errors.Join(t.returnSlots(ctx), t.returnAll(ctx))
}

// Set returns the rule set in force.
func (t *Table) Set() *rule.Set { return t.running.Load().set }

// Down reports whether no coordinator answers.
func (t *Table) Down() bool { return t.out.down(0) }

// setLive takes in how many holders live. Fewer are believed only when that has
// lasted: a coordinator that has just started knows few of them, and shares of
// the limit would be too large.
func (t *Table) setLive(live int64) {
	now, old := t.clock.Now(), t.live.Load()

	if live >= old {
		t.fewer.Store(0)
	} else if since := t.fewer.Load(); since == 0 {
		t.fewer.Store(max(1, now))

		return
	} else if now-since < fewerAfter {
		return
	}

	if live != old {
		t.live.Store(live)
		t.fewer.Store(0)

		if t.cfg.OnLive != nil {
			t.cfg.OnLive(live)
		}
	}
}

// Fleet returns the fleet shedder, be there one or not.
func (t *Table) Fleet() *Fleet { return &t.fleet }

// Own returns the rule that counts the limits which requests bring along: rule.RequestLimits.
func (t *Table) Own() *Rule { return t.own }

// Live returns how many holders live in the fleet, as last heard.
func (t *Table) Live() int64 { return t.live.Load() }

// Holder returns this process's incarnation.
func (t *Table) Holder() uint64 { return t.holder }
