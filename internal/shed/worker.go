// Package shed says which requests a process drops while it is busy.
//
// One number, the level S from 0 to 3, says how much. Class k is dropped with
// probability S - k, kept within 0 and 1:
//
//	S      0       1       2       3
//	test   ▁▂▃▄▅▆▇█████████████████   k = 0
//	read           ▁▂▃▄▅▆▇█████████   k = 1
//	write                  ▁▂▃▄▅▆▇█   k = 2
//	                                  critical: never
//
// S rises while the load is above the high threshold, falls more slowly while it
// is below the low one, and stays in between, so that what is let in again does
// not drive out what just came back:
//
//	load > High           S rises by 1 in each Rise
//	Low <= load <= High   S stays
//	load < Low            S falls by 1 in each Fall, or to 0 in Hold
//
// The package is pure: who measures the load, and when, is above it. The fleet's
// shedder is another, over slots.
package shed

import "math"

// Classes is how many classes can be dropped: test, read and write, from 0 on.
// A class above them is never dropped.
const Classes = 3

// Config says when a worker sheds. Times are in µs, loads are shares of 1.
type Config struct {
	High, Low  float64 // above High the level rises, below Low it falls
	Rise, Fall int64   // how long it takes for one class
	Stale      int64   // for how long the last load is believed

	// Hold, if it is not 0, takes the place of Fall: below Low the level falls to 0 in that time, however high it is, and does
	// not rise again for as long after. So shedding begins or ends once in each Hold at most.
	Hold int64
}

// Worker is the level of one process over time. The zero Worker sheds nothing.
type Worker struct {
	level float64
	load  float64 // smoothed
	at    int64   // of the last step
	heard int64   // when a load was last known; before that, of the first step
	from  float64 // the level when the load became low; 0 while it is not, or there is no Hold
	rests int64   // until then the level stays 0, with a Hold
	moved bool    // there was a step
	began bool    // there is a load to smooth
	stale bool
}

// Step moves the level to now, µs, since the last step having had a mean load;
// NaN for a load that is not known. Then the level stays as it is until the last
// known load is stale, and is 0 from there on: without knowing, nothing is shed.
//
// The load is smoothed over half of Rise, since that of a moment is mostly noise:
// else one that only touches the threshold would push the level up by and by.
func (w *Worker) Step(now int64, c Config, load float64) {
	passed := max(0, now-w.at)
	w.at = max(w.at, now)

	if !w.moved {
		w.moved, w.heard = true, w.at
	}

	switch {
	case math.IsNaN(load):
		if w.at-w.heard >= c.Stale {
			w.level, w.stale, w.began = 0, true, false
		}

		return
	case !w.began:
		w.load, passed = load, 0
		w.began = true
	default:
		w.load += (load - w.load) * (1 - math.Exp(-2*float64(passed)/float64(c.Rise)))
	}

	w.stale, w.heard = false, w.at
	passed = min(passed, c.Stale) // a process that was stopped was not busy meanwhile

	switch {
	case w.load < c.Low:
		w.fall(c, passed)
	case w.load <= c.High:
		w.from = 0
	case w.at >= w.rests:
		w.from = 0
		w.level = min(w.level+float64(passed)/float64(c.Rise), Classes)
	}
}

// fall lowers the level for a time in which the load was low.
func (w *Worker) fall(c Config, passed int64) {
	speed := 1 / float64(c.Fall)

	if c.Hold > 0 {
		w.from = max(w.from, w.level)
		speed = w.from / float64(c.Hold)
	}

	was := w.level
	w.level = max(0, w.level-float64(passed)*speed)

	if was > 0 && w.level == 0 {
		w.from, w.rests = 0, w.at+c.Hold
	}
}

// Level returns S, from 0 to 3.
func (w *Worker) Level() float64 { return w.level }

// Load returns the smoothed load, a share of 1.
func (w *Worker) Load() float64 { return w.load }

// Stale reports whether nothing is shed because the load is not known.
func (w *Worker) Stale() bool { return w.stale }

// Chance returns which share of a class is dropped at a level.
func Chance(level float64, class int) float64 { return max(0, min(level-float64(class), 1)) }

// Drops reports whether a caller's requests of a class are dropped at a level.
// place is the caller's, see Place: the higher the level, the more callers are
// hit, and always the same ones first.
func Drops(level float64, class int, place float64) bool { return place < Chance(level, class) }

// Wait returns how long it takes, µs, until such a request passes again if the
// level falls from now on.
func Wait(level float64, class int, place float64, c Config) int64 {
	above := max(0, level-float64(class)-place)
	if above > 0 && c.Hold > 0 {
		return int64(math.Ceil(above / level * float64(c.Hold)))
	}

	return int64(math.Ceil(above * float64(c.Fall)))
}

// Place returns the place of a caller among all callers, from 0 to below 1: the
// same in every process. It is FNV-1a, mixed as in MurmurHash3.
func Place(caller string) float64 {
	const offset, prime = 14695981039346656037, 1099511628211

	h := uint64(offset)
	for i := range len(caller) {
		h = (h ^ uint64(caller[i])) * prime
	}

	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53

	return fraction(h ^ h>>33)
}

// Spread returns the place of the n-th request of callers that nobody can tell
// apart: any few of them in a row are spread evenly, by multiples of the golden ratio.
func Spread(n uint64) float64 { return fraction(n * 0x9e3779b97f4a7c15) }

// fraction turns 64 bits into a number from 0 to below 1.
func fraction(bits uint64) float64 { return float64(bits>>11) / (1 << 53) }
