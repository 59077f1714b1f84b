package holder_test

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// worlds are the bounds that are explored. What is said of each is what only it can come to.
func worlds() []bounds {
	b, f, s := rate.TokenBucket, rate.FixedWindow, rate.SlidingWindow
	two := []int64{2}

	return []bounds{
		// Tokens come back so slowly that a lease ends while they still count.
		{name: "slow bucket", kind: b, holders: 2, burst: 2, token: 2, ttl: 3, events: 7, steps: []int64{1, 2}, needs: two},
		// They are back before a lease ends.
		{name: "fast bucket", kind: b, holders: 2, burst: 3, token: 1, ttl: 2, events: 7, steps: []int64{1, 3}, needs: two},
		// A lease goes on through several ticks, and each is spent in.
		{name: "quick turns", kind: b, holders: 1, burst: 3, token: 3, ttl: 4, events: 8, steps: []int64{1}, needs: two},
		// Leases end with their window, and the next one is leased ahead.
		{name: "fixed window", kind: f, holders: 2, burst: 3, length: 3, ttl: 2, events: 6, steps: []int64{1, 3}, needs: two},
		// What was spent of the window before is told afterwards.
		{name: "sliding window", kind: s, holders: 2, burst: 3, length: 3, ttl: 2, events: 6, steps: []int64{1, 3}, needs: two},
		// It is still unsure whether the next window has begun.
		{name: "lone window", kind: f, holders: 1, burst: 3, length: 3, ttl: 2, events: 9, steps: []int64{1}, needs: two},
		// A lease of the next window is given back before that begins.
		{name: "returning window", kind: f, holders: 1, burst: 3, length: 3, ttl: 1, events: 8, steps: []int64{1}, needs: two},
		// A refund is credited once, though the lease that it was asked on ends.
		{name: "refunds", kind: b, holders: 1, burst: 2, token: 9, ttl: 2, events: 9, steps: []int64{3}, needs: two, refunds: true},
		// It counts only for the window that it was of.
		{name: "refunds in windows", kind: f, holders: 1, burst: 3, length: 3, ttl: 2, events: 9, steps: []int64{1}, needs: two, refunds: true},
		// What was admitted without a lease is charged, though a lease has drained meanwhile.
		{name: "slack", kind: b, holders: 1, burst: 2, token: 2, ttl: 4, events: 8, steps: []int64{1, 3}, needs: two, slack: 1},
		// A lease is small enough to live sixteen times as long.
		{name: "long leases", kind: b, holders: 2, burst: 64, token: 1, ttl: 1, events: 5, steps: []int64{1, 15}, needs: []int64{1, 2}, long: true},
	}
}

// Every order of events within small bounds. LEASEWAY_EVENTS sets how many
// events more than usual, 0 by default; each makes it four times as long.
func TestEveryOrderOfEvents(t *testing.T) {
	t.Parallel()

	more, _ := strconv.Atoi(os.Getenv("LEASEWAY_EVENTS"))
	if testing.Short() {
		more--
	}

	for _, b := range worlds() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()

			b.events += more
			x := newExplorer(b)
			err := x.run()
			t.Logf("%d events: %d worlds, %d transitions", b.events, len(x.seen), x.transitions)

			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// An exploration goes on from one of the worlds that look alike. It is only as
// good as that: whatever happens next, the others must look alike again.
func TestAlikeWorldsGoOnAlike(t *testing.T) {
	t.Parallel()

	for _, b := range worlds() {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()

			x := newExplorer(b)
			first := x.first()
			all, edge := map[fingerprint]world{x.canon.print(&first): first}, []world{first}

			for range b.events - 3 {
				var next []world

				for _, w := range edge {
					for _, e := range x.choices(&w, nil) {
						after, _ := x.after(w, e)

						p := x.canon.print(&after)
						if other, ok := all[p]; !ok {
							all[p] = after
							next = append(next, after)
						} else if a, b := x.successors(other), x.successors(after); !slices.Equal(a, b) {
							t.Fatalf("after %v there is a world with %d successors that looks like another one with %d", e, len(b), len(a))
						}
					}
				}

				edge = next
			}
		})
	}
}

// successors returns the fingerprints of the worlds that can follow w, sorted, each once.
func (x *explorer) successors(w world) []fingerprint {
	var prints []fingerprint

	for _, e := range x.choices(&w, nil) {
		after, _ := x.after(w, e)
		prints = append(prints, x.canon.print(&after))
	}

	slices.SortFunc(prints, func(a, b fingerprint) int { return slices.Compare(a[:], b[:]) })

	return slices.Compact(prints)
}
