package rulefeed

import (
	"context"
	"fmt"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// adopt puts an older state of the store in force, as after a backup was restored: it gets a base above all that holders have
// seen, so that for them it is one more version. Two states are not taken, and what was in force goes on:
//
//   - one that takes no writes: it may be that of a replica that lags behind, and catches up
//   - one without rules: it is rather a database that somebody made anew than limits that were meant to end
func (f *Feed) adopt(ctx context.Context) error {
	state, err := f.config.Store.Load(ctx)
	if err != nil {
		return err
	}
	present := f.config.Book.Current()
	if len(state.Set.Rules) == 0 && len(present.Rules) > 0 {
		f.notAdopted(state, "it has no rules: write them, or restore a backup that has some")
		return nil
	}
	if base, ok := baseOf(state); !ok || base+state.Rules <= present.Version { // or else another coordinator did it
		err = f.writeBase(ctx, state, max(present.Version, f.highest()))
	}
	code := rulestore.CodeOf(err)
	if code == rulestore.ReadOnly {
		f.notAdopted(state, "it takes no writes: it may be a replica that lags")
		return nil
	}
	if code == rulestore.Conflict {
		return nil // somebody wrote meanwhile, which will be heard of
	}
	if err != nil {
		return err
	}
	f.log.Warn("an older state of the rule store was restored: it is in force now, above the versions that holders know",
		"from", f.known.Rules, "to", state.Rules, "rules", len(state.Set.Rules))
	f.back, f.known = false, state.Head
	f.stuck.Store(nil)
	f.forget(state.Overrides)
	f.applied = false // also where the last version happens to have the same number
	return f.refresh(ctx)
}

// forget has all that was known of overrides looked up again: it is of the state that is gone.
func (f *Feed) forget(version uint64) {
	f.known.Overrides = version
	if f.config.OnOverrides != nil {
		f.config.OnOverrides(version, nil)
	}
}

// notAdopted says once why an older state is not in force.
func (f *Feed) notAdopted(state *rulestore.State, why string) {
	err := fmt.Errorf("the rule store went back from version %d to %d, and %s", f.known.Rules, state.Rules, why)
	if f.stall(err) {
		f.log.Error("an older state of the rule store is not taken: the last good rules go on", "error", err)
	}
}
