// Package storetest is the suite that every store runs: what package store and
// design promise of Apply, Beat, ID and Close, as tests. A store hands Run a
// Backend, which says how it is opened and what it can't do; a test that needs
// more is skipped, with the reason.
//
// Nothing here knows how a store works. The arithmetic is not tested again: the
// suite compares with package ledger, applied by one goroutine at a time, which
// is what a store must look like from outside. Time is the backend's: where a
// store takes a clock, tests turn it, and otherwise they wait, so that each
// says only what holds however slowly the machine runs.
package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leaseway/leaseway/internal/store"
)

// Backend is one kind of store and what it is able to do.
type Backend struct {
	// Open opens the store of the data at site. It fails t if it cannot.
	Open func(t *testing.T, site Site) store.Store
	// Virtual says that the store's time is Site.Clock.
	Virtual bool
	// Keeps says that the data stays over Close and the next Open of the same site.
	Keeps bool
	// Crash ends a store without saving anything, as a killed process or a lost
	// disk would, so that the next Open of its site finds its data lost. nil:
	// that cannot be shown here.
	Crash func(t *testing.T, s store.Store)
}

// Site is where one test has its data.
type Site struct {
	Dir   string       // an empty directory, and a name that no other test has
	Clock func() int64 // µs since the Unix epoch; for a Virtual backend
}

// Run runs the whole suite on the backend, each test on a site of its own.
func Run(t *testing.T, b Backend) {
	t.Helper()

	tests := []struct {
		name string
		run  func(*rig)
	}{
		{"a new key is full", newKeyIsFull},
		{"a bucket refills", bucketRefills},
		{"no key shares a ledger with another", keysAreIndependent},
		{"a long key counts to its last byte", longKeys},
		{"ops on one key are handled in order", opsInOrder},
		{"a bad op leaves the others alone", badOp},
		{"a canceled call says so", canceledCall},
		{"the same ask is answered again", sameAsk},
		{"an older ask changes nothing", olderAsk},
		{"a return gives back what was not spent", returns},
		{"an expired lease is forfeited", expiredLease},
		{"a rule change keeps the level", ruleChange},
		{"a turn leaves a part to who is late", turnsLeaveAPart},
		{"plenty is no scarcity", plentyIsNoScarcity},
		{"answers are those of a lone ledger", likeLedger},
		{"takes of many are exact", manyTakes},
		{"leases of many are exact", manyLeases},
		{"batches of many are exact", manyBatches},
		{"beats count who lives", beatsCount},
		{"beats of many", manyBeats},
		{"the id names the data", idNamesData},
		{"a closed store refuses", closedRefuses},
		{"a restart keeps everything", restartKeeps},
		{"a restart is kept once", keptOnce},
		{"lost data counts as spent", lostIsSpent},
		{"a loss is remembered", lossIsRemembered},
		{"slots of a crashed holder come back", slotsOfACrash},
		{"slots are no tokens", slotsBetweenRules},
		{"slots of many are exact", manySlots},
		{"slots stay over a restart", slotsOverARestart},
		{"lost slots are waited for", slotsAfterALoss},
		{"terms of no slots are refused", badSlots},
	}

	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.run(newRig(t, b))
		})
	}
}

// clock is the time of one test: turned by hand, or real.
type clock struct {
	virtual bool
	now     int64 // no lock: tests turn it while no op is under way
}

// rig is a store under test with its clock, and what tests do with them.
type rig struct {
	*testing.T

	backend Backend
	site    Site
	clock   *clock
	store   store.Store
}

func newRig(t *testing.T, b Backend) *rig {
	t.Helper()

	c := &clock{virtual: b.Virtual, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()}
	look := func() int64 { return atomic.LoadInt64(&c.now) } // a store may look in the background
	r := &rig{T: t, backend: b, clock: c, site: Site{Dir: t.TempDir(), Clock: look}}
	r.open()
	t.Cleanup(func() { r.close() })

	return r
}

// open opens the store again after close or crash.
func (r *rig) open() {
	r.Helper()
	r.store = r.backend.Open(r.T, r.site)
}

func (r *rig) close() {
	r.Helper()

	if err := r.store.Close(context.Background()); err != nil {
		r.Errorf("Close: %v", err)
	}
}

// advance lets d pass, at least.
func (r *rig) advance(d time.Duration) {
	if r.clock.virtual {
		atomic.AddInt64(&r.clock.now, d.Microseconds())

		return
	}

	<-time.After(d)
}

// needs skips the test on a backend that can't do what.
func (r *rig) needs(can bool, what string) {
	r.Helper()

	if !can {
		r.Skip("this store " + what)
	}
}
