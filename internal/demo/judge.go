package demo

import (
	"cmp"
	"slices"

	"github.com/leaseway/leaseway/internal/rate"
)

// arrival is one request of a caller, as the server that decided it saw it.
type arrival struct {
	stay

	admitted bool
	server   int
}

// arrivals sorts events by caller, each caller's by time. Requests without an answer are left out: nobody knows whether
// they were decided.
func arrivals(events []event, callers int) [][]arrival {
	all := make([][]arrival, callers)

	for _, e := range events {
		if e.status != 0 {
			all[e.caller] = append(all[e.caller],
				arrival{stay: stay{e.before, e.after()}, admitted: e.admitted(), server: int(e.server)})
		}
	}

	for _, a := range all {
		slices.SortFunc(a, func(x, y arrival) int { return cmp.Compare(x.before, y.before) })
	}

	return all
}

// within returns the arrivals of s. They are sorted, so it is a part of them.
func within(a []arrival, s span) []arrival {
	from, _ := slices.BinarySearchFunc(a, s.from, func(x arrival, t int64) int { return cmp.Compare(x.before, t) })
	to, _ := slices.BinarySearchFunc(a, s.to, func(x arrival, t int64) int { return cmp.Compare(x.before, t) })

	return a[from:to]
}

// admissions returns when the admitted ones of a were.
func admissions(a []arrival) []stay {
	var stays []stay

	for _, x := range a {
		if x.admitted {
			stays = append(stays, x.stay)
		}
	}

	return stays
}

// ideal is one token bucket in one place that answers instantly: what an exact limit over the whole fleet would do.
type ideal struct {
	bucket rate.Bucket
	tat    rate.Time
}

// charge takes in what was really admitted, be it within the bucket or not.
func (i *ideal) charge(a []arrival) {
	for _, x := range a {
		if x.admitted {
			i.tat = i.bucket.Add(i.tat.Max(rate.At(x.before)), 1)
		}
	}
}

// admit returns how many of a the bucket admits.
func (i *ideal) admit(a []arrival) (n int64) {
	for _, x := range a {
		var ok bool
		if i.tat, ok = i.bucket.Take(x.before, i.tat, 1); ok {
			n++
		}
	}

	return n
}

// left returns how many tokens the bucket holds at now.
func (i *ideal) left(now int64) int64 { return i.bucket.Avail(now, i.tat) }

// verdict is what one bucket in one place says about a stretch of a caller's requests.
type verdict struct {
	ideal   int64 // what it would have admitted
	waiting int64 // tokens that the real admissions have left in it when the stretch ends
}

// compare returns what the ideal says about each span of a. It is full at first. Each later span it begins with what the real
// admissions until then have left in it; where an outage is over that is nothing: the coordinator comes back without counts, or
// with Redis, what servers admitted of a caller by themselves is charged as if nothing of it had drained.
func compare(b rate.Bucket, a []arrival, spans []span, out bool) []verdict {
	var (
		all  = make([]verdict, len(spans))
		seen = ideal{bucket: b}
	)

	for i, s := range spans {
		if s.phase == Recovery || s.phase == Switch && out {
			// The coordinator lost its counts, and takes every bucket for empty at that moment, see docs/how-it-works.md; for
			// Redis see docs/decisions/0005.
			seen.tat = seen.tat.Max(b.Add(rate.At(s.from), b.Burst))
		}

		own := seen
		all[i].ideal = own.admit(within(a, s))
		seen.charge(within(a, s))
		all[i].waiting = seen.left(s.to)
	}

	return all
}

// fallbackShare is the most that all servers together may admit from the instant at which their balances were read until t µs
// later, while nobody tells them anything: what they had in hand, and for each a bucket of four fifths of the limit, shared.
func fallbackShare(b rate.Bucket, balances []int64, t int64) int64 {
	n := int64(len(balances))
	share := b.Share(4, 5, n)

	var all int64
	for _, balance := range balances {
		all += balance + share.Burst
	}

	return all + n*(t*share.Q/share.P)
}

// dueOf returns what a caller above its limit must at least get of the ideal: 98 %, in whole requests.
func dueOf(ideal int64) int64 { return ideal * 98 / 100 }

// creditable returns how many of the tokens that wait in a caller's bucket at the end of a short phase count as admitted.
//
// They are not lost: servers that want more than there is let up to a quarter of the burst collect before they ask, see
// docs/decisions/0007. Tokens beyond that should have come out: they fill the bucket, and overflow.
func creditable(b rate.Bucket, waiting int64) int64 { return min(waiting, b.Burst/4) }
