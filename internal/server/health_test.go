package server

import (
	"testing"
	"time"
)

func TestStoreIsBrokenFromAnUnansweredAskUntilAnAnsweredOne(t *testing.T) {
	var answered, unanswered int64

	watch := &storeWatch{counts: func() (int64, int64) { return answered, unanswered }}
	start := time.Unix(0, 0)

	for i, row := range []struct {
		at                   time.Duration
		answered, unanswered int64 // more than in the row before
		broken               bool
	}{
		{0, 0, 0, false},
		{1 * time.Second, 10, 0, false},
		{2 * time.Second, 0, 3, true},
		{3 * time.Second, 0, 0, true}, // nobody asked: as before
		{4 * time.Second, 0, 1, true},
		{5 * time.Second, 1, 0, false},
		{6 * time.Second, 1, 1, false}, // some are answered: not the whole store
		{7 * time.Second, 0, 1, true},
		{17 * time.Second, 0, 0, true},
		{18 * time.Second, 0, 0, false}, // forgotten, or it could stay broken for want of traffic
	} {
		answered, unanswered = answered+row.answered, unanswered+row.unanswered

		if got := watch.fault(start.Add(row.at)) != ""; got != row.broken {
			t.Errorf("step %d, at %v: broken %v, want %v", i, row.at, got, row.broken)
		}
	}
}
