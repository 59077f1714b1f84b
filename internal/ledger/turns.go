package ledger

import "github.com/leaseway/leaseway/internal/rate"

// What follows is who gets how much of what is scarce, and when they come again.

// The scarcity bounds, in µs and per holder: see askAgain.
const (
	scarceFloor     = 100_000
	scarceCeiling   = 1_000_000
	scarcePerHolder = 10
	slidingFloor    = 10_000
	slidingParts    = 30 // of a window
)

// share is how much of avail holder l may lease. Alone it may have all. With
// others, each leaves a part for everybody and for one that comes new; once the
// bucket is scarce nobody has more than a fair part, and then what its turn
// brings. Of a fixed window nothing comes any more: the last quarter is cut into
// ever smaller parts. In all, at most four fifths of the burst are leased, so that
// takes always find something.
func (s *State) share(l *Lease, avail int64) int64 {
	if !s.Terms.Algorithm.Leases() {
		return 0
	}

	burst := s.Terms.Bucket.Burst
	most := min(avail, burst*4/5-s.others-l.left())

	switch others := int64(len(s.Leases) - 1); {
	case others == 0:
		return most
	case s.Terms.Algorithm == rate.SlidingWindow:
		return min(s.ofSliding(l, avail), most)
	case s.Terms.Algorithm == rate.FixedWindow && avail < burst/4:
		return min((avail+others)/(others+1), most)
	case avail >= burst/2:
		return min(avail/(others+2), most)
	case avail >= burst/4:
		return min(s.fair()-l.left(), most)
	default:
		return min(s.fair()-l.left(), s.ofTurn(l, avail), most)
	}
}

// ofSliding is share in a sliding window, which is nearly full whenever the limit
// is in use: what one holder has and does not spend, the others lack. It gets two
// parts of what is left, or of little as much as comes back in a quarter more than the gap before its turn.
func (s *State) ofSliding(l *Lease, avail int64) int64 {
	b := s.Terms.Bucket
	comes := 5 * s.gap(l) * b.Q / 4 / b.P

	return max(2*avail/int64(len(s.Leases)+1), min(avail, max(1, comes)))
}

// fair is one holder's part of what may be leased in all.
func (s *State) fair() int64 {
	return max(1, s.Terms.Bucket.Burst*4/5/int64(len(s.Leases)))
}

// ofTurn is how much of avail holder l gets when others wait for their turns: a
// quarter more than its part of what collects meanwhile, so that who comes late
// has hardly more than who came early. Of many that wait, it leaves as much for each that
// is late, since chance has them come in bunches. Where little collects and much is there, half
// of that is for one round of turns: else nobody would have it for hours.
func (s *State) ofTurn(l *Lease, avail int64) int64 {
	b := s.Terms.Bucket
	waiting := s.waiting(l)
	part := 1 + min(s.late(l), waiting/10)
	comes := 5 * s.collect() * b.Q / 4 / b.P / waiting

	return max(1, min((avail+part-1)/part, max(comes, avail/(2*waiting))))
}

// waiting counts the holders that wait for their turn, and l.
func (s *State) waiting(l *Lease) int64 {
	waiting := int64(1)

	for i := range s.Leases {
		if o := &s.Leases[i]; o != l && o.Due > s.Now {
			waiting++
		}
	}

	return waiting
}

// late counts the holders but l whose turn has just come, and who did not yet come for it.
// One that stays away for a quarter of the wait needs nothing.
func (s *State) late(l *Lease) (late int64) {
	since := s.Now - s.collect()/4

	for i := range s.Leases {
		if o := &s.Leases[i]; o != l && since < o.Due && o.Due <= s.Now {
			late++
		}
	}

	return late
}

