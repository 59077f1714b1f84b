package table

import "testing"

// A key that rests keeps how long before its last ask it won a take, which is told by the answer: a little later.
func TestLastWon(t *testing.T) {
	t.Parallel()

	const unit = 1 << wonShift

	for _, c := range []struct {
		won, now, ago int64
		ok            bool
	}{
		{0, 7 * unit, 0, false},
		{7 * unit, 7 * unit, 0, true},
		{7 * unit, 9*unit + 1, 2 * unit, true},
		{7 * unit, 6 * unit, 0, true},
		{1<<42 - unit, 1<<42 + unit, 2 * unit, true},
	} {
		e := &Entry{rest: &rest{}}
		if c.won != 0 {
			e.win(c.won)
		}

		if ago, ok := e.lastWon(c.now); ok != c.ok || ok && ago != c.ago {
			t.Errorf("won at %d, at %d: %d µs ago, %v, want %d and %v", c.won, c.now, ago, ok, c.ago, c.ok)
		}
	}
}
