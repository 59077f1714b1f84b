package slots_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/slots"
)

// line is a pool and its store, without anything that fails between them.
type line struct {
	store slots.State
	pool  slots.Pool
	terms slots.Terms
	seq   uint64
}

func (l *line) ask(now int64, needs []int64, spare int64) slots.Ask {
	l.seq++
	ask := l.pool.Ask(now, slots.Need{Seq: l.seq, Needs: needs, Spare: spare})
	ask.Holder = 1

	return ask
}

func (l *line) exchange(now int64, needs []int64, spare int64) slots.Answer {
	ask := l.ask(now, needs, spare)
	a := l.store.Apply(now, l.terms, ask)
	l.pool.Hear(ask.Seq, l.terms.TTL, a)

	return a
}

func fives() *line { return &line{terms: slots.Terms{N: 5, TTL: slots.TTL}} }

func TestAPoolTakesWhatItHas(t *testing.T) {
	t.Parallel()

	l := fives()
	if l.pool.Take(0, 1) {
		t.Error("an empty pool gave a slot")
	}

	l.exchange(0, ones(2), 0)

	if !l.pool.Take(1, 2) || l.pool.Take(1, 1) {
		t.Error("a pool of 2 did not give 2 and then refuse")
	}

	l.pool.Put(2)

	if !l.pool.Take(2, 1) || l.pool.Busy() != 1 || l.pool.Idle() != 1 {
		t.Errorf("2 were put back, 1 taken: busy %d, idle %d", l.pool.Busy(), l.pool.Idle())
	}
}

func TestAPoolEndsWithItsTTL(t *testing.T) {
	t.Parallel()

	l := fives()
	l.exchange(0, ones(4), 0)
	l.pool.Take(0, 3)

	if l.pool.Take(slots.TTL, 1) {
		t.Error("a slot was given after the holding had ended")
	}

	l.pool.Expire(slots.TTL)

	// What is in flight goes on, and counts with the next ask, before any that wait.
	ask := l.ask(slots.TTL, ones(1), 0)
	if ask.Busy != 3 || ask.Want != 4 {
		t.Errorf("after the end the pool asks %+v, want 3 busy and 4 in all", ask)
	}
}

func TestWhatIsGivenBackIsStruckFirst(t *testing.T) {
	t.Parallel()

	l := fives()
	l.exchange(0, ones(5), 0)
	l.pool.Take(0, 2)
	l.ask(second, nil, 1)

	if !l.pool.Take(second, 1) || l.pool.Take(second, 1) {
		t.Error("of 3 idle slots 2 are being given back: one may be used, and no other")
	}
}

func TestALostAnswerIsMadeGoodByTheNext(t *testing.T) {
	t.Parallel()

	l := fives()
	ask := l.ask(0, ones(4), 0)
	late := l.store.Apply(0, l.terms, ask)
	l.pool.Lost()

	if !l.pool.Doubts(second) || l.pool.Doubts(slots.TTL) {
		t.Error("the store may have something down until it expires, and no longer")
	}

	if l.pool.Hear(ask.Seq, l.terms.TTL, late) || l.pool.Take(0, 1) {
		t.Error("an answer that was given up is believed")
	}

	if a := l.exchange(second, ones(1), 0); a.Slots != 1 || l.pool.Idle() != 1 || l.store.Total() != 1 {
		t.Errorf("the next ask wants 1: %+v, idle %d, held %d", a, l.pool.Idle(), l.store.Total())
	}

	if l.pool.Doubts(second) {
		t.Error("an answer has come, and it is in doubt still")
	}
}

// Lowering N takes nothing from what is in flight, and gives nothing out until enough has finished.
func TestALowerNWaitsForWhatIsInFlight(t *testing.T) {
	t.Parallel()

	l := &line{terms: slots.Terms{N: 10, TTL: slots.TTL}}
	l.exchange(0, ones(10), 0)
	l.pool.Take(0, 9)

	l.terms.N = 4
	if a := l.exchange(0, nil, 1); a.Slots != 10 || l.pool.Take(0, 1) {
		t.Errorf("9 in flight and one idle under a limit of 4: %+v, want 10 slots, and the idle one not used", a)
	}

	for busy := int64(9); busy > 4; busy-- {
		l.pool.Put(1)

		l.exchange(0, ones(1), 0)

		if l.pool.Take(0, 1) {
			t.Errorf("%d in flight under a limit of 4, and one more was admitted", busy-1)
		}
	}

	l.pool.Put(1)

	l.exchange(0, ones(1), 0)

	if !l.pool.Take(0, 1) {
		t.Error("3 in flight under a limit of 4, and another was refused")
	}
}

// What is forced passes N, counts, and keeps the rest out.
func TestWhatIsForcedCounts(t *testing.T) {
	t.Parallel()

	l := fives()
	l.pool.Force(7)

	if a := l.exchange(0, ones(1), 0); a.Slots != 7 || !a.Short || l.pool.Take(0, 1) {
		t.Errorf("7 forced under a limit of 5: %+v", a)
	}

	l.pool.Put(7)

	if a := l.exchange(0, nil, 0); a.Slots != 0 {
		t.Errorf("nothing is in flight, and %d are held", a.Slots)
	}
}

func TestRenewalIsDueLongBeforeTheEnd(t *testing.T) {
	t.Parallel()

	l := fives()
	if l.pool.Renew() != 0 {
		t.Error("nothing is held, and a renewal is due")
	}

	l.exchange(second, ones(1), 0)

	if got := l.pool.Renew(); got != second+3*second {
		t.Errorf("renewal at %d µs, want 3 s after the ask", got)
	}
}
