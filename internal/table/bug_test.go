package table

import (
	"context"
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
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

	set, err := rule.Parse("test", []byte("rules: [{id: r, keyBy: user, limit: 100, window: 1m}, {id: c, keyBy: user, limit: 5, algorithm: concurrency}]"))
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

// buggySlots is a table, and three keys of slots, of which the second panics whatever is done with it.
func buggySlots(t *testing.T) (*Table, []*slotKey) {
	t.Helper()

	table, _ := buggy(t)
	r := table.Rule("c")

	return table, []*slotKey{r.slotKey("before"), {used: 1 << 60}, r.slotKey("after")}
}

// The same for slots: what is in flight must go on to be told, or the store gives its slots to others.
func TestABugKeepsNoSlotsFromBeingToldOf(t *testing.T) {
	t.Parallel()

	table, keys := buggySlots(t)
	for _, k := range keys {
		k.asking.Store(true) // as in the queue
	}

	if more := table.slotCall(t.Context(), keys); len(more) != 0 || table.Mishaps().Count() == 0 {
		t.Fatalf("%d keys should ask again, after %d bugs", len(more), table.Mishaps().Count())
	}

	for i, k := range keys {
		if k.asking.Load() {
			t.Errorf("key %d is taken for queued for ever", i)
		}

		if _, flying := k.Asked(); flying {
			t.Errorf("key %d waits for an answer for ever", i)
		}
	}
}

func TestABugLeavesOtherSlotsTheirAppointments(t *testing.T) {
	t.Parallel()

	table, keys := buggySlots(t)
	now := table.clock.Now()

	for _, k := range keys {
		table.desk.sooner(k, now)
	}

	for range 10 * 100 { // 10 s
		now += slotWidth
		table.clock.Set(now)
		table.turnWheel()
	}

	if n := table.Mishaps().Count(); n < 2 {
		t.Errorf("%d bugs: want the one key to be visited again", n)
	}

	if !keys[0].gone || !keys[2].gone {
		t.Errorf("idle keys are still there: gone %v and %v", keys[0].gone, keys[2].gone)
	}
}

// What is done about a bug may meet it, too: that must not end the process.
func TestABugWhileOneIsRecoveredIsRecovered(t *testing.T) {
	t.Parallel()

	table, entries := buggy(t)
	now := table.clock.Now()

	for _, i := range []int{0, 2} {
		entries[i].Ask(now, table.clock, holder.Need{Seq: 1})
	}

	func() {
		defer table.recovered(func(err error) { table.fail(table.clock.Now(), append(entries, nil), err) })

		panic("a bug")
	}()

	if n := table.Mishaps().Count(); n != 3 {
		t.Errorf("%d bugs are counted, want 3: itself, and the two entries that cannot be told", n)
	}

	if !entries[0].Missed() || !entries[2].Missed() {
		t.Error("the others did not hear that there is no answer")
	}
}
