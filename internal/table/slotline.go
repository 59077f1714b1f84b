package table

import (
	"context"
	"slices"
	"time"

	"github.com/leaseway/leaseway/rule"
)

// berth is a request that waits for a slot.
type berth struct {
	n      int64
	class  rule.Class
	queued bool // it may stay when there is no slot, as its rule's queue says
	hit    SlotHit
	ch     chan struct{} // buffered: its fate is in hit
}

// join puts h in line: behind those of its class, before those that matter less; under the lock.
func (k *slotKey) join(h *SlotHit, queued bool) *berth {
	w := &berth{n: h.Cost, class: h.Class, queued: queued, hit: *h, ch: make(chan struct{}, 1)}
	if h.look {
		w.n = 0
	}

	if queued {
		k.queued++
	}

	at := len(k.line)
	for at > 0 && k.line[at-1].class < w.class {
		at--
	}

	k.line = slices.Insert(k.line, at, w)
	k.lined.Store(int64(len(k.line)))

	return w
}

// mayQueue reports whether h may wait for a slot to come back; under the lock.
func (k *slotKey) mayQueue(h *SlotHit) bool {
	q := k.rule.versionOf(k.key).Queue
	if h.look || h.Watch || q.Size == 0 || k.rule.table.stepped() {
		return false
	}

	return k.queued < q.Size
}

// serve gives slots to the first in line, as long as there are any; under the lock.
func (k *slotKey) serve(now int64) {
	served := 0

	for _, w := range k.line {
		if !k.seat(now, w) {
			break
		}

		served++
	}

	k.drop(served)
}

// drop takes the first n out of the line; under the lock.
func (k *slotKey) drop(n int) {
	for _, w := range k.line[:n] {
		k.unqueue(w)
	}

	clear(k.line[:n])
	k.line = k.line[n:]

	if len(k.line) == 0 {
		k.line = nil
	}

	k.lined.Store(int64(len(k.line)))
}

// unqueue takes w out of the count of those that may stay; under the lock.
func (k *slotKey) unqueue(w *berth) {
	if w.queued {
		k.queued--
	}
}

// seat serves w if there is a slot for it; under the lock.
func (k *slotKey) seat(now int64, w *berth) bool {
	h := &w.hit

	switch {
	case h.look:
		k.look(h)
	case k.Take(now, w.n):
		k.admit(h, FromStore, now)
	default:
		if down, _ := k.down(now, false); !down || k.rule.versionOf(k.key).OnUnavailable != rule.Local || !k.seatLocal(now, h) {
			return false
		}
	}

	w.ch <- struct{}{}

	return true
}

// seatLocal serves h from this process's share, if there is room in it; under the lock.
func (k *slotKey) seatLocal(now int64, h *SlotHit) bool {
	if k.Busy()+h.Cost > k.share() {
		return false
	}

	k.Force(h.Cost)
	k.admit(h, FromLocal, now)

	return true
}

// turnAway ends the waiting of those in line that may not wait for what comes
// back, each by refuse; under the lock.
func (k *slotKey) turnAway(refuse func(h *SlotHit)) {
	k.line = slices.DeleteFunc(k.line, func(w *berth) bool {
		if w.queued {
			return false
		}

		refuse(&w.hit)

		w.ch <- struct{}{}

		return true
	})
	k.lined.Store(int64(len(k.line)))
}

// turn refuses h for want of a slot, or tells it so if it only looks; under the lock.
func (k *slotKey) turn(h *SlotHit, origin Origin) {
	if h.look {
		k.look(h)
	} else {
		k.refuse(h, TooMany, origin)
	}
}

// await waits for w's fate until the instant until (µs), or the end of ctx, and
// reports whether one came; if not, w is out of the line.
func (k *slotKey) await(ctx context.Context, w *berth, until int64) bool {
	t := k.rule.table

	select {
	case <-w.ch:
		return true
	default:
	}

	if !t.stepped() {
		timer := time.NewTimer(time.Duration(until-t.clock.Now()) * time.Microsecond)
		defer timer.Stop()

		select {
		case <-w.ch:
			return true
		case <-timer.C:
		case <-ctx.Done():
		}
	}

	return k.unline(w)
}

// unline takes w out of the line, and reports whether it was served before that.
func (k *slotKey) unline(w *berth) bool {
	k.mu.Lock()
	defer k.mu.Unlock()

	select {
	case <-w.ch:
		return true
	default:
	}

	if i := slices.Index(k.line, w); i >= 0 {
		k.line = slices.Delete(k.line, i, i+1)
		k.unqueue(w)
		k.lined.Store(int64(len(k.line)))
	}

	k.serve(k.rule.table.clock.Now()) // who stood behind a large cost may fit

	return false
}

// stepped reports whether time stands still until a caller moves it, so that nobody can wait.
func (t *Table) stepped() bool { return t.clock.virtual || t.steps != nil }
