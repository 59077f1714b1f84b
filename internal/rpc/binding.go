package rpc

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// MixedError says that two coordinators that both live keep their counts apart:
// a caller would have its limit once at each.
type MixedError struct{ A, B string } // the coordinators' URLs

// Error names both coordinators and what to do.
func (e *MixedError) Error() string {
	return fmt.Sprintf("rpc: coordinators %s and %s have different stores; memory stores need exactly one coordinator "+
		"(name only one of them, or give both the same store)", e.A, e.B)
}

// binding is the store that a client's answers come from. Another one is accepted
// from the coordinator that gave the last, which lost its data or got a new store,
// and from any when that one is broken.
type binding struct {
	mu    sync.Mutex
	store uint64   // 0: none yet
	by    *replica // who named it last

	mixed atomic.Pointer[MixedError] // what the last survey found
}

// accept reports, as a refusal, whether an answer of r under the given store must not be used.
func (b *binding) accept(r *replica, store uint64) *refusal {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.store != 0 && b.store != store && b.by != r && !b.by.open() {
		return &refusal{CauseOtherStore, &MixedError{A: b.by.url, B: r.url}}
	}

	b.store, b.by = store, r

	return nil
}

// conflict returns the *MixedError of the last survey, nil if all was well.
func (b *binding) conflict() error {
	if mixed := b.mixed.Load(); mixed != nil {
		return mixed
	}

	return nil
}
