package rate

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
// that nothing is given twice and nothing waits for the old time: to which end
// the result is kept even if nothing is taken.
func (w Window) Roll(span Span) Window {
	switch length := span.End - span.Start; {
	case span.Start == w.Start:
		return w
	case span.Start < w.Start && w.Start <= span.End:
		// Back over one edge: Prev is what span itself has used already.
		return Window{Start: span.Start, Used: max(w.Used, w.Prev), Prev: w.Prev}
	case span.Start < w.Start:
		return Window{Start: span.Start, Used: w.Used, Prev: w.Prev}
	case 2*(span.Start-w.Start) < 3*length:
		// The next one. Calendar windows differ in length, by less than a half.
		return Window{Start: span.Start, Prev: w.Used}
	default:
		return Window{Start: span.Start}
	}
}

// Sliding is a sliding window counter: limit tokens, where the previous window
// weighs what is left of it. The weighed sum is exact in µs while prev × length
// stays below 2^53; beyond, a coarser unit of time is used in which elapsed time
// rounds down, so that tokens come back up to two units late and never early.
type Sliding struct {
	Limit  int64
	Length int64 // µs
}

// units returns the unit of time in which a count of prev can be weighed (µs),
// and the window's length in it, rounded up: (prev+1) × length is below 2^53.
func (s Sliding) units(prev int64) (unit, length int64) {
	most := (1<<53 - 1) / (prev + 1)
	unit, length = 1, s.Length

	for length > most {
		unit *= 10
		length = (s.Length + unit - 1) / unit
	}

	return unit, length
}

// Avail returns how many whole tokens are left when elapsed µs of the present window have gone.
func (s Sliding) Avail(w Window, elapsed int64) int64 {
	prev := bounded(w.Prev)
	unit, length := s.units(prev)
	gone := max(0, min(elapsed/unit, length))

	// limit - used - ⌈prev × what is left⌉
	return max(0, s.Limit-w.Used-(prev*(length-gone)+length-1)/length)
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
		return s.until(bounded(w.Prev), free) - elapsed
	}
	// Not before this window is the previous one.
	return s.Length - elapsed + s.until(bounded(w.Used), s.Limit-n)
}

// until returns the first elapsed µs of a window at which prev tokens of the
// one before it weigh at most free.
func (s Sliding) until(prev, free int64) int64 {
	if prev <= free {
		return 0
	}

	unit, length := s.units(prev)
	// prev × (length - gone) <= free × length
	gone := length - free*length/prev

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

// bounded returns a count that can be weighed at all.
func bounded(n int64) int64 { return max(0, min(n, MaxProduct)) }
