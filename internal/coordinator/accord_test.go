package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/leaseway/leaseway/internal/store"
	"github.com/leaseway/leaseway/rule"
)

// register is a store.Register in memory, which may be out of reach.
type register struct {
	mu   sync.Mutex
	kept store.Numbers
	down bool
}

var errDown = errors.New("it is down")

func (r *register) Numbers(context.Context, string) (store.Numbers, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.down {
		return store.Numbers{}, errDown
	}

	return r.kept, nil
}

func (r *register) Renumber(_ context.Context, before string, now store.Numbers) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.down {
		return false, errDown
	}

	if r.kept.Head != before {
		return false, nil
	}

	r.kept = now

	return true, nil
}

func (r *register) set(down bool, kept store.Numbers) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.down, r.kept = down, kept
}

func document(of ...int) *rule.Set {
	var text strings.Builder

	text.WriteString("rules:\n")

	for i, limit := range of {
		fmt.Fprintf(&text, "- {id: %c, limit: %d, window: 1s}\n", 'a'+i, limit)
	}

	set, err := rule.Parse("test", []byte(text.String()))
	if err != nil {
		panic(err)
	}

	return set
}

// member is one coordinator of several.
type member struct {
	*Accord

	book *Book
}

func join(t fataler, r store.Register, clock func() time.Time, set *rule.Set) *member {
	book := NewBook(clock)
	m := &member{NewAccord(book, clock, nil), book}

	if _, err := m.Apply(set); err != nil {
		t.Fatal(err)
	}

	if err := m.Join(context.Background(), r); err != nil {
		t.Fatal(err)
	}

	return m
}

type fataler interface{ Fatal(args ...any) }

// versions are those of the set and of its rules.
func (m *member) versions() string {
	set := m.book.Current()

	var text strings.Builder

	fmt.Fprint(&text, set.Version)

	for _, r := range set.Rules {
		fmt.Fprintf(&text, " %s=%d", r.ID, r.Version)
	}

	return text.String()
}

func clockAt(now *int64) func() time.Time {
	return func() time.Time { *now++; return time.UnixMicro(*now) }
}

func TestCoordinatorsNumberAlike(t *testing.T) {
	now := int64(1000)
	r := &register{}
	first := join(t, r, clockAt(&now), document(1, 2))
	second := join(t, r, clockAt(&now), document(1, 2))

	if got := second.versions(); got != first.versions() || first.book.Current().Version < 1000 {
		t.Fatalf("%s and %s", first.versions(), got)
	}

	old := first.book.Current().Rules[0].Version

	for _, m := range []*member{first, second} { // the file changes for both, one after the other
		if _, err := m.Apply(document(1, 3)); err != nil {
			t.Fatal(err)
		}
	}

	third := join(t, r, clockAt(&now), document(1, 3)) // which starts later
	for _, m := range []*member{second, third} {
		if m.versions() != first.versions() {
			t.Errorf("%s, but the first has %s", m.versions(), first.versions())
		}
	}

	if rules := third.book.Current().Rules; rules[0].Version != old || rules[1].Version <= old {
		t.Errorf("a rule that did not change had version %d: %s", old, third.versions())
	}
}

// While files differ, as in an upgrade, each coordinator keeps its own number; those that read the same have the same.
func TestCoordinatorsOfDifferentFilesLeaveEachOtherAlone(t *testing.T) {
	now := int64(1000)
	r := &register{}
	old := join(t, r, clockAt(&now), document(1, 2))
	fresh := join(t, r, clockAt(&now), document(1, 3))
	also := join(t, r, clockAt(&now), document(1, 3))
	before := old.versions() + ", " + fresh.versions() + ", " + also.versions()

	for range 5 {
		for _, m := range []*member{old, fresh, also} {
			m.look(t.Context())
		}
	}

	if after := old.versions() + ", " + fresh.versions() + ", " + also.versions(); after != before {
		t.Errorf("nothing changed, and they are numbered %s after %s", after, before)
	}

	if fresh.versions() != also.versions() {
		t.Errorf("the same file is numbered %s and %s", fresh.versions(), also.versions())
	}

	if _, err := old.Apply(document(1, 3)); err != nil { // upgraded
		t.Fatal(err)
	}

	fresh.look(t.Context())

	if old.versions() != fresh.versions() {
		t.Errorf("after the upgrade: %s and %s", old.versions(), fresh.versions())
	}
}

func TestAnOldContentGetsANewNumber(t *testing.T) {
	now := int64(1000)
	r := &register{}
	m := join(t, r, clockAt(&now), document(1))
	last := uint64(0)

	for _, limit := range []int{2, 1, 2} {
		v, err := m.Apply(document(limit))
		if err != nil || v <= last {
			t.Errorf("version %d after %d (%v)", v, last, err)
		}

		last = v
	}
}

