package rate

import "slices"

// Log is a sliding log: the exact times of the admissions of the last Length
// µs, oldest first. Its memory grows with what is used, not with the limit.
type Log struct {
	Limit  int64
	Length int64 // µs
}

// Admission is n tokens at one instant, µs.
type Admission struct{ At, N int64 }

// Prune returns entries without those that have left the window at now. The
// slice is reused. What a clock that stepped back left in the future counts as
// of now: it leaves one window from here, and nothing waits for the old time, if
// the result is kept even when nothing is taken.
func (l Log) Prune(entries []Admission, now int64) []Admission {
	var later int64

	n := len(entries)
	for ; n > 0 && entries[n-1].At > now; n-- {
		later += entries[n-1].N
	}

	entries = l.Add(entries[:n], now, later)

	i := 0
	for i < len(entries) && entries[i].At <= now-l.Length {
		i++
	}

	return slices.Delete(entries, 0, i)
}

// Used returns the tokens of entries, which must be pruned.
func (l Log) Used(entries []Admission) (n int64) {
	for _, e := range entries {
		n += e.N
	}

	return n
}

// Add returns entries with n tokens at now. Those of one instant share an
// entry; a cost of 0 leaves none.
func (l Log) Add(entries []Admission, now, n int64) []Admission {
	if n <= 0 {
		return entries
	}

	i := len(entries)
	for i > 0 && entries[i-1].At > now {
		i--
	}

	if i > 0 && entries[i-1].At == now {
		entries[i-1].N += n

		return entries
	}

	return slices.Insert(entries, i, Admission{At: now, N: n})
}

// Remove returns entries without n tokens, the newest first.
func (l Log) Remove(entries []Admission, n int64) []Admission {
	for n > 0 && len(entries) > 0 {
		last := &entries[len(entries)-1]
		part := min(n, last.N)
		last.N -= part
		n -= part

		if last.N == 0 {
			entries = entries[:len(entries)-1]
		}
	}

	return entries
}

// Wait returns the µs until n tokens are left if nothing more is used: 0 if
// they are now, -1 if n is above the limit.
func (l Log) Wait(entries []Admission, now, n int64) int64 {
	if n > l.Limit {
		return -1
	}

	over := l.Used(entries) + n - l.Limit
	for _, e := range entries {
		if over <= 0 {
			break
		}

		over -= e.N

		if over <= 0 {
			return max(0, e.At+l.Length-now)
		}
	}

	return 0
}

// Clear returns the µs until every entry has left the window.
func (l Log) Clear(entries []Admission, now int64) int64 {
	if len(entries) == 0 {
		return 0
	}

	return max(0, entries[len(entries)-1].At+l.Length-now)
}
