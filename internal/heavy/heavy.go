// Package heavy finds the keys that occur most often, in memory that does not grow with their number.
//
// It is Space-Saving (Metwally, Agrawal, El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data Streams",
// 2005). There are so many counters; a key without one takes over the smallest, and its count with it:
//
//	a 9 │ b 5 │ c 2     d comes     a 9 │ b 5 │ d 3, of which 2 may be another's
//
// So a count is never too low, and too high by Over at most. A key that makes up more than one part in so many of all is
// surely among them.
//
// The package is pure. The SDK above it counts with it whom rules in shadow mode would have refused.
package heavy

import (
	"cmp"
	"slices"
	"strings"
)

// Keys counts keys. It is not safe for concurrent use.
type Keys struct {
	index  map[string]int
	counts []Count
	most   int
}

// Count is how often a key came.
type Count struct {
	Key  string
	N    int64 // at least as often as it really came
	Over int64 // by how much N may be too high
}

// New returns a Keys with so many counters, at least one.
func New(counters int) *Keys {
	return &Keys{index: map[string]int{}, most: max(1, counters)}
}

// Add counts a key once. It keeps a copy.
func (k *Keys) Add(key string) {
	if i, known := k.index[key]; known {
		k.counts[i].N++

		return
	}

	key = strings.Clone(key)

	if len(k.counts) < k.most {
		k.index[key] = len(k.counts)
		k.counts = append(k.counts, Count{Key: key, N: 1})

		return
	}

	least := 0
	for i := range k.counts {
		if k.counts[i].N < k.counts[least].N {
			least = i
		}
	}

	c := &k.counts[least]
	delete(k.index, c.Key)
	k.index[key] = least
	*c = Count{Key: key, N: c.N + 1, Over: c.N}
}

// Top returns the n keys that came most often, the most frequent first.
func (k *Keys) Top(n int) []Count {
	all := slices.Clone(k.counts)
	slices.SortFunc(all, func(a, b Count) int { return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Key, b.Key)) })

	return all[:min(len(all), max(0, n))]
}
