package table

import "time"

// Stepped drives a table by hand, in virtual time: it starts no goroutine, and
// nothing in it happens unless it is called. What waits in production waits in the
// caller's hands here, on the same code:
//
//	a request that waits for an answer   calls pause until its fate has come
//	a call to the coordinator            leaves when Departs says, by Fly; its Source may take time
//	ticks, the wheel, the beat           Clock.Tick, Advance (each 10 ms) and Beat (each 2 s)
//
// So requests and flights must run in coroutines, of which one runs at a time.
type Stepped struct {
	*Table

	pause   func(until int64)
	departs int64 // when the next flight may leave; 0: nothing is queued
}

// NewStepped returns a table over source that is driven by hand. pause is called
// by a request that waits, again and again until its fate has come or its deadline,
// until (µs on the table's clock), has passed. The source must fail a call after CallTimeout.
func NewStepped(source Source, cfg Config, pause func(until int64)) *Stepped {
	s := &Stepped{Table: New(source, cfg), pause: pause}
	s.steps = s

	return s
}

// CallTimeout returns how long a call may take.
func (s *Stepped) CallTimeout() time.Duration { return s.callTimeout() }

// Departs returns when the next flight may leave, µs on the table's clock; ok is false while none is wanted.
func (s *Stepped) Departs() (at int64, ok bool) {
	at = s.departs
	if len(s.queue.entries) < maxBatch {
		at = max(at, s.queue.air.opens(s.deadline))
	}

	return at, s.departs != 0 && len(s.queue.slots) < maxCalls
}

// Fly makes one call for what is queued, and hears its answer.
func (s *Stepped) Fly() {
	if len(s.queue.slots) == maxCalls {
		return // a call that ends makes room
	}

	s.departs = 0

	chunk := s.queue.chunk()
	if len(chunk) == 0 {
		return
	}

	s.queue.slots <- struct{}{}

	left := s.clock.Now()
	s.queue.air.leave(left)

	defer func() {
		s.queue.air.land(left, s.clock.Now(), len(chunk))
		<-s.queue.slots
		s.again()
	}()

	s.again()
	s.send(chunk)
}

// again has another flight leave at once if more is queued.
func (s *Stepped) again() {
	if len(s.queue.entries) > 0 {
		s.due(true)
	}
}

// Beat makes a call about nothing, if none went out since the last Beat.
func (s *Stepped) Beat() { s.flushBeat() }

// Flying reports how many calls are under way. Close must wait until there is none.
func (s *Stepped) Flying() int { return len(s.queue.slots) }

// due notes that a flight is wanted: at once if a request waits, else with the next tick.
func (s *Stepped) due(urgent bool) {
	at := s.clock.Now()
	if !urgent {
		at += refillDelay.Microseconds()
	}

	if s.departs == 0 || at < s.departs {
		s.departs = at
	}
}

// await is Table.await in virtual time.
func (s *Stepped) await(e *Entry, w *waiter, until int64) fate {
	for {
		select {
		case f := <-w.ch:
			return f
		default:
		}

		if s.clock.Now() >= until {
			s.counts.late.Add(1)

			return e.abandon(w, failed)
		}

		s.pause(until)
	}
}
