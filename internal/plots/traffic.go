package plots

import "slices"

// event is one admitted request: when it came, and when it was served.
type event struct{ came, served int64 }

// take admits one request, which the counter must have room for.
func take(c counter, now int64) event {
	e := event{came: now, served: now + c.delay(now)}
	c.add(now)

	return e
}

// greedy returns what a caller gets who takes whatever there is, as soon as
// there is any, in [from, until).
func greedy(c counter, from, until int64) (got []event) {
	for now := from; now < until; {
		for range c.left(now) {
			got = append(got, take(c, now))
		}

		now += c.wait(now)
	}

	return got
}

// worst returns the most requests that are served in any stretch of the given
// length, beginning included, end not. The one who gets them has been silent
// before and is greedy after; windows are at their worst when that begins just
// before an edge. TestNoOneGetsMoreThanTheWorst tries others.
func worst(a algorithm, length int64) (most int64) {
	for _, from := range []int64{0, minute - 1, minute - second, minute / 2} {
		got := greedy(a.open(limit), from, from+length+minute)
		most = max(most, densest(got, length))
	}

	return most
}

// densest returns the most that were served in any stretch of length.
func densest(got []event, length int64) (most int64) {
	times := make([]int64, len(got))
	for i, e := range got {
		times[i] = e.served
	}

	slices.Sort(times)

	first := 0

	for last, at := range times {
		for times[first] <= at-length {
			first++
		}

		most = max(most, int64(last-first+1))
	}

	return most
}

// climb returns the staircase of how many were served until when.
func climb(got []event) (points []point) {
	for i, e := range got {
		points = append(points, point{e.served, int64(i)}, point{e.served, int64(i + 1)})
	}

	return points
}

// perSecond returns how many were served in each second until the end.
func perSecond(got []event, end int64) []int64 {
	counts := make([]int64, end/second)

	for _, e := range got {
		if e.served < end {
			counts[e.served/second]++
		}
	}

	return counts
}
