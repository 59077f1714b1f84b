package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/leaseway/leaseway/rule"
)

const (
	// overrideTTL is how long a key's override, or that it has none, is believed
	// without a word from the store; somewhat less for most, so that keys do not come together.
	overrideTTL = 60 * time.Second
	// overrideRetry is when a store that failed is asked again for a key.
	overrideRetry = time.Second
	// overrideWait is how long asks wait for the store: holders wait 20 ms in all.
	overrideWait = 8 * time.Millisecond
	// overrideWithin is how long the store has to answer nevertheless.
	overrideWithin = 5 * time.Second
	// maxLookups bounds the calls to the store that are under way.
	maxLookups = 16
	// overridePatience is for how long, in µs, a holder may remember a refusal: a limit
	// that is raised for one key, or a budget that is made whole, must reach it.
	overridePatience = 1_000_000
	// maxTerms bounds the different terms that are worked out of a rule's overrides.
	maxTerms = 10_000
)

// Override is a negotiated limit of one key, from outside the rule document.
type Override struct {
	rule.Override

	// Version is the store's that wrote it, above 0.
	Version uint64
	// Expires is when it ends; the zero time is never.
	Expires time.Time
}

// OverrideSource keeps negotiated limits, by the ids of rules and by keys as
// rule.Compact gives them.
type OverrideSource interface {
	// Overrides returns those that the keys have now; a key without one is left out.
	Overrides(ctx context.Context, ruleID string, keys []string) (map[string]Override, error)
	// Any reports whether the rule has any.
	Any(ctx context.Context, ruleID string) (bool, error)
}

// Overrides remembers what an OverrideSource said, for a minute at most, also of
// keys that have no override. Rules without any cost a lookup a minute, all keys
// together. A source that fails or is slow holds nobody up: what was known goes
// on, and a key of which nothing is known has the limit that its ledger was last
// charged under, else its rule's. It is safe for concurrent use.
type Overrides struct {
	source OverrideSource
	clock  func() time.Time
	logger *slog.Logger
	logged atomic.Int64 // when an error was last logged, µs

	head    atomic.Uint64 // the version that last changed any
	rules   *xsync.Map[string, *overridden]
	keys    overrideCache
	news    overrideNews
	lookups atomic.Int64   // under way
	running sync.WaitGroup // the same, to wait for

	hits, misses, failures, unfit atomic.Int64
}

// overridden is what is known of a rule's overrides.
type overridden struct {
	generation atomic.Uint64 // entries of older ones are not believed
	floor      atomic.Uint64 // the version that may last have taken one away
	any        atomic.Bool
	until      atomic.Int64 // any is believed, µs
}

// NewOverrides returns Overrides of a source. clock is for what expires; nil is time.Now.
func NewOverrides(source OverrideSource, clock func() time.Time, logger *slog.Logger) *Overrides {
	if clock == nil {
		clock = time.Now
	}

	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}

	return &Overrides{source: source, clock: clock, logger: logger, rules: xsync.NewMap[string, *overridden]()}
}

// Wait returns when no call to the source is under way any more: before it is closed.
func (o *Overrides) Wait() { o.running.Wait() }

// Changed says that version changed overrides of some rules, and of which keys; no
// keys of a rule are all of them. No rules are all rules. Who watches hears of it.
func (o *Overrides) Changed(version uint64, rules map[string][]string) {
	defer o.news.note(rules) // holders that ask then must find what is new

	o.head.Store(version)

	if len(rules) == 0 {
		o.rules.Range(func(_ string, r *overridden) bool {
			r.change(version)

			return true
		})

		return
	}

	for id, keys := range rules {
		r := o.rule(id)

		if len(keys) == 0 {
			r.change(version)

			continue
		}

		r.floor.Store(version)
		r.any.Store(true) // or it is found out in a minute that it has none left
		r.until.Store(max(r.until.Load(), o.clock().Add(overrideTTL).UnixMicro()))

		for _, key := range keys {
			o.keys.drop(overrideID{id, key})
		}
	}
}

func (r *overridden) change(version uint64) {
	r.floor.Store(version)
	r.generation.Add(1)
	r.until.Store(0)
}

func (o *Overrides) rule(id string) *overridden {
	if r, ok := o.rules.Load(id); ok {
		return r
	}

	r, _ := o.rules.LoadOrStore(strings.Clone(id), &overridden{})

	return r
}

// of returns what is known of a key, and whether that is fresh.
func (o *Overrides) of(id overrideID, now int64) (known remembered, fresh bool) {
	r := o.rule(id.rule)

	if !r.any.Load() && lasts(r.until.Load(), now) {
		return remembered{revision: r.floor.Load()}, true
	}

	known, ok := o.keys.get(id)

	return known.at(now, r.floor.Load()), ok && lasts(known.until, now) && known.generation == r.generation.Load()
}

// learn fills in what is known of the keys of some asks. It looks up what is not known freshly, and waits a little for it.
func (o *Overrides) learn(list []wanted, known []remembered) {
	now := o.clock().UnixMicro()
	late := list[:0:0]

	for _, one := range list {
		var fresh bool
		if known[one.at], fresh = o.of(one.overrideID, now); !fresh {
			late = append(late, one)
		}
	}

	o.hits.Add(int64(len(list) - len(late)))
	o.misses.Add(int64(len(late)))

	if len(late) == 0 {
		return
	}

	o.wait(o.begin(late))

	for _, one := range late {
		known[one.at], _ = o.of(one.overrideID, now)
	}
}

