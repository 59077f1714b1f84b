package rulefeed

import (
	"errors"
	"maps"
	"slices"

	"github.com/leaseway/leaseway/internal/rulestore"
	"github.com/leaseway/leaseway/rule"
)

// Stats say how the feed does.
type Stats struct {
	// Version is the store's, of the rules in force; 0 before any of them were. Base is what holders see it above.
	Version, Base uint64
	// Down says why the store cannot be asked, Stuck why its rules are not in force though it answers; "" for neither.
	Down, Stuck string
	// Older says that what is Down about the store is an older state, which has not stood long enough to be taken.
	Older bool
	// Bad is how many rows are no rule or setting.
	Bad int
	// Changes and Refused count the versions that were put in force, and those that could not be.
	Changes, Refused int64
}

// Stats returns the present ones.
func (f *Feed) Stats() Stats {
	return Stats{
		Version: f.version.Load(), Base: f.base.Load(), Down: text(f.down.Load()), Stuck: text(f.stuck.Load()), Bad: len(f.Bad()),
		Older:   f.older.Load(),
		Changes: f.changes.Load(), Refused: f.refused.Load(),
	}
}

// Latest is the state that was last read from the store, whether it could be put in force or not; nil before the first. While
// the store could not be reached since the start it is what was kept on disk. It must not be changed.
func (f *Feed) Latest() *rulestore.State { return f.latest.Load() }

// Bad are the rows that are no rule or setting, as of the last reading.
func (f *Feed) Bad() []rulestore.BadRow {
	if list := f.bad.Load(); list != nil {
		return *list
	}
	return nil
}

// Shown is the store's version for one that holders know; 0 for one that the store does not count.
func (f *Feed) Shown(version uint64) uint64 {
	if base := f.base.Load(); base > 0 && version > base {
		return version - base
	}
	return 0
}

func text(t *string) string {
	if t == nil {
		return ""
	}
	return *t
}

// noteDown logs once that the store does not answer, and once that it has an older state.
func (f *Feed) noteDown(err error) {
	why, older := err.Error(), errors.Is(err, rulestore.ErrOlder)
	was := f.older.Swap(older)
	switch before := f.down.Swap(&why); {
	case older && !was:
		f.log.Error("the rule store has an older state than before: the last good rules go on until it has stood for a while", "error", err)
	case before == nil:
		f.log.Error("the rule store does not answer: the last good rules go on, and none can be changed", "error", err)
	}
}

func (f *Feed) noteUp() {
	f.older.Store(false)
	if f.down.Swap(nil) != nil {
		f.log.Info("the rule store answers again")
	}
}

// noteBad logs each bad row once, as long as it stays bad in the same way.
func (f *Feed) noteBad(list []rulestore.BadRow) {
	before := f.Bad()
	for _, row := range list {
		if !slices.ContainsFunc(before, func(old rulestore.BadRow) bool {
			return old.Place == row.Place && old.Err.Error() == row.Err.Error()
		}) {
			f.log.Error("a row of the rule store is refused: what it was before goes on", "place", row.Place, "error", row.Err)
		}
	}
	f.bad.Store(&list)
}

// refuse notes rules that cannot be put in force.
func (f *Feed) refuse(err error) {
	if f.stall(err) {
		f.refused.Add(1)
		f.log.Error("the rules of the store are refused: the last good ones stay in force", "error", err)
	}
}

// stall notes why the store's rules are not in force, and reports whether that is news.
func (f *Feed) stall(err error) bool {
	why := err.Error()
	before := f.stuck.Swap(&why)
	return before == nil || *before != why
}

// logSwitches says what is switched off now: nobody should have to wonder why nothing is refused.
func (f *Feed) logSwitches(set *rule.Set) {
	s, now := &set.Switches, f.config.Now()
	off := func(what string, one rule.Switch) {
		if one.OffAt(now) {
			f.log.Warn("switched off by a kill switch, and decides nothing", "what", what, "switch", one.String())
		}
	}
	off("all", s.All)
	for kind := range s.Limiters {
		off("limiter:"+rule.Limiter(kind).String(), s.Limiters[kind])
	}
	for _, id := range slices.Sorted(maps.Keys(s.Rules)) {
		off("rule:"+id, s.Rules[id])
	}
}
