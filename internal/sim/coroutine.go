package sim

import "iter"

// coroutine runs the simulation until something that it does must wait. Then it
// names another to go on, and is resumed when the time has come:
//
//	run ──▶ A: events, a request that must wait ──▶ B: events, A's answer ──▶ A …
//
// So nearly all requests, which wait for nothing, cost no switch at all.
type coroutine struct {
	task   uint64 // of what it does; raised when that is done
	key    int    // that its request is for
	parked bool   // it waits
	timed  uint64 // task + 1, once that has a deadline

	resume func() (*coroutine, bool)
	stop   func()
	yield  func(*coroutine) bool
}

// scheduler has one coroutine run at a time.
type scheduler struct {
	step   func() bool // handles one event; false when the simulation is over
	active *coroutine
	idle   []*coroutine
	all    []*coroutine
}

// run handles events until step says that it is over.
func (s *scheduler) run() {
	defer func() {
		for _, c := range s.all {
			c.stop()
		}
	}()

	for next, more := s.spare(), true; more && next != nil; {
		s.active = next
		next, more = next.resume()
	}
}

// spare returns a coroutine that has nothing to do.
func (s *scheduler) spare() *coroutine {
	if n := len(s.idle); n > 0 {
		c := s.idle[n-1]
		s.idle = s.idle[:n-1]

		return c
	}

	c := &coroutine{}
	c.resume, c.stop = iter.Pull(func(yield func(*coroutine) bool) {
		c.yield = yield

		for s.step() {
			c.task++
		}
	})
	s.all = append(s.all, c)

	return c
}

// park lets the simulation go on until another coroutine wakes this one.
func (s *scheduler) park() {
	c := s.active
	c.parked = true
	c.yield(s.spare())
	c.parked = false
}

// wake has c go on, if it still does task and waits; the present coroutine has nothing else to do.
func (s *scheduler) wake(c *coroutine, task uint64) {
	if !c.parked || c.task != task {
		return
	}

	me := s.active
	s.idle = append(s.idle, me)
	me.yield(c)
}
