package leasewayhttp

import (
	"strconv"
	"sync"
	"testing"
)

// Every second has its own text, also those that share a place, before 1970, and when many tell them at once.
func TestMomentsTellTheirOwnSecond(t *testing.T) {
	var m moments
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range int64(4 * momentsKept) {
				for _, unix := range []int64{i, -i, 1_800_000_000 + i, 1_800_000_000 + i*momentsKept} {
					if got := m.text(unix); got != strconv.FormatInt(unix, 10) {
						t.Errorf("second %d is told as %q", unix, got)
					}
				}
			}
		})
	}
	all.Wait()
}

// A second that was told is told again without another piece of memory, all through the minute that is near.
func TestMomentsAreShared(t *testing.T) {
	var m moments
	near := int64(momentsNear.Seconds()) + 1
	if n := testing.AllocsPerRun(100, func() {
		for i := range near {
			m.text(1_800_000_000 + i)
		}
	}); n != 0 {
		t.Errorf("%v allocations for seconds that were told before", n)
	}
}
