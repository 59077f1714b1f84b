package sim

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

// budget is what is limited: one key of one rule, by their places.
type budget struct{ rule, key int }

// admission is tokens that a request used, and when: when the store took them for
// it, or when they were spent from a lease or without a coordinator.
type admission struct{ at, n int64 }

// change is a limit that came into force.
type change struct {
	at    int64
	limit limit
}

// limit is what the oracle knows of a rule.
type limit struct {
	algorithm rate.Algorithm
	tokens    int64 // what fits: the burst of a bucket, the limit of a window
	p, q      int64 // a token of a bucket takes p/q µs
	length    int64 // of a window, µs
}

func limitOf(r *rule.Rule) (limit, error) {
	l := limit{algorithm: rate.Algorithm(r.Algorithm), tokens: r.Limit, length: r.Window.Microseconds()}
	if !r.Algorithm.HasBurst() {
		return l, nil
	}

	b, err := rate.NewBucket(r.Limit, r.Window.Microseconds(), r.Burst)
	l.tokens, l.p, l.q = b.Burst, b.P, b.Q

	return l, err
}

// overshoot returns by how many tokens the admissions to one budget passed its
// limit at worst. It knows nothing of leases. Of a bucket it is what passed
// burst + rate·t in any stretch of time at all: every admission goes into a bucket
// that drains at the rate, and the deepest level counts, less the burst. Of a
// window it is what one true window had too much, the one before weighed as it is
// at that instant if the window slides.
func overshoot(admissions []admission, changes []change) (worst int64) {
	slices.SortStableFunc(admissions, func(a, b admission) int { return cmp.Compare(a.at, b.at) })

	o := oracle{limit: changes[0].limit, at: changes[0].at}
	changes = changes[1:]

	for _, a := range admissions {
		for len(changes) > 0 && changes[0].at <= a.at {
			o.change(changes[0])
			changes = changes[1:]
		}

		worst = max(worst, o.admit(a))
	}

	return worst
}

// oracle is the level of one budget: of a bucket in 1/q µs, of a window in tokens.
type oracle struct {
	limit limit
	at    int64
	level int64
	prev  int64 // of the window before
	kept  int64 // the level that a lower limit found, which drains like any other
}

// admit adds an admission and returns the tokens above the limit then, rounded up.
func (o *oracle) admit(a admission) int64 {
	o.advance(a.at)

	switch l := &o.limit; l.algorithm {
	case rate.FixedWindow:
		o.level += a.n

		return o.level - max(l.tokens, o.kept)
	case rate.SlidingWindow:
		o.level += a.n
		before := (o.prev*(l.length-a.at%l.length) + l.length - 1) / l.length

		return o.level + before - max(l.tokens, o.kept+before)
	default:
		o.level += a.n * l.p

		return ceilDiv(o.level-max(l.tokens*l.p, o.kept), l.p)
	}
}

// advance brings the level to at: a bucket drains, a window begins.
func (o *oracle) advance(at int64) {
	switch l := &o.limit; l.algorithm {
	case rate.FixedWindow, rate.SlidingWindow:
		switch at/l.length - o.at/l.length {
		case 0:
		case 1:
			o.prev, o.level, o.kept = o.level, 0, 0
		default:
			o.prev, o.level, o.kept = 0, 0, 0
		}
	default:
		o.level, o.kept = max(0, o.level-(at-o.at)*l.q), max(0, o.kept-(at-o.at)*l.q)
	}

	o.at = at
}

// change keeps the level in tokens, rounded up, under another limit. What is used
// already may be more than a lower limit: then nothing may come on top until it has drained.
func (o *oracle) change(c change) {
	o.advance(c.at)

	if old := o.limit; old.p > 0 && c.limit.p > 0 {
		hi, lo := bits.Mul64(uint64(o.level), uint64(c.limit.p))
		level, rest := bits.Div64(hi, lo, uint64(old.p))
		o.level = int64(level) + int64(min(1, rest))
	}

	o.limit, o.kept = c.limit, o.level
}

func ceilDiv(a, b int64) int64 {
	if a <= 0 {
		return a / b
	}

	return (a + b - 1) / b
}
