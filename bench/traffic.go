package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/leaseway/leaseway"
)

const hotKey = "user-1"

// traffic is a sequence of keys that is the same for everyone.
type traffic struct{ keys []string }

// newTraffic draws a million requests of 100,000 keys, from a fixed seed.
func newTraffic() *traffic {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 99_999)
	t := &traffic{keys: make([]string, 1<<20)}

	for i := range t.keys {
		t.keys[i] = fmt.Sprintf("user-%d", z.Uint64())
	}

	return t
}

func (t *traffic) key(i int) string { return t.keys[i&(len(t.keys)-1)] }

// visit shows l every key once, since making a key's state is not what is measured.
func (t *traffic) visit(l limiter) {
	for _, key := range t.keys {
		l.take(key)
	}
}

// loop is a worker of steps, each of which says whether the answer was the expected one.
func loop(step func(i int) bool) func() func(n int) (wrong int) {
	return func() func(n int) (wrong int) {
		next := rand.IntN(1 << 20) // each processor begins elsewhere in the traffic

		return func(n int) (wrong int) {
			i := next // which may be in a line of a cache with another processor's

			for range n {
				if !step(i) {
					wrong++
				}

				i++
			}

			next = i

			return wrong
		}
	}
}

// ruleSets enters Decide under rule sets of which two rules always match.
func ruleSets() []entrant {
	sizes := []int{2, 10, 1_000}
	all := make([]entrant, len(sizes))

	for i, n := range sizes {
		all[i] = entrant{name: fmt.Sprintf("Leaseway, two of %d rules", n), side: ours, open: func() (opened, error) {
			l, done, err := embed(twoOf(n))
			if err != nil {
				return opened{}, err
			}

			ctx, req := context.Background(), leaseway.Request{User: hotKey, Method: "GET", Path: "/v1/p0"}

			return opened{worker: loop(func(int) bool { return l.Decide(ctx, req).Allowed }), close: done}, nil
		}}
	}

	return all
}

// twoOf is a document of n rules: one for everything, and one for each of n-1 paths.
func twoOf(n int) string {
	var doc strings.Builder

	doc.WriteString("rules:\n")

	for i := range n - 1 {
		fmt.Fprintf(&doc, "  - {id: r%d, scope: /v1/p%d, keyBy: user, limit: 1000000000, window: 1s}\n", i, i)
	}

	doc.WriteString("  - {id: all, keyBy: user, limit: 1000000000, window: 1s}\n")

	return doc.String()
}
