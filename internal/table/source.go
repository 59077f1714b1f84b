package table

import (
	"context"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// Source is where a holder's leases and rules come from: a coordinator in the
// process, or the coordinator service behind gRPC.
type Source interface {
	// Acquire sends one batch of asks. An error means that nothing is known of any of them.
	Acquire(ctx context.Context, batch *ledger.Batch) (*ledger.Answers, error)

	// Watch calls apply with the present rules and with every newer set, whole
	// and in order, until ctx ends or the source fails; known is the version that
	// the holder has, 0 for none. apply reports whether it took the set.
	Watch(ctx context.Context, known uint64, apply func(*rule.Set) error) error
}

// Teller is a Source whose keys may have overrides that are not in its rules, and which says when those change.
type Teller interface {
	// WatchOverrides calls changed with the ids of rules of which overrides have
	// changed, until ctx ends, whose error it returns; no ids are all rules.
	WatchOverrides(ctx context.Context, changed func(rules []string)) error
}
