package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// ErrOlder is what Put says of a set that holders would refuse.
var ErrOlder = errors.New("coordinator: the rules are not newer than those in force")

// Number leaves the versions to somebody else, who counts them for all coordinators of a fleet: see Put. behind is called
// when a holder shows a version above the present one, with a lock held; it must return at once. Before the first Put.
func (b *Book) Number(behind func(version uint64)) { b.behind = behind }

// Heed has charged called when a ledger turns out to have been charged under a higher version than the present one: a backup of
// the rules may have been restored when nobody was there to tell, and rules that are older than a ledger's do not decide. It is
// called often, and must return at once. It is right where all coordinators of a store have their rules from one place: where
// files differ for a while, each would outnumber the others, in turn. Before the first Put.
func (b *Book) Heed(charged func(version uint64)) { b.charged = charged }

// heed looks at an answer to an ask under e, which may be of a ledger that keeps newer terms.
func (b *Book) heed(e *edition, answer *ledger.Answer) {
	if v := answer.Terms.Version; answer.Stale && b.charged != nil && v > e.set.Version && v <= maxVersion {
		b.charged(v)
	}
}

// reachWithin is how long a batch waits for rules that its holder knows already: much less than its requests do.
const reachWithin = 5 * time.Millisecond

// reach returns the edition that follows e if somebody else counts the versions, who has just been told that a holder has a newer
// one: it waits a little for that, so that a holder which turns from one coordinator to another need not notice. Or else it is e.
func (b *Book) reach(ctx context.Context, e *edition, version uint64) *edition {
	if b.behind == nil || e.set.Version >= version {
		return e
	}

	timer := time.NewTimer(reachWithin)
	defer timer.Stop()

	for e.set.Version < version {
		select {
		case <-e.done:
			e = b.now()
		case <-timer.C:
			return e
		case <-ctx.Done():
			return e
		}
	}

	return e
}

// Put puts a set in force under the versions that it has. One that says what the present one says, and is not newer, changes
// nothing; any other that is not newer is ErrOlder. On another error, which names the rule at fault, the present set stays.
func (b *Book) Put(set *rule.Set) error {
	b.mu.Lock()
	defer b.mu.Unlock()

	present := b.now().set

	switch {
	case set.Version > maxNumber:
		return fmt.Errorf("coordinator: %d is no version: they end at %d", set.Version, uint64(maxNumber))
	case set.Version > present.Version:
		return b.swap(set)
	case present.Version > 0 && same(present, set):
		return nil
	}

	return fmt.Errorf("%w: they have version %d, and in force is %d", ErrOlder, set.Version, present.Version)
}

// Outnumber makes the present rules newer than all that holders have shown, where whoever counts the versions cannot: until
// it can again, coordinators number by themselves. It does so at most once a second, and reports whether it did.
func (b *Book) Outnumber() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.outnumber()
}
