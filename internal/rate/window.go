package rate

import "math/bits"

// Span is one window, from Start (included) to End (not), µs since the Unix epoch.
type Span struct{ Start, End int64 }

// Aligned returns the window of the given length that now is in, aligned to the epoch.
func Aligned(now, length int64) Span {
	start := floorDiv(now, length) * length

	return Span{Start: start, End: start + length}
}

// Window is the count of a fixed or sliding window: what the present window
// has used, and, for a sliding one, what the one before it had.
type Window struct {
	Start int64 // of the present window, µs
	Used  int64
	Prev  int64
}

// Roll brings w to the window span. Counts of a window that is over are kept
// for the next one only. A clock that stepped back takes the count with it, so
// that nothing is given twice and nothing waits for the old time.
func (w Window) Roll(span Span) Window {
	switch length := span.End - span.Start; {
	case span.Start == w.Start:
		return w
	case span.Start < w.Start:
		return Window{Start: span.Start, Used: w.Used, Prev: w.Prev}
	case span.Start-w.Start <= length:
		return Window{Start: span.Start, Prev: w.Used}
	default:
		return Window{Start: span.Start}
	}
}

// Sliding is a sliding window counter: limit tokens, where the previous window
// weighs what is left of it. The weighed sum is compared exactly, in a unit of
// time coarse enough that limit × length stays below 2^53; elapsed time rounds down.
type Sliding struct {
	Limit  int64
	Length int64 // µs
}

// units returns the window's length and the time elapsed in it, in the unit of s.
func (s Sliding) units(elapsed int64) (length, gone int64) {
	unit := int64(1)
	for hi, lo := bits.Mul64(uint64(s.Limit), uint64(s.Length/unit)); hi != 0 || lo > 1<<53; hi, lo = bits.Mul64(uint64(s.Limit), uint64(s.Length/unit)) {
		unit *= 10
	}

	length = max(1, s.Length/unit)

	return length, max(0, min(elapsed/unit, length))
}

// Avail returns how many whole tokens are left when elapsed µs of the present window have gone.
func (s Sliding) Avail(w Window, elapsed int64) int64 {
	length, gone := s.units(elapsed)
	prev := min(w.Prev, s.Limit) * (length - gone)

	// limit - used - ⌈prev/length⌉
	return max(0, s.Limit-w.Used-(prev+length-1)/length)
}

// Wait returns the µs until n tokens are left if nothing more is used: 0 if
// they are now, -1 if n is above the limit.
func (s Sliding) Wait(w Window, elapsed, n int64) int64 {
	if n > s.Limit {
		return -1
	}

	if s.Avail(w, elapsed) >= n {
		return 0
	}

	if free := s.Limit - n - w.Used; free >= 0 {
		return s.until(min(w.Prev, s.Limit), free) - elapsed
	}
	// Not before this window is the previous one.
	return s.Length - elapsed + s.until(min(w.Used, s.Limit), s.Limit-n)
}

// until returns the first elapsed µs of a window at which prev tokens of the
// one before it weigh at most free.
func (s Sliding) until(prev, free int64) int64 {
	if prev <= free {
		return 0
	}

	length, _ := s.units(0)
	unit := s.Length / length
	// prev × (length - gone) <= free × length
	gone := length - mulDiv(free, length, prev)

	return min(gone*unit, s.Length)
}

// Clear returns the µs until nothing that was used weighs any more.
func (s Sliding) Clear(w Window, elapsed int64) int64 {
	switch {
	case w.Used > 0:
		return 2*s.Length - elapsed
	case w.Prev > 0:
		return s.Length - elapsed
	default:
		return 0
	}
}