// begin has keys looked up, unless they are already, and returns what is closed when that is over.
func (o *Overrides) begin(list []wanted) (flights []chan struct{}) {
	missing := make(map[string][]string)

	for _, one := range list {
		flight, first := o.keys.begin(one.overrideID)
		flights = append(flights, flight)

		if first {
			own := one.own()
			missing[own.rule] = append(missing[own.rule], own.key)
		}
	}

	for ruleID, keys := range missing {
		o.running.Go(func() { o.look(ruleID, keys) })
	}

	return flights
}

// wait waits for all lookups, but not for long.
func (o *Overrides) wait(flights []chan struct{}) {
	timer := time.NewTimer(overrideWait)
	defer timer.Stop()

	for _, flight := range flights {
		select {
		case <-flight:
		case <-timer.C:
			return
		}
	}
}

// look asks the source about keys of one rule. It goes on when nobody waits any more, so that the next ask finds the answer.
func (o *Overrides) look(ruleID string, keys []string) {
	generation := o.rule(ruleID).generation.Load() // what changes meanwhile is looked up again

	defer func() {
		if p := recover(); p != nil {
			o.fail(ruleID, keys, generation, fmt.Errorf("a panic was recovered: %v", p))
		}

		for _, key := range keys {
			o.keys.end(overrideID{ruleID, key})
		}
	}()

	if o.lookups.Add(1) > maxLookups {
		o.lookups.Add(-1)
		o.fail(ruleID, keys, generation, errTooManyLookups)

		return
	}
	defer o.lookups.Add(-1)

	ctx, cancel := context.WithTimeout(context.Background(), overrideWithin)
	defer cancel()

	if err := o.find(ctx, ruleID, keys, generation); err != nil {
		o.fail(ruleID, keys, generation, err)
	}
}

var errTooManyLookups = errors.New("the rule store is too slow: there are too many lookups already")

// find notes what the source says of keys of one rule.
func (o *Overrides) find(ctx context.Context, ruleID string, keys []string, generation uint64) error {
	r, now := o.rule(ruleID), o.clock()

	has, err := o.has(ctx, ruleID, r, now)
	if err != nil || !has {
		return err
	}

	floor := r.floor.Load()

	found, err := o.source.Overrides(ctx, ruleID, keys)
	if err != nil {
		return err
	}

	unchanged := func() bool { return r.floor.Load() == floor }

	for _, key := range keys {
		entry := remembered{until: believed(now), generation: generation, revision: floor}

		if override, ok := found[key]; ok {
			entry.override, entry.revision = override.Override, override.Version
			if !override.Expires.IsZero() {
				entry.expires = override.Expires.UnixMicro()
				entry.until = min(entry.until, entry.expires)
			}
		}

		o.keys.put(overrideID{ruleID, key}, entry, unchanged)
	}

	return nil
}

// has finds out whether the rule has overrides at all, if that is not known.
func (o *Overrides) has(ctx context.Context, ruleID string, r *overridden, now time.Time) (bool, error) {
	if lasts(r.until.Load(), now.UnixMicro()) {
		return r.any.Load(), nil
	}

	head := o.head.Load()

	has, err := o.source.Any(ctx, ruleID)
	if err != nil {
		return false, err
	}

	if has || r.any.Load() { // or else nobody was ever charged under an override, as far as is known
		r.floor.CompareAndSwap(0, head)
	}

	r.any.Store(has)
	r.until.Store(believed(now))

	return has, nil
}

// fail keeps what is known for a while longer. A revision of 0 is for the ledger to say.
func (o *Overrides) fail(ruleID string, keys []string, generation uint64, err error) {
	o.failures.Add(1)

	now, floor := o.clock(), o.rule(ruleID).floor.Load()
	unchanged := func() bool { return o.rule(ruleID).floor.Load() == floor }

	for _, key := range keys {
		id := overrideID{ruleID, key}
		entry, _ := o.keys.get(id)
		entry = entry.at(now.UnixMicro(), floor)
		entry.until, entry.generation = now.Add(overrideRetry).UnixMicro(), generation
		o.keys.put(id, entry, unchanged)
	}

	if last := o.logged.Load(); now.Sub(time.UnixMicro(last)).Abs() > time.Minute && o.logged.CompareAndSwap(last, now.UnixMicro()) &&
		!errors.Is(err, context.Canceled) {
		o.logger.Error("overrides cannot be looked up: what was known of them goes on", "error", err)
	}
}

// believed is until when something that was found at now is.
func believed(now time.Time) int64 {
	const spread = 4 // parts of the TTL

	least := overrideTTL - overrideTTL/spread

	return now.Add(least + rand.N(overrideTTL/spread)).UnixMicro()
}

// lasts reports whether something that is believed until then still is at now, both µs. Nothing is believed for longer than the
// TTL: a clock that was set back does not make it older than it may be.
func lasts(until, now int64) bool { return now < until && until-now <= overrideTTL.Microseconds() }

// OverrideStats are counts since the start.
type OverrideStats struct {
	Hits, Misses int64 // asks whose override was known, and those for which the source was asked
	Failures     int64 // calls of the source that failed
	Unfit        int64 // asks whose override the rule could not keep: they had the rule's own limit
	Kept         int64 // keys that something is known of now
}

// Stats returns the present counts.
func (o *Overrides) Stats() OverrideStats {
	return OverrideStats{
		Hits: o.hits.Load(), Misses: o.misses.Load(), Failures: o.failures.Load(), Unfit: o.unfit.Load(), Kept: o.keys.size(),
	}
}
