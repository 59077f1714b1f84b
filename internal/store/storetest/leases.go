package storetest

import (
	"time"

	"github.com/leaseway/leaseway/internal/ledger"
	"github.com/leaseway/leaseway/internal/store"
)

func sameAsk(r *rig) {
	key := store.Key{Rule: "r", Key: "k"}
	h := r.holder(1, key, still(r.T, 10))

	op := h.op()
	op.Ask.Takes = []int64{2, 20, 1}
	op.Ask.RaiseTo = 4

	first := h.send(r.T, op)
	if first.Taken != 0b101 || first.Granted != 4 {
		r.Fatalf("of 10 tokens the ask got takes %b and a lease of %d, want 101 and 4", first.Taken, first.Granted)
	}

	for range 3 {
		again := apply(r.T, r.store, op)[0]
		if again.Taken != first.Taken || again.Granted != first.Granted || again.Lease != first.Lease || again.Status != ledger.OK {
			r.Errorf("the same ask again got %+v, want what it got at first: %+v", again, first)
		}
	}

	if got := r.holder(2, key, still(r.T, 10)).drain(r.T, 20); got != 3 {
		r.Errorf("3 were taken and 4 leased of 10, once; %d were left, want 3", got)
	}
}

func olderAsk(r *rig) {
	key := store.Key{Rule: "r", Key: "k"}
	h := r.holder(1, key, still(r.T, 10))
	late := h.op()
	late.Ask.Takes = []int64{5}

	h.raise(r.T, 4)

	if a := apply(r.T, r.store, late)[0]; a.Status != ledger.Superseded || a.Taken != 0 {
		r.Errorf("an ask that was overtaken got status %d and takes %b, want %d and none", a.Status, a.Taken, ledger.Superseded)
	}

	if got := r.holder(2, key, still(r.T, 10)).drain(r.T, 20); got != 6 {
		r.Errorf("4 were leased of 10; %d were left, want 6", got)
	}
}

func returns(r *rig) {
	key := store.Key{Rule: "r", Key: "k"}
	a, b := r.holder(1, key, still(r.T, 10)), r.holder(2, key, still(r.T, 10))

	if got := a.raise(r.T, 8).Granted; got != 8 {
		r.Fatalf("a lone holder that asked for 8 of 10 got %d", got)
	}

	if got := b.drain(r.T, 20); got != 2 {
		r.Errorf("beside a lease of 8 of 10 %d were left, want 2", got)
	}

	a.spent = 3
	if got := a.raise(r.T, 3); got.Granted != 0 && got.Granted != 3 {
		r.Errorf("a lease of 8 with 3 spent was returned, and has %d tokens in all, want 3 or no lease", got.Granted)
	}

	if got := b.drain(r.T, 20); got != 5 {
		r.Errorf("5 tokens were returned and %d found, want 5", got)
	}
}

// expiredLease lets a holder vanish with 8 of 10 tokens: they are as good as
// spent, but nobody has them any longer.
func expiredLease(r *rig) {
	const ttl = 50 * time.Millisecond

	key := store.Key{Rule: "r", Key: "k"}
	slow := terms(r.T, 10, 1000*time.Hour, ttl)
	h := r.holder(1, key, slow)

	if got := h.raise(r.T, 8).Granted; got != 8 {
		r.Fatalf("a lone holder that asked for 8 of 10 got %d", got)
	}

	if r.clock.virtual {
		r.advance(ttl + ledger.Guard*time.Microsecond - time.Microsecond)

		look := r.holder(2, key, slow)
		if a := look.send(r.T, look.op()); a.Others != 8 {
			r.Errorf("a microsecond before the lease ends others have %d tokens, want 8", a.Others)
		}
	}

	r.advance(ttl + ledger.Guard*time.Microsecond)

	late := r.holder(3, key, slow)
	if a := late.send(r.T, late.op()); a.Others != 0 {
		r.Errorf("after the lease ended others have %d tokens, want 0", a.Others)
	}

	if got := late.drain(r.T, 20); got != 2 {
		r.Errorf("8 of 10 tokens were forfeited, and %d were left, want 2", got)
	}

	// Its holder comes back: what it says it spent of the old lease is charged already.
	op := h.op()
	op.Ask.Spent, op.Ask.RaiseTo = 8, 9

	if a := h.send(r.T, op); a.Granted != 0 {
		r.Errorf("a holder that comes back after its lease ended got %d tokens of an empty bucket", a.Granted)
	}
}

func ruleChange(r *rig) {
	key := store.Key{Rule: "r", Key: "k"}

	if got := r.holder(1, key, still(r.T, 10)).drain(r.T, 20); got != 10 {
		r.Fatalf("drained %d of 10", got)
	}

	raised := still(r.T, 20)
	raised.Version = 2

	h := r.holder(2, key, raised)
	if got := h.drain(r.T, 40); got != 10 {
		r.Errorf("raising an empty bucket from 10 to 20 made %d available, want 10", got)
	}

	h.terms = still(r.T, 10)
	if a := h.send(r.T, h.op()); !a.Stale || a.Terms != raised {
		r.Errorf("an ask under version 1 of a ledger at version 2: stale is %v with terms %+v, want true and %+v", a.Stale, a.Terms, raised)
	}
}
