package rulefeed

import (
	"context"
	"time"

	"github.com/leaseway/leaseway/internal/coordinator"
	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// Source is the overrides of a rule store, as a coordinator asks for them.
type Source struct {
	Store rulestore.Store
	// Now is the clock by which overrides expire; nil for that of the system.
	Now func() time.Time
}

var _ coordinator.OverrideSource = Source{}

// Overrides implements coordinator.OverrideSource. A row that is no override is left out: its key has its rule's own limit.
func (s Source) Overrides(ctx context.Context, ruleID string, keys []string) (map[string]coordinator.Override, error) {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	found := make(map[string]coordinator.Override)
	for o, err := range s.Store.Overrides(ctx, rulestore.Query{Rule: ruleID, Keys: keys, Now: now()}) {
		switch {
		case rulestore.CodeOf(err) == rulestore.Invalid:
			continue
		case err != nil:
			return nil, err
		}
		found[o.Key] = coordinator.Override{
			Override: rule.Override{Limit: o.Limit, Burst: o.Burst, LeaseTTL: o.LeaseTTL}, Version: max(1, o.Version), Expires: o.Expires,
		}
	}
	return found, nil
}

// Any implements coordinator.OverrideSource.
func (s Source) Any(ctx context.Context, ruleID string) (bool, error) {
	for _, err := range s.Store.Overrides(ctx, rulestore.Query{Rule: ruleID, Limit: 1}) {
		if err != nil && rulestore.CodeOf(err) != rulestore.Invalid {
			return false, err
		}
		return true, nil
	}
	return false, nil
}
