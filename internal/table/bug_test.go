package table

import (
	"context"
	"testing"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/rule"
)

// unreachable is a source that nobody should ask.
type unreachable struct{ Source }

func (unreachable) Acquire(context.Context, *ledger.Batch) (*ledger.Answers, error) { panic("asked") }

// buggy is a table, and three entries, of which the second panics whatever is done with it.
func buggy(t *testing.T) (*Table, []*Entry) {
	t.Helper()

	table := New(unreachable{}, Config{Clock: NewVirtualClock(1_000_000_000)})

	set, err := rule.Parse("test", []byte("rules: [{id: r, keyBy: user, limit: 100, window: 1m}]"))
	if err != nil {
		t.Fatal(err)
	}

	if err := table.SetRules(set.Next(nil, 1)); err != nil {
		t.Fatal(err)
	}

	r := table.Rule("r")

	return table, []*Entry{r.entry("before"), {rest: &rest{}}, r.entry("after")}
}

// A bug in one key's ask keeps no other from asking again, which was in the same call.
func TestABugKeepsNoKeyFromAsking(t *testing.T) {
	t.Parallel()

	table, entries := buggy(t)
	for _, e := range entries {
		e.asking.Store(true) // as in the queue
	}

	table.send(entries)

	if table.Mishaps().Count() == 0 {
		t.Fatal("there was no bug")
	}

	for i, e := range entries {
		if e.asking.Load() {
			t.Errorf("entry %d is taken for queued for ever", i)
		}
	}
}

// A bug in one key's visit leaves the others their appointments: they renew their leases, and leave when they are idle.
func TestABugLeavesOtherKeysTheirAppointments(t *testing.T) {
	t.Parallel()

	table, entries := buggy(t)
	now := table.clock.Now()

	for _, e := range entries {
		table.wheel.add(e, now)
	}

	for range 10 * 100 { // 10 s
		now += slotWidth
		table.clock.Set(now)
		table.turnWheel()
	}

	if n := table.Mishaps().Count(); n < 2 {
		t.Errorf("%d bugs: want the one key to be visited again", n)
	}

	if !entries[0].gone || !entries[2].gone {
		t.Errorf("idle keys are still there: gone %v and %v", entries[0].gone, entries[2].gone)
	}
}
