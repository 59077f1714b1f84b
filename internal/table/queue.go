package table

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// queue holds the entries that the next calls are for.
type queue struct {
	mu      sync.Mutex
	entries []*Entry
	urgent  chan struct{} // a request waits
	refill  chan struct{} // nobody waits
	slots   chan struct{}
	air     airborne
	calls   sync.WaitGroup
	build   sync.Mutex // one batch at a time is built, so that a key's seqs go up
}

func (q *queue) init() {
	q.urgent = make(chan struct{}, 1)
	q.refill = make(chan struct{}, 1)
	q.slots = make(chan struct{}, maxCalls)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// enqueue asks for e: as soon as a call may leave if a request waits, else with the next tick. Never under e's lock.
func (t *Table) enqueue(e *Entry, urgent bool) {
	if t.cfg.Inline {
		t.send([]*Entry{e})

		return
	}

	if !e.asking.Swap(true) {
		t.queue.mu.Lock()
		t.queue.entries = append(t.queue.entries, e)
		t.queue.mu.Unlock()
	}

	switch {
	case t.steps != nil:
		t.steps.due(urgent)
	case urgent:
		signal(t.queue.urgent)
	default:
		signal(t.queue.refill)
	}
}

// dispatch sends calls and turns the wheel until ctx ends. The wheel stands still while nothing hangs on it: a process without
// requests wakes up for its beat alone.
func (t *Table) dispatch(ctx context.Context) {
	wheel := time.NewTicker(slotWidth * time.Microsecond)
	defer wheel.Stop()

	delay := time.NewTimer(time.Hour)
	defer delay.Stop()
	delay.Stop()

	held := time.NewTimer(time.Hour)
	defer held.Stop()
	held.Stop()

	// flush sends what may leave, and comes back for the rest.
	flush := func() {
		if opens := t.flush(); opens > 0 {
			held.Reset(time.Duration(opens-t.clock.Now()) * time.Microsecond)
		}
	}

	armed, turning := false, true

	signal(t.queue.refill) // what is queued since a panic, if this is a new beginning

	beat := time.NewTicker(beatEvery)
	defer beat.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-t.queue.urgent:
			flush()
		case <-held.C:
			flush()
		case <-t.queue.refill:
			if !armed {
				armed = true

				delay.Reset(refillDelay)
			}
		case <-delay.C:
			armed = false

			flush()
		case <-wheel.C:
			t.turnWheel()

			if turning = !t.idle(); !turning {
				wheel.Stop()
			}
		case <-t.wheel.stir:
			if !turning {
				turning = true

				wheel.Reset(slotWidth * time.Microsecond)
			}
		case <-beat.C:
			t.flushBeat()
		}
	}
}

// flushBeat calls the source about nothing if no call went out of late: so the
// fleet knows that this holder lives, and this holder how many there are, and
// whether a coordinator answers at all, before the first request finds out. A
// coordinator in this process knows all that, but for how requests fare, and
// that keys are in use whose buckets it has lent.
func (t *Table) flushBeat() {
	calls := t.counts.calls.Load()
	if t.cfg.Inline && len(t.running.Load().rolled) == 0 && t.loans.Load() == 0 || t.closed.Load() || calls != t.beats {
		t.beats = calls

		return
	}

	if down, probe := t.out.ask(t.clock.Now()); down && !probe {
		return
	}

	select {
	case t.queue.slots <- struct{}{}:
	default:
		return // enough is under way
	}

	fly := func() {
		defer func() { <-t.queue.slots }()

		t.beat()
	}

	if t.steps != nil {
		fly()
	} else {
		t.queue.calls.Go(fly)
	}
}

func (t *Table) turnWheel() {
	defer t.recovered(func(error) {})

	t.Advance(t.clock.Now())
}

// recovered turns a bug of ours into a failure that then is handled. It is deferred.
func (t *Table) recovered(then func(err error)) {
	if p := recover(); p != nil {
		t.mishaps.Note("refilling in the background", p)
		t.mishaps.Guard("giving up what was under way", func() { then(fmt.Errorf("panic: %v", p)) }) // nobody is left to recover it
	}
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()

	return len(q.entries)
}

// chunk takes the entries of one call out of the queue.
func (q *queue) chunk() []*Entry {
	q.mu.Lock()
	defer q.mu.Unlock()

	n := min(len(q.entries), maxBatch)
	chunk := slices.Clone(q.entries[:n])
	q.entries = slices.Delete(q.entries, 0, n) // which keeps no entry that leaves the table

	return chunk
}

// flush sends what is queued, as many calls as there are slots for, unless it
// should wait for a call under way: then it returns until when at most, µs. A
// full batch has nothing to wait for.
func (t *Table) flush() (opens int64) {
	q := &t.queue

	switch queued := q.len(); {
	case queued == 0:
		return 0
	case queued < maxBatch:
		if opens = q.air.opens(t.deadline); opens > t.clock.Now() {
			return opens
		}
	}

	for {
		select {
		case q.slots <- struct{}{}:
		default:
			return 0 // a call that ends flushes again
		}

		chunk := q.chunk()
		if len(chunk) == 0 {
			<-q.slots

			return 0
		}

		left := t.clock.Now()
		q.air.leave(left)

		q.calls.Go(func() {
			defer func() {
				q.air.land(left, t.clock.Now(), len(chunk))
				<-q.slots
				signal(q.urgent)
			}()

			t.send(chunk)
		})
	}
}
