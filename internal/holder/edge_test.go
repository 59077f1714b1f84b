package holder_test

import (
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/rate"
)

// edge is one holder of a fixed window of a second, with its ledger.
type edge struct {
	*testing.T

	lease *holder.Lease
	state ledger.State
	terms ledger.Terms
	seq   uint64
}

func newEdge(t *testing.T) *edge {
	t.Helper()

	bucket, err := rate.NewBucket(100, 1_000_000, 100)
	if err != nil {
		t.Fatal(err)
	}

	e := &edge{T: t, lease: holder.New(), terms: ledger.Terms{Algorithm: rate.FixedWindow, Bucket: bucket, Length: 1_000_000, Version: 1, TTL: 500_000}}

	// A busy key holds a lease and has a size in mind.
	for at := int64(10_000_000); at <= 10_400_000; at += 100_000 {
		e.ask(at)
		e.spend(at, 5)
		e.lease.Refuse(10)
	}

	return e
}

func (e *edge) need() holder.Need {
	e.seq++

	return holder.Need{Seq: e.seq, Holder: 1, Holders: 1, TTL: e.terms.TTL}
}

func (e *edge) say(now int64, ask ledger.Ask) {
	a := e.state.Apply(now, e.terms, ask)
	if !e.lease.Hear(now, &a) {
		e.Fatalf("the answer %+v was not taken", a)
	}
}

func (e *edge) ask(now int64, takes ...int64) {
	need := e.need()
	need.Takes = takes
	e.say(now, e.lease.Ask(now, holder.Exact{}, need))
}

func (e *edge) spend(now, n int64) {
	tick := e.lease.Turn(now, now, holder.Exact{})
	e.lease.Spend(tick, n)
}

// What was refunded and credited in one window is not credited again in the next,
// whose lease was asked for before.
func TestARefundIsCreditedInOneWindow(t *testing.T) {
	t.Parallel()

	e := newEdge(t)
	e.say(10_700_000, e.lease.AskAhead(10_700_000, e.need()))
	e.ask(10_800_000, 7)
	e.lease.Refund(10_850_000, holder.Payment{Epoch: ^uint32(0), N: 7, End: 11_000_000})
	e.ask(10_860_000) // credited now

	e.spend(11_000_100, 1)
	e.ask(11_000_200)

	if used := e.state.Window.Used; used < 1 {
		t.Errorf("1 was spent in the new window, which counts %d", used)
	}
}

// What was refunded in one window, and not told until it was over, is not credited to the next.
func TestARefundIsNotCreditedToTheNextWindow(t *testing.T) {
	t.Parallel()

	e := newEdge(t)
	e.say(10_700_000, e.lease.AskAhead(10_700_000, e.need()))
	e.ask(10_800_000, 7)
	e.lease.Refund(10_999_000, holder.Payment{Epoch: ^uint32(0), N: 7, End: 11_000_000})

	e.spend(11_000_100, 1)
	e.ask(11_000_200)

	if used := e.state.Window.Used; used < 1 {
		t.Errorf("1 was spent in the new window, which counts %d", used)
	}
}

// An ask between the end of one window here and the start of the next at the ledger is answered about the first. By
// then the lease of the next one has begun, and goes on: 80 tokens of a thousand were lost otherwise.
func TestAnEarlyAskDoesNotEndTheNextLease(t *testing.T) {
	t.Parallel()

	e := newEdge(t)
	e.say(10_700_000, e.lease.AskAhead(10_700_000, e.need()))

	exchange := func(sent, applied, heard int64, between func()) {
		ask := e.lease.Ask(sent, holder.Exact{}, e.need())
		a := e.state.Apply(applied, e.terms, ask)

		between()

		if !e.lease.Hear(heard, &a) {
			t.Fatalf("the answer %+v was not taken", a)
		}
	}

	exchange(10_990_000, 10_990_300, 10_990_600, func() {}) // so this window ends 300 µs early here
	exchange(10_999_800, 10_999_900, 11_000_200, func() { e.spend(11_000_100, 1) })

	left := e.lease.Balance()
	if left == 0 {
		t.Fatal("the lease of the new window is gone")
	}

	e.spend(11_000_300, left)
	e.ask(11_000_400)

	if used := e.state.Window.Used - e.lease.Balance(); used != left+1 {
		t.Errorf("%d were spent in the new window, which counts %d beside what is in hand", left+1, used)
	}
}
