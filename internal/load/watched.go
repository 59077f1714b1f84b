package load

import "math"

// Watched calls a function that somebody else wrote, without waiting for it: one
// that hangs, or panics, only has no value.
type Watched struct {
	read   func() float64
	answer chan float64
	asked  bool
}

// Watch returns a Watched for read. It is for one goroutine.
func Watch(read func() float64) *Watched {
	return &Watched{read: read, answer: make(chan float64, 1)}
}

// Ask calls the function in a goroutine of its own, unless the last call is still under way.
func (w *Watched) Ask() {
	if w.asked {
		return
	}

	w.asked = true

	go func() { w.answer <- called(w.read) }()
}

// Answer returns what the function said since it was last asked for; NaN if it
// said nothing yet, no number, or a negative one. wait ends the waiting for it.
func (w *Watched) Answer(wait <-chan struct{}) float64 {
	if !w.asked {
		return math.NaN()
	}

	select {
	case load := <-w.answer: // one that is there counts, even if another function has used up the time
		return w.answered(load)
	default:
	}

	select {
	case load := <-w.answer:
		return w.answered(load)
	case <-wait:
		return math.NaN()
	}
}

func (w *Watched) answered(load float64) float64 {
	w.asked = false

	return load
}

// called is what read returns; NaN when it panics, or returns what no load can be.
func called(read func() float64) (load float64) {
	load = math.NaN()

	defer func() { _ = recover() }() // it is not ours; that nothing is known of the load is said

	if got := read(); got >= 0 && !math.IsInf(got, 1) {
		load = got
	}

	return load
}
