package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/leaseway/leaseway/internal/ledger"
)

// termsTable keeps each Terms once, for all the records that were last charged
// under it, and forgets it with the last of them. Reading takes no lock: who
// has a reference got it, directly or through a shard's lock, from acquire, and
// an entry does not change while a reference to it is about.
type termsTable struct {
	mu    sync.Mutex
	refs  map[ledger.Terms]uint32
	count []int64  // by reference: how many records have it
	free  []uint32 // references of no record
	pages atomic.Pointer[[]*termsPage]
}

const termsPageSize = 64

type termsPage [termsPageSize]ledger.Terms

func newTermsTable() *termsTable {
	t := &termsTable{refs: map[ledger.Terms]uint32{}, count: []int64{0}} // 0 is no reference
	t.pages.Store(&[]*termsPage{new(termsPage)})

	return t
}

// at returns the terms of a reference that is held.
func (t *termsTable) at(ref uint32) *ledger.Terms {
	return &(*t.pages.Load())[ref/termsPageSize][ref%termsPageSize]
}

// acquire returns a reference to terms, to be released once.
func (t *termsTable) acquire(terms ledger.Terms) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()

	ref, known := t.refs[terms]
	if !known {
		ref = t.place()
		t.refs[terms] = ref
		*t.at(ref) = terms
	}

	t.count[ref]++

	return ref
}

// place returns a reference that nobody has.
func (t *termsTable) place() uint32 {
	if n := len(t.free); n > 0 {
		ref := t.free[n-1]
		t.free = t.free[:n-1]

		return ref
	}

	ref := uint32(len(t.count))
	t.count = append(t.count, 0)

	if pages := *t.pages.Load(); int(ref) == len(pages)*termsPageSize {
		// A new list, because readers may be on the old one. The pages stay where they are.
		grown := append(slices.Clone(pages), new(termsPage))
		t.pages.Store(&grown)
	}

	return ref
}

// release gives a reference back.
func (t *termsTable) release(ref uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.count[ref]--

	if t.count[ref] > 0 {
		return
	}

	delete(t.refs, *t.at(ref))
	t.free = append(t.free, ref)
}

// len returns how many terms are in use.
func (t *termsTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()

	return len(t.refs)
}
