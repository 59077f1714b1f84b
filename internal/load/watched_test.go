package load

import (
	"math"
	"testing"
)

func TestWatchedTakesOnlyLoads(t *testing.T) {
	t.Parallel()

	for _, row := range []struct {
		read func() float64
		want float64
	}{
		{func() float64 { return 0.5 }, 0.5},
		{func() float64 { return 0 }, 0},
		{func() float64 { return 3 }, 3},
		{func() float64 { return -1 }, math.NaN()},
		{math.NaN, math.NaN()},
		{func() float64 { return math.Inf(1) }, math.NaN()},
		{func() float64 { panic("a bug of theirs") }, math.NaN()},
	} {
		w := Watch(row.read)

		for range 2 {
			w.Ask()

			if got := w.Answer(nil); got != row.want && !(math.IsNaN(got) && math.IsNaN(row.want)) {
				t.Errorf("got %v, want %v", got, row.want)
			}
		}
	}
}

// A function that hangs is called once, and is heard of when it answers after all.
func TestWatchedDoesNotWaitForWhatHangs(t *testing.T) {
	t.Parallel()

	release, calls := make(chan struct{}), 0
	w := Watch(func() float64 {
		calls++

		<-release

		return 0.25
	})
	over := make(chan struct{})
	close(over)

	if got := w.Answer(over); !math.IsNaN(got) {
		t.Errorf("got %v before it was asked", got)
	}

	for range 3 {
		w.Ask()

		if got := w.Answer(over); !math.IsNaN(got) {
			t.Errorf("got %v while it hangs", got)
		}
	}

	close(release)

	if got := w.Answer(nil); got != 0.25 || calls != 1 {
		t.Errorf("got %v after %d calls, want the answer of one", got, calls)
	}
}

// What is there is heard, even when another function has used up all the time.
func TestWatchedHearsWhatIsThere(t *testing.T) {
	t.Parallel()

	over := make(chan struct{})
	close(over)

	for range 100 {
		w := Watch(nil)
		w.asked = true
		w.answer <- 0.5

		if got := w.Answer(over); got != 0.5 {
			t.Fatalf("got %v, want what was said", got)
		}
	}
}
