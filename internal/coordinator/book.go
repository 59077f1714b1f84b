package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leaseway/leaseway/rule"
)

// raiseEvery is the least time between two renumberings that holders cause: each
// sends the whole set to every watcher.
const raiseEvery = time.Second

// Book has the rule set in force and numbers it. Versions only move forward: each
// is max(µs of the clock, last + 1), so that the rules of a restarted coordinator
// are newer than those it had before, though nothing was kept.
//
// A Book is the only one to number the rules of its holders, unless Number leaves that to
// others: an Accord for coordinators of one store that each read a file. They must read the
// same: while the files differ, whichever was applied last holds for a key.
//
// It is safe for concurrent use.
type Book struct {
	clock   func() time.Time
	edition atomic.Pointer[edition]
	least   time.Duration // of a lease's TTL
	behind  func(uint64)  // see Number
	charged func(uint64)  // see Heed

	mu      sync.Mutex // held to replace the edition
	learned uint64     // the highest version that a holder has shown
	raised  time.Time  // when a holder last caused a renumbering
}

// NewBook returns a Book without rules, of version 0. clock numbers versions; nil is time.Now.
func NewBook(clock func() time.Time) *Book {
	if clock == nil {
		clock = time.Now
	}

	b := &Book{clock: clock}
	b.edition.Store(&edition{set: &rule.Set{}, done: make(chan struct{})})

	return b
}

// Lengthen has every lease live for ttl at least, whatever its rule says: for a
// coordinator whose only holder is in its own process, so that nobody waits for
// what a lease keeps back, and neither outlives the other. Before the first Apply.
func (b *Book) Lengthen(ttl time.Duration) { b.least = ttl }

// Current returns the numbered set in force; before the first Apply an empty one of version 0.
func (b *Book) Current() *rule.Set { return b.now().set }

// Apply puts set in force under a new version, which it returns, and tells every
// watcher. Rules that do what they did keep their own version. A set that equals
// the present one changes nothing, not even the version. On an error, which names
// the rule at fault, the present set stays.
func (b *Book) Apply(set *rule.Set) (version uint64, err error) {
	if set == nil {
		return 0, errors.New("coordinator: the rule set is nil (parse a document first)")
	}

	b.mu.Lock()
	defer b.mu.Unlock()

	present := b.now().set
	if present.Version > 0 && same(present, set) {
		return present.Version, nil
	}

	if err := b.replace(set, present); err != nil {
		return 0, err
	}

	return b.now().set.Version, nil
}

// Raise makes the present rules newer than version, which a holder has shown: it
// heard it from this coordinator before a restart, and refuses what is older. It
// renumbers at most once a second, and reports whether it did.
//
// Every rule gets the new version, since the ledgers too may have the old ones.
// Versions at the end of the range are not believed, or a hostile holder could use up the numbers.
func (b *Book) Raise(version uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	present := b.now().set
	if version > maxVersion || version <= present.Version {
		return false
	}

	b.learned = max(b.learned, version)

	if b.behind != nil {
		b.behind(version)

		return false
	}

	return b.outnumber()
}

// outnumber gives the present rules a version above those that holders have shown.
func (b *Book) outnumber() bool {
	present, now := b.now().set, b.clock()
	if present.Version == 0 || present.Version > b.learned || !b.raised.IsZero() && now.Sub(b.raised).Abs() < raiseEvery {
		return false // without rules of its own there is nothing to renumber yet
	}

	b.raised = now

	return b.replace(present, nil) == nil
}

// Watch calls apply with the set in force, if it is newer than known, and then
// with every newer one until ctx ends; it returns ctx's error. Whoever is slow
// gets only the newest, and never an older one than before. known is the version
// that the watcher has; 0 for none. What apply refuses is not offered again.
func (b *Book) Watch(ctx context.Context, known uint64, apply func(*rule.Set) error) error {
	b.Raise(known)

	for {
		e := b.now()
		if e.set.Version > known {
			known = e.set.Version
			// The watcher keeps its last good rules and says so itself; the next set may suit it.
			_ = apply(e.set)
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.done:
		}
	}
}

func (b *Book) now() *edition { return b.edition.Load() }

// replace numbers set and puts it in force; rules keep the versions they have in prev.
func (b *Book) replace(set, prev *rule.Set) error {
	last := max(b.now().set.Version, b.learned)
	version := max(last+1, uint64(max(0, b.clock().UnixMicro())))

	if version > math.MaxInt64 {
		return fmt.Errorf("coordinator: no rule version is left above %d", last)
	}

	return b.swap(set.Next(prev, version))
}

// swap puts a numbered set in force.
func (b *Book) swap(set *rule.Set) error {
	e, err := newEdition(set, b.least)
	if err != nil {
		return err
	}

	close(b.edition.Swap(e).done)

	return nil
}

// same reports whether two sets say the same, descriptions included, whatever their versions.
func same(a, b *rule.Set) bool {
	return bytes.Equal(a.Next(nil, 0).Marshal(), b.Next(nil, 0).Marshal())
}
