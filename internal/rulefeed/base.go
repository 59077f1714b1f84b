package rulefeed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leaseway/leaseway/internal/rulestore"
)

// Author is who makes the changes that coordinators make by themselves.
const Author = "leaseway"

// numberingSetting is the name of the setting with the base.
const numberingSetting = "numbering"

// renumbering is the action that writes it.
const renumbering = "rules.renumber"

// numbering is what versions of the store are added to before holders hear of them.
type numbering struct {
	Base uint64 `json:"base"`
}

// baseOf is the base that a state has, if it has one.
func baseOf(state *rulestore.State) (base uint64, ok bool) {
	var n numbering
	text, ok := state.Settings[numberingSetting]
	if !ok || json.Unmarshal(text, &n) != nil || n.Base == 0 {
		return 0, false
	}
	return n.Base, true
}

// rebase has the store's versions begin above a version of holders. What comes of it is read at the next refresh.
func (f *Feed) rebase(ctx context.Context, state *rulestore.State, above uint64) error {
	now := f.config.Now()
	if !f.rebased.IsZero() && now.Sub(f.rebased) < rebaseEvery {
		f.stall(fmt.Errorf("holders have rules of version %d, which is above the store's", above))
		return nil
	}
	f.rebased = now
	err := f.writeBase(ctx, state, above)
	code := rulestore.CodeOf(err)
	if code == rulestore.Conflict { // another coordinator was faster
		return nil
	}
	if code == rulestore.ReadOnly || code == rulestore.Invalid {
		return f.alone(state, err)
	}
	return err
}

// writeBase sets the base, if it is still that of the state.
func (f *Feed) writeBase(ctx context.Context, state *rulestore.State, above uint64) error {
	value, err := json.Marshal(numbering{Base: above})
	if err != nil {
		return err
	}
	condition := rulestore.Absent
	if written, there := state.Written[rulestore.SettingPlace(numberingSetting)]; there {
		condition = rulestore.Condition(written)
	}
	_, err = f.config.Store.Write(ctx, &rulestore.Change{
		Author: Author, Action: renumbering, Reason: "holders must see versions move forward",
		Settings: []rulestore.SettingChange{{Name: numberingSetting, Value: value, If: condition}},
	})
	return err
}

// alone numbers the rules of a store that takes no base: right for one coordinator, or as long as nothing changes.
func (f *Feed) alone(state *rulestore.State, cause error) error {
	set := f.good.mend(state, nil)
	if _, err := f.config.Book.Apply(set); err != nil {
		f.refuse(err)
		return nil
	}
	f.log.Warn("the rule store does not take the base of its versions: this coordinator numbers by itself", "error", cause)
	f.inForce(state, f.config.Book.Current())
	return nil
}

// catchUp answers a holder that has newer rules than this coordinator: another one may have been told of a change before,
// which is read now; or else the store's versions have gone back, and the base goes up.
func (f *Feed) catchUp(ctx context.Context) {
	if err := f.refresh(ctx); err != nil && f.config.Book.Outnumber() {
		f.stall(errors.New("this coordinator numbers the rules by itself, until the store answers"))
	}
}