// askAgain says when holder i, that got less than it wanted, should come again.
// A lone one comes when the next token does. Of several, one that has its fair
// part just goes on. The others take turns once less than a quarter of the
// capacity is there, because tokens collect meanwhile, and none is lost. In a
// window nothing collects: there they ask until nothing is left, and then for
// what others give back.
func (s *State) askAgain(i int, others int64) int64 {
	b := s.Terms.Bucket
	avail := s.Avail()
	next := s.Wait(min(b.Burst, avail+1))
	holders := int64(len(s.Leases))

	if holders < 2 && others == 0 {
		return next
	}

	if s.Terms.Algorithm.Leases() && s.Leases[i].left() >= s.fair() {
		return 0
	}

	enough := b.Burst / 4 // for nobody to wait

	switch s.Terms.Algorithm {
	case rate.FixedWindow:
		enough = 1
	case rate.SlidingWindow:
		enough = max(1, holders/2)
	case rate.TokenBucket, rate.LeakyBucket, rate.SlidingLog, rate.Concurrency:
	}

	switch fixed := s.Terms.Algorithm == rate.FixedWindow; {
	case avail > 0 && avail >= enough:
		return 0
	case avail > 0:
		return s.turn(i) // no slow limit may keep what is there from being asked for
	case fixed && others > 0:
		return min(next, s.collect())
	case fixed:
		return next // nothing comes before the next window, and all of it then
	default:
		return max(next, s.turn(i))
	}
}

// collect is for how long several holders wait until tokens have collected, µs:
// ten for each, and no more than a quarter of the burst, nor than half of a TTL, since turns are
// kept with the leases, which have to last until then. What waits when a
// sliding window ends is not asked for again in the next, so there it is less, and
// still less towards the end.
func (s *State) collect() int64 {
	b := s.Terms.Bucket
	long := max(scarceFloor, min(b.Add(rate.Time{}, 1).Micros, scarceCeiling)*scarcePerHolder*int64(len(s.Leases)))
	long = min(b.Add(rate.Time{}, b.Burst).Micros/4, long, scarceCeiling, max(scarceFloor, s.Terms.TTL/2))

	if s.Terms.Algorithm == rate.SlidingWindow {
		left := s.Terms.span(s.Now).End - s.Now
		long = min(long, max(slidingFloor, min(s.Terms.Length/slidingParts, left/4)))
	}

	return long
}

// turn gives holder i its turn, about collect µs from now: the holders that wait
// come one after the other at even distances, so that each finds the same. It
// comes a little earlier if that closes a gap. In a sliding window, where many may
// wait for a moment and none for long, it comes as soon as those before it have had theirs.
func (s *State) turn(i int) int64 {
	l := &s.Leases[i]
	last := s.Now

	for j := range s.Leases {
		if j != i {
			last = max(last, s.Leases[j].Due)
		}
	}

	collect, gap := s.collect(), s.gap(l)
	wait := min(last+gap-s.Now, 2*collect)

	switch {
	case s.Terms.Algorithm == rate.SlidingWindow:
	case last > s.Now:
		wait = max(collect-min(gap, collect/4), wait)
	default:
		wait = collect
	}

	l.Due = s.Now + wait

	return wait
}

// gap is how long before the turn of holder l the one before it is, µs: its part of
// what all wait. In a sliding window that is the time of two tokens at least, to be
// worth the call. A lease of one tells what its holder got since the window began: one
// that got more than twice the average, while few wait, needs more than the others do.
func (s *State) gap(l *Lease) int64 {
	all, holders := s.collect(), int64(len(s.Leases))
	if s.Terms.Algorithm != rate.SlidingWindow {
		return all / holders
	}

	var granted int64
	for i := range s.Leases {
		granted += s.Leases[i].Granted
	}

	if l.Granted > 0 && s.waiting(l) <= 1+holders/4 {
		if parts := (granted + l.Granted - 1) / l.Granted; parts <= holders/2 {
			return all / parts
		}
	}

	return max(all/holders, min(all/2, s.Terms.Bucket.Add(rate.Time{}, 2).Micros))
}
