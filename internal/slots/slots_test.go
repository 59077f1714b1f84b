package slots_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/slots"
)

const second = 1_000_000

// A row is one ask at a time, and what comes of it.
type row struct {
	at     int64 // µs
	holder uint64
	busy   int64
	needs  []int64
	want   int64
	slots  int64 // that the holder then has
	others int64
	short  bool
}

// play sends the rows to one key, each holder counting its own seqs.
func play(t *testing.T, terms slots.Terms, rows []row) {
	t.Helper()

	var s slots.State

	seqs := map[uint64]uint64{}

	for i, r := range rows {
		seqs[r.holder]++

		a := s.Apply(r.at, terms, slots.Ask{
			Holder: r.holder, Name: r.holder, Seq: seqs[r.holder], Busy: r.busy, Needs: r.needs, Want: r.want,
		})
		if a.Slots != r.slots || a.Others != r.others || a.Short != r.short {
			t.Errorf("row %d at %d µs: holder %d has %d slots, others %d, short %v; want %d, %d, %v",
				i, r.at, r.holder, a.Slots, a.Others, a.Short, r.slots, r.others, r.short)
		}
	}
}

func ones(n int) []int64 {
	needs := make([]int64, n)
	for i := range needs {
		needs[i] = 1
	}

	return needs
}

// X takes all five and is killed; Y gets them when X's time is over, not before.
func TestSlotsOfACrashedHolderComeBackAfterTheTTL(t *testing.T) {
	t.Parallel()

	play(t, slots.Terms{N: 5, TTL: slots.TTL}, []row{
		{at: 0, holder: 1, needs: ones(5), want: 5, slots: 5},
		{at: 2 * second, holder: 2, needs: ones(1), want: 1, slots: 0, others: 5, short: true},
		{at: 9 * second, holder: 2, needs: ones(1), want: 1, slots: 0, others: 5, short: true},
		{at: slots.TTL + slots.Guard - 1, holder: 2, needs: ones(1), want: 1, slots: 0, others: 5, short: true},
		{at: slots.TTL + slots.Guard, holder: 2, needs: ones(1), want: 1, slots: 1},
		{at: 12 * second, holder: 2, busy: 1, needs: ones(4), want: 5, slots: 5},
	})
}

// A holder that renews keeps what it has, whoever else wants it and however often.
func TestALiveHolderKeepsItsSlots(t *testing.T) {
	t.Parallel()

	rows := []row{{at: 0, holder: 1, needs: ones(5), want: 5, slots: 5}}

	for at := int64(second); at <= 60*second; at += second {
		if at%(3*second) == 0 {
			rows = append(rows, row{at: at, holder: 1, busy: 5, want: 5, slots: 5})
		}

		rows = append(rows, row{at: at, holder: 2 + uint64(at/second)%50, needs: ones(1), want: 1, others: 5, short: true})
	}

	play(t, slots.Terms{N: 5, TTL: slots.TTL}, rows)
}

// A cost of more than one is that many slots, and they come whole or not at all.
func TestACostIsWhole(t *testing.T) {
	t.Parallel()

	play(t, slots.Terms{N: 10, TTL: slots.TTL}, []row{
		{holder: 1, needs: []int64{8, 8, 8, 2}, want: 26, slots: 10, short: true},
		{holder: 1, busy: 10, want: 10, slots: 10},
		{holder: 1, busy: 8, want: 8, slots: 8},
		{holder: 2, needs: []int64{8}, want: 8, others: 8, short: true},
	})
}

// Slots ahead of need are shared, and stop at four fifths of N.
func TestSlotsAheadLeaveRoomForOthers(t *testing.T) {
	t.Parallel()

	play(t, slots.Terms{N: 100, TTL: slots.TTL}, []row{
		{holder: 1, want: 100, slots: 80},
		{holder: 2, needs: ones(10), want: 50, slots: 10, others: 80},
		{holder: 1, want: 20, slots: 20, others: 10},
		{holder: 2, busy: 10, want: 100, slots: 10 + 70/3, others: 20},
		{holder: 2, busy: 10, needs: ones(64), want: 74, slots: 74, others: 20},
		{holder: 3, needs: ones(7), want: 7, slots: 6, others: 94, short: true},
	})
}

// A shorter TTL does not end what its holder still counts with, should the answer be lost.
func TestAShorterTTLEndsNothingEarly(t *testing.T) {
	t.Parallel()

	var s slots.State

	s.Apply(0, slots.Terms{N: 5, TTL: slots.TTL}, slots.Ask{Holder: 1, Seq: 1, Needs: ones(5), Want: 5})
	s.Apply(second, slots.Terms{N: 5, TTL: second}, slots.Ask{Holder: 1, Seq: 2, Busy: 5, Want: 5})

	if a := s.Apply(9*second, slots.Terms{N: 5, TTL: second}, slots.Ask{Holder: 2, Seq: 1, Needs: ones(1), Want: 1}); a.Slots != 0 {
		t.Errorf("5 of 5 are held until 10 s, and another holder has %d at 9 s", a.Slots)
	}
}

