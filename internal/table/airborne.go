package table

import (
	"slices"
	"sync"
)

const (
	// A call waits for the one before it this many times as long as calls take of late: then that is a slow one.
	patienceParts = 2
	leastPatience = int64(1_000) // µs
	// deadlinePart is the part of a request's deadline that it waits at most for a call to leave.
	deadlinePart = 4
	tookWeight   = 8 // of the calls before, in the average
	// A call of so many keys says that more come all the time. The next one then waits for some company, for a part of the time
	// that calls take, and of a request's deadline at most.
	gatherFrom         = 4
	gatherPart         = 2
	gatherDeadlinePart = 20
)

// airborne is the calls under way. While one is, what comes meanwhile waits for
// it to land, and then leaves together. So a call leaves at once when there is
// little to ask for, and carries the more keys the more there are, or the longer it takes.
//
// When many keys are asked for, a call costs all three sides more than its keys do. So after such a
// call the next one waits a little longer, and carries more.
//
// A call that takes longer than its like keeps nobody waiting: the next one leaves beside it.
type airborne struct {
	mu   sync.Mutex
	left []int64 // when each of them left, µs
	took int64   // how long a call takes, a moving average, µs
	last int     // keys of the call that landed last
	at   int64   // when it did, µs
}

// opens returns when the next call may leave, µs: in the past if it may at once.
// deadline is how long a request waits in all.
func (a *airborne) opens(deadline int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()

	if len(a.left) == 0 {
		if a.last < gatherFrom {
			return 0
		}

		return a.at + min(a.took/gatherPart, deadline/gatherDeadlinePart)
	}

	return slices.Max(a.left) + a.patience(deadline)
}

// patience is how long a call waits for the one before it, µs: little enough
// that its answers are in time. When they are late in any case, fewer calls are the way out.
func (a *airborne) patience(deadline int64) int64 {
	wait := min(deadline/deadlinePart, patienceParts*a.took)
	if a.took < deadline {
		wait = min(wait, (deadline-a.took)/2)
	}

	return max(leastPatience, wait)
}

// leave notes that a call leaves at now.
func (a *airborne) leave(now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.left = append(a.left, now)
}

// land notes that a call of so many keys that left at left has ended at now.
func (a *airborne) land(left, now int64, keys int) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if i := slices.Index(a.left, left); i >= 0 {
		a.left = slices.Delete(a.left, i, i+1)
	}

	a.took += (now - left - a.took) / tookWeight
	a.last, a.at = keys, now
}