// What a coordinator has numbered while the register was out of reach, or before it lost everything, is written down, not changed.
func TestARegisterThatComesBackChangesNothing(t *testing.T) {
	now := int64(1000)
	r := &register{down: true}
	m := join(t, r, clockAt(&now), document(1, 2))
	had := m.versions()

	for _, lost := range []string{"it was out of reach", "it lost its data"} {
		r.set(false, store.Numbers{})
		m.look(t.Context())

		other := join(t, r, clockAt(&now), document(1, 2))
		if m.versions() != had || other.versions() != had {
			t.Errorf("%s: %s became %s, and another has %s", lost, had, m.versions(), other.versions())
		}
	}
}

func TestAHolderThatKnowsMoreIsBelieved(t *testing.T) {
	now := int64(1000)
	r := &register{}
	m := join(t, r, clockAt(&now), document(1, 2))

	m.book.Raise(5_000_000)
	m.look(t.Context())

	set := m.book.Current()
	if set.Version < 5_000_000 || set.Rules[0].Version != set.Version {
		t.Errorf("a holder has version 5000000, and there is %s", m.versions())
	}

	if other := join(t, r, clockAt(&now), document(1, 2)); other.versions() != m.versions() {
		t.Errorf("%s and %s", m.versions(), other.versions())
	}

	m.book.Raise(9_000_000) // within the same second
	m.look(t.Context())

	if m.book.Current() != set {
		t.Errorf("holders caused two renumberings in a second: %s", m.versions())
	}
}

// A holder that turns to a coordinator which is yet to hear of the newest number gets its answer all the same.
func TestABatchWaitsForTheNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &register{}
		first, second := join(t, r, nil, document(1)), join(t, r, nil, document(1))

		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup

		work.Go(func() { _ = second.Run(ctx) })
		time.Sleep(lookEvery / 2)

		if _, err := first.Apply(document(1, 2)); err != nil {
			t.Fatal(err)
		}

		second.mu.Lock()
		second.set = document(1, 2) // its file has changed as well, and it is about to say so
		second.mu.Unlock()

		version := first.book.Current().Version
		second.book.Raise(version)

		if e := second.book.reach(ctx, second.book.now(), version); e.set.Version != version {
			t.Errorf("it has %d, and %d is in force", e.set.Version, version)
		}

		began := time.Now()
		if e := second.book.reach(ctx, second.book.now(), version+1); e.set.Version != version || time.Since(began) != reachWithin {
			t.Errorf("it waited %v for version %d that there is not", time.Since(began), version+1)
		}

		cancel()
		work.Wait()
	})
}

// Whatever happens, versions of a coordinator never go back, and coordinators that read the same number alike in the end.
func TestAccordHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := int64(1000)
		r := &register{}
		members := make([]*member, 3)
		last := make([]uint64, len(members))

		for i := range members {
			members[i] = join(t, r, clockAt(&now), document(1, 1))
		}

		check := func() {
			for i, m := range members {
				set := m.book.Current()
				if set.Version < last[i] {
					t.Fatalf("coordinator %d went from version %d to %d", i, last[i], set.Version)
				}

				last[i] = set.Version
			}
		}

		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			i := rapid.IntRange(0, len(members)-1).Draw(t, "who")
			m := members[i]

			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				set := document(rapid.IntRange(1, 3).Draw(t, "a"), rapid.IntRange(1, 3).Draw(t, "b"))
				if _, err := m.Apply(set); err != nil {
					t.Fatal(err)
				}
			case 2:
				m.look(context.Background())
			case 3:
				r.set(rapid.Bool().Draw(t, "down"), r.kept)
			case 4:
				r.set(r.down, store.Numbers{})
			case 5:
				m.book.Raise(last[rapid.IntRange(0, len(last)-1).Draw(t, "shown")])
				m.look(context.Background())
			case 6:
				members[i], last[i] = join(t, r, clockAt(&now), m.set), 0
			}

			check()
		}

		r.set(false, r.kept)

		for range 3 {
			now += raiseEvery.Microseconds()

			for _, m := range members {
				if _, err := m.Apply(document(7, 7)); err != nil {
					t.Fatal(err)
				}

				m.book.Raise(members[0].book.Current().Version) // a holder goes round
				m.look(context.Background())
				check()
			}
		}

		for _, m := range members {
			if m.versions() != members[0].versions() {
				t.Errorf("%s and %s", members[0].versions(), m.versions())
			}
		}
	})
}
