package storetest

import (
	"context"
	"time"

	"github.com/leaseway/leaseway/internal/store"
)

const (
	keepsNothing = "keeps nothing over a restart"
	cannotCrash  = "cannot be made to lose its data here"
)

func idNamesData(r *rig) {
	id := r.store.ID()
	if id == 0 {
		r.Error("the id is 0")
	}

	if again := r.store.ID(); again != id {
		r.Errorf("the id was %d and is %d", id, again)
	}

	other := newRig(r.T, r.backend)
	if other.store.ID() == id {
		r.Errorf("two sites have the same id, %d", id)
	}
}

func closedRefuses(r *rig) {
	r.close()

	h := r.holder(1, store.Key{Rule: "r", Key: "k"}, still(r.T, 2))
	results := make([]store.Result, 1)
	r.store.Apply(context.Background(), []store.Op{h.op()}, results)

	if results[0].Err == nil {
		r.Error("a closed store answered an ask")
	}

	if _, err := r.store.Beat(context.Background(), []uint64{1}, time.Hour); err == nil {
		r.Error("a closed store took a beat")
	}

	r.close() // a second time does no harm
}

func restartKeeps(r *rig) {
	r.needs(r.backend.Keeps, keepsNothing)

	const minute = time.Minute

	var (
		id     = r.store.ID()
		spent  = store.Key{Rule: "r", Key: "spent"}
		leased = store.Key{Rule: "r", Key: "leased"}
		slow   = terms(r.T, 60, 60*minute, 10*minute) // a token a minute
		h      = r.holder(1, leased, slow)
	)

	r.holder(1, spent, slow).drain(r.T, 60)

	op := h.op()
	op.Ask.RaiseTo, op.Ask.Takes = 5, []int64{3}
	before := h.send(r.T, op)

	r.close()

	if r.clock.virtual {
		r.advance(2 * minute)
	}

	r.open()

	if again := r.store.ID(); again != id {
		r.Errorf("after a restart the id is %d, want %d as before", again, id)
	}

	after := apply(r.T, r.store, op)[0]
	if after.Lease != before.Lease || after.Granted != before.Granted || after.Taken != before.Taken {
		r.Errorf("after a restart the same ask got %+v, want what it got before: %+v", after, before)
	}

	refilled := int64(0)
	if r.clock.virtual {
		refilled = 2
	}

	if got := r.holder(2, spent, slow).drain(r.T, 60); got != refilled {
		r.Errorf("an empty bucket had %d tokens after the restart, want %d", got, refilled)
	}

	if got := r.holder(2, store.Key{Rule: "r", Key: "new"}, slow).drain(r.T, 100); got != 60 {
		r.Errorf("a new key had %d tokens after the restart, want its burst of 60", got)
	}
}

// keptOnce crashes a store that had taken in an older one's data: that data is
// out of date then, and must not come back.
func keptOnce(r *rig) {
	r.needs(r.backend.Keeps, keepsNothing)
	r.needs(r.backend.Crash != nil, cannotCrash)

	key := store.Key{Rule: "r", Key: "k"}

	r.holder(1, key, still(r.T, 10)).take(r.T, 1)
	r.close()
	r.open()

	id := r.store.ID()
	r.holder(2, key, still(r.T, 10)).drain(r.T, 20)
	r.backend.Crash(r.T, r.store)
	r.open()

	if again := r.store.ID(); again == id || again == 0 {
		r.Errorf("the data was lost and the id is %d as before", again)
	}

	if got := r.holder(3, key, still(r.T, 10)).drain(r.T, 20); got != 0 {
		r.Errorf("a bucket that was empty when the data was lost gave %d tokens", got)
	}
}

func lostIsSpent(r *rig) {
	r.needs(r.backend.Crash != nil, cannotCrash)

	const minute = time.Minute

	slow := terms(r.T, 60, 60*minute, minute)
	key := store.Key{Rule: "r", Key: "k"}

	id := r.store.ID()
	r.holder(1, key, slow).drain(r.T, 60)
	r.backend.Crash(r.T, r.store)

	if r.clock.virtual {
		r.advance(5*minute + time.Second) // the loss is dated a little later than it was
	}

	r.open()

	if again := r.store.ID(); again == id || again == 0 {
		r.Errorf("the data was lost, and the id is %d where it was %d", again, id)
	}

	want := int64(0)
	if r.clock.virtual {
		want = 5
	}

	for i, k := range []store.Key{key, {Rule: "r", Key: "never seen"}} {
		if got := r.holder(2, k, slow).drain(r.T, 100); got != want {
			r.Errorf("key %d gave %d tokens, want %d: it counts as empty when the data was lost", i, got, want)
		}
	}
}

// lossIsRemembered restarts in order after a loss: keys that nobody asked for
// in between still count as empty then.
func lossIsRemembered(r *rig) {
	r.needs(r.backend.Keeps, keepsNothing)
	r.needs(r.backend.Crash != nil, cannotCrash)

	r.backend.Crash(r.T, r.store)
	r.open()
	r.close()
	r.open()

	if got := r.holder(1, store.Key{Rule: "r", Key: "k"}, still(r.T, 10)).drain(r.T, 20); got != 0 {
		r.Errorf("a key gave %d tokens after a loss and a restart, want 0", got)
	}
}
