package sim

import "container/heap"

// event is something that happens at an instant: to a server, unless on is nil,
// which then must be running, and otherwise does it when it runs again.
type event struct {
	at   int64  // µs
	seq  uint64 // of two events of one instant the older goes first
	on   *server
	do   func()
	wake *coroutine // instead of do: goes on, if it still does what it did
	task uint64
}

// agenda is what will happen, soonest first.
type agenda struct {
	events []event
	seq    uint64
}

func (a *agenda) add(e event) {
	a.seq++
	e.seq = a.seq
	heap.Push(a, e)
}

// next returns when the next event is, and false if there is none.
func (a *agenda) next() (at int64, ok bool) {
	if len(a.events) == 0 {
		return 0, false
	}

	return a.events[0].at, true
}

func (a *agenda) take() event {
	e, _ := heap.Pop(a).(event)

	return e
}

// Len is how many there are; see heap.Interface.
func (a *agenda) Len() int { return len(a.events) }

// Less reports whether event i is before event j; see heap.Interface.
func (a *agenda) Less(i, j int) bool {
	e := a.events

	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}

// Swap swaps two events; see heap.Interface.
func (a *agenda) Swap(i, j int) { a.events[i], a.events[j] = a.events[j], a.events[i] }

// Push adds an event at the end; see heap.Interface.
func (a *agenda) Push(x any) {
	e, _ := x.(event)
	a.events = append(a.events, e)
}

// Pop takes the last event; see heap.Interface.
func (a *agenda) Pop() any {
	n := len(a.events) - 1
	last := a.events[n]
	a.events[n] = event{}
	a.events = a.events[:n]

	return last
}
