package demo

import (
	"cmp"
	"slices"

	"github.com/leaseway/leaseway/internal/rate"
)

// stay is an admission: it happened at an instant from before to after, both in µs.
type stay struct{ before, after int64 }

// fullest returns the most that any stretch of time saw beyond the rate, in tokens, rounded up: the most that
// (admissions that surely lie in it) − rate × (its length) is, over all stretches of any length. A limit holds if that is no
// more than the burst.
//
// It goes through the beginnings of stretches from the last to the first. The tree has the value of each end; an admission
// that comes in counts for its own end and all later ones. So all of n² stretches are seen in n·log n steps.
func fullest(b rate.Bucket, stays []stay) int64 {
	if len(stays) == 0 {
		return 0
	}

	byBefore, byAfter := slices.Clone(stays), slices.Clone(stays)
	slices.SortFunc(byBefore, func(x, y stay) int { return cmp.Compare(y.before, x.before) })
	slices.SortFunc(byAfter, func(x, y stay) int { return cmp.Compare(x.after, y.after) })

	ends := make([]int64, len(byAfter))
	for i, s := range byAfter {
		ends[i] = s.after
	}

	var (
		zero = byBefore[len(byBefore)-1].before // keeps the products small
		tree = newMaxTree(len(ends))
		most int64
	)

	// Everything in units of 1/Q µs: a token is P of them, a µs is Q.
	for _, s := range byBefore {
		i, _ := slices.BinarySearch(ends, s.after)
		tree.open(i, -b.Q*(s.after-zero))
		tree.add(i, b.P)

		most = max(most, tree.most()+b.Q*(s.before-zero))
	}

	return (most + b.P - 1) / b.P
}

// maxTree is a row of values with a quick maximum. A value does not count before it is opened.
type maxTree struct {
	size int
	best []int64 // of the values below, without what is pending above
	plus []int64 // pending for all values below
}

const closed = -1 << 62

func newMaxTree(n int) *maxTree {
	size := 1
	for size < n {
		size *= 2
	}

	t := &maxTree{size: size, best: make([]int64, 2*size), plus: make([]int64, 2*size)}
	for i := range t.best {
		t.best[i] = closed
	}

	return t
}

// most returns the largest open value.
func (t *maxTree) most() int64 { return t.best[1] }

// open makes value i count, beginning with v plus all that was added to it so far. It keeps what is open already.
func (t *maxTree) open(i int, v int64) {
	node := t.size + i
	if t.best[node] != closed {
		return
	}

	t.best[node] = v + t.plus[node]
	t.mend(node)
}

// add adds n to value i and all after it.
func (t *maxTree) add(i int, n int64) {
	low, high := t.size+i, 2*t.size-1
	first, last := low, high

	for low <= high {
		if low%2 == 1 {
			t.raise(low, n)

			low++
		}

		if high%2 == 0 {
			t.raise(high, n)

			high--
		}

		low, high = low/2, high/2
	}

	t.mend(first)
	t.mend(last)
}

func (t *maxTree) raise(node int, n int64) {
	t.plus[node] += n

	if t.best[node] != closed {
		t.best[node] += n
	}
}

// mend brings the maxima above node up to date.
func (t *maxTree) mend(node int) {
	for node /= 2; node >= 1; node /= 2 {
		t.best[node] = closed

		if below := max(t.best[2*node], t.best[2*node+1]); below != closed {
			t.best[node] = below + t.plus[node]
		}
	}
}
