package table

import (
	"testing"

	"github.com/leaseway/leaseway/internal/holder"
	"github.com/leaseway/leaseway/internal/rate"
)

// A clock that is a millisecond late makes a reset that much earlier, and none lies in the past.
func TestTheResetOfALoanByALateClock(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ q, level, soon, want int64 }{
		{q: 1, level: 0, soon: 0, want: 0},
		{q: 1, level: 7, soon: 0, want: 7},
		{q: 1, level: 999, soon: 1000, want: 0},
		{q: 1, level: 1000, soon: 1000, want: 0},
		{q: 1, level: 1001, soon: 1000, want: 1},
		{q: 10, level: 1, soon: 0, want: 1}, // a tenth of a microsecond, rounded up
		{q: 10, level: 9_991, soon: 1000, want: 0},
		{q: 10, level: 10_000, soon: 1000, want: 0},
		{q: 10, level: 10_001, soon: 1000, want: 1},
		{q: 10, level: 10_011, soon: 1000, want: 2},
	} {
		bucket := rate.Bucket{Q: c.q, P: 1, Burst: 1 << 20}
		l := &loan{limits: &limits{bucket: holder.Bucket{Bucket: bucket}}}

		told, _ := l.pass(1, c.level, c.soon)

		if told.Reset != c.want {
			t.Errorf("level %d at %d units a µs, %d µs late: whole in %d µs, want %d", c.level, c.q, c.soon, told.Reset, c.want)
		}
	}
}
