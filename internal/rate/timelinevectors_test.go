package rate_test

import (
	"slices"
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
)

// timelineVector is a case of the vectors that are timelines: one counter
// under one algorithm, and all that is to be known after each step.
type timelineVector struct {
	Name   string       `json:"name"`
	Bucket bucket       `json:"bucket"` // leaky
	Limit  int64        `json:"limit"`  // fixed, sliding, log
	Length int64        `json:"length"`
	Steps  []vectorStep `json:"steps"`
}

// vectorStep is what is asked, and what is then so.
type vectorStep struct {
	Now   int64     `json:"now"`
	N     int64     `json:"n"`
	Limit int64     `json:"limit"` // a new one, if any
	Span  *[2]int64 `json:"span"`  // fixed: the window, unless it is aligned
	Back  int64     `json:"back"`  // log: tokens given back first

	OK      bool       `json:"ok"`
	Left    int64      `json:"left"`
	Wait    int64      `json:"wait"`
	Clear   int64      `json:"clear"`   // sliding, log
	Window  [3]int64   `json:"window"`  // fixed, sliding: start, used, prev
	Entries [][2]int64 `json:"entries"` // log: µs, tokens
	Delay   int64      `json:"delay"`   // leaky, if admitted
	TAT     instant    `json:"tat"`     // leaky
}

// check takes the step's tokens from c, and compares what every counter says.
func (s vectorStep) check(t *testing.T, c counter) {
	t.Helper()

	if ok := take(c, s.Now, s.N); ok != s.OK {
		t.Errorf("allowed %v at %d, want %v", ok, s.Now, s.OK)
	}

	if left, wait := c.left(s.Now), c.wait(s.Now, s.N); left != s.Left || wait != s.Wait {
		t.Errorf("left %d, wait %d µs at %d; want %d, %d", left, wait, s.Now, s.Left, s.Wait)
	}
}

// steps runs f over the steps of each case of a file.
func steps(t *testing.T, file string, f func(t *testing.T, v timelineVector) func(t *testing.T, s vectorStep)) {
	t.Helper()

	for _, v := range load[timelineVector](t, file) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()

			if len(v.Steps) == 0 {
				t.Fatal("no steps")
			}

			step := f(t, v)
			for i, s := range v.Steps {
				step(t, s)

				if t.Failed() {
					t.Fatalf("at step %d", i)
				}
			}
		})
	}
}

func TestFixedVectors(t *testing.T) {
	t.Parallel()
	steps(t, "fixed", func(_ *testing.T, v timelineVector) func(*testing.T, vectorStep) {
		c := aligned(v.Limit, v.Length)

		return func(t *testing.T, s vectorStep) {
			t.Helper()

			if s.Limit > 0 {
				c.limit = s.Limit
			}

			if s.Span != nil {
				c.span = func(int64) rate.Span { return rate.Span{Start: s.Span[0], End: s.Span[1]} }
			}

			s.check(t, c)
			s.checkWindow(t, c.w)
		}
	})
}

func TestSlidingVectors(t *testing.T) {
	t.Parallel()
	steps(t, "sliding", func(_ *testing.T, v timelineVector) func(*testing.T, vectorStep) {
		c := slide(v.Limit, v.Length)

		return func(t *testing.T, s vectorStep) {
			t.Helper()

			if s.Limit > 0 {
				c.Limit = s.Limit
			}

			s.check(t, c)
			s.checkWindow(t, c.w)

			if got := c.clear(s.Now); got != s.Clear {
				t.Errorf("clear in %d µs, want %d", got, s.Clear)
			}
		}
	})
}

func (s vectorStep) checkWindow(t *testing.T, w rate.Window) {
	t.Helper()

	if got := [3]int64{w.Start, w.Used, w.Prev}; got != s.Window {
		t.Errorf("window %v, want %v", got, s.Window)
	}
}

func TestLogVectors(t *testing.T) {
	t.Parallel()
	steps(t, "log", func(_ *testing.T, v timelineVector) func(*testing.T, vectorStep) {
		c := logOf(v.Limit, v.Length)

		return func(t *testing.T, s vectorStep) {
			t.Helper()

			if s.Limit > 0 {
				c.Limit = s.Limit
			}

			if s.Back > 0 {
				c.entries = c.Remove(c.Prune(c.entries, s.Now), s.Back)
			}

			s.check(t, c)

			got := make([][2]int64, 0, len(c.entries))
			for _, e := range c.entries {
				got = append(got, [2]int64{e.At, e.N})
			}

			if !slices.Equal(got, s.Entries) {
				t.Errorf("entries %v, want %v", got, s.Entries)
			}

			if got := c.Clear(c.entries, s.Now); got != s.Clear {
				t.Errorf("clear in %d µs, want %d", got, s.Clear)
			}
		}
	})
}

func TestLeakyVectors(t *testing.T) {
	t.Parallel()
	steps(t, "leaky", func(_ *testing.T, v timelineVector) func(*testing.T, vectorStep) {
		c := &bucketed{Bucket: v.Bucket.rate()}

		return func(t *testing.T, s vectorStep) {
			t.Helper()

			if delay := c.delay(s.Now); s.OK && delay != s.Delay {
				t.Errorf("held for %d µs, want %d", delay, s.Delay)
			}

			s.check(t, c)

			if c.tat != s.TAT.time() {
				t.Errorf("tat %v, want %v", c.tat, s.TAT.time())
			}
		}
	})
}