// A new incarnation of a name has the slots of the one before at once. If that
// one turns out to live, what it has in flight counts again, and the name displaces nobody any more.
func TestANewIncarnationDisplacesTheOneBefore(t *testing.T) {
	t.Parallel()

	var s slots.State

	terms := slots.Terms{N: 5, TTL: slots.TTL}
	ask := func(holder, name, seq uint64, busy int64, needs []int64) slots.Answer {
		return s.Apply(0, terms, slots.Ask{Holder: holder, Name: name, Seq: seq, Busy: busy, Needs: needs, Want: busy + int64(len(needs))})
	}

	ask(1, 7, 1, 0, ones(5))

	if a := ask(2, 8, 1, 0, ones(1)); !a.Short {
		t.Errorf("another name found room: %+v", a)
	}

	if a := ask(3, 7, 1, 0, ones(3)); a.Slots != 3 || a.Others != 0 {
		t.Errorf("a new incarnation has %+v, want 3 slots, and nothing at others", a)
	}

	if a := ask(1, 7, 2, 5, nil); a.Slots != 5 {
		t.Errorf("the one before lives and has 5 in flight; it has %+v", a)
	}

	if a := ask(4, 7, 1, 0, ones(1)); !a.Short || a.Others != 8 {
		t.Errorf("a name that two live holders share displaced one of them: %+v", a)
	}

	if a := ask(3, 7, 2, 3, ones(1)); a.Slots != 3 || !a.Short {
		t.Errorf("3 in flight, and over the limit in all: %+v, want 3 slots and short", a)
	}
}

// Without a name nobody is displaced.
func TestWithoutANameNothingIsDisplaced(t *testing.T) {
	t.Parallel()

	var s slots.State

	terms := slots.Terms{N: 5, TTL: slots.TTL}
	s.Apply(0, terms, slots.Ask{Holder: 1, Seq: 1, Needs: ones(5), Want: 5})

	if a := s.Apply(0, terms, slots.Ask{Holder: 2, Seq: 1, Needs: ones(1), Want: 1}); a.Slots != 0 {
		t.Errorf("the second holder has %d of 5 that the first has", a.Slots)
	}
}

// What was held before the store lost its data may still be in use until it has ended.
func TestAStoreThatLostItsDataWaits(t *testing.T) {
	t.Parallel()

	s := slots.State{Closed: slots.TTL + slots.Guard}
	terms := slots.Terms{N: 5, TTL: slots.TTL}

	if a := s.Apply(0, terms, slots.Ask{Holder: 1, Seq: 1, Busy: 3, Needs: ones(1), Want: 4}); a.Slots != 3 || !a.Short {
		t.Errorf("3 are in flight: %+v, want these and no more", a)
	}

	if a := s.Apply(s.Closed, terms, slots.Ask{Holder: 1, Seq: 2, Busy: 3, Needs: ones(1), Want: 4}); a.Slots != 4 {
		t.Errorf("after all that was held has ended: %+v, want 4", a)
	}
}

// The same ask again, or an older one, changes nothing.
func TestMessagesComeAgainAndLate(t *testing.T) {
	t.Parallel()

	var s slots.State

	terms := slots.Terms{N: 5, TTL: slots.TTL}
	first := slots.Ask{Holder: 1, Seq: 1, Needs: ones(3), Want: 3}

	for range 3 {
		if a := s.Apply(0, terms, first); a.Slots != 3 {
			t.Errorf("the same ask has %+v, want 3 slots", a)
		}
	}

	if a := s.Apply(0, terms, slots.Ask{Holder: 1, Seq: 2}); a.Slots != 0 {
		t.Errorf("given back, and there are %d", a.Slots)
	}

	if a := s.Apply(slots.Linger-1, terms, first); !a.Superseded || s.Total() != 0 {
		t.Errorf("an ask that was overtaken: %+v, %d held", a, s.Total())
	}

	s.Expire(slots.Linger)

	if len(s.Holdings) != 0 {
		t.Errorf("an empty holding is remembered for ever: %+v", s.Holdings)
	}
}

// No number of invented holders makes a key large.
func TestHoldersOfAKeyAreBounded(t *testing.T) {
	t.Parallel()

	var s slots.State

	terms := slots.Terms{N: 1, TTL: slots.TTL}
	for i := range uint64(slots.MaxHoldings + 5) {
		s.Apply(0, terms, slots.Ask{Holder: i + 1, Seq: 1, Needs: ones(1), Want: 1})
	}

	if n := len(s.Holdings); n != slots.MaxHoldings {
		t.Errorf("%d holdings, want %d", n, slots.MaxHoldings)
	}
}
