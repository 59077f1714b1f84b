package shed

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

const second = 1_000_000

func usual() Config {
	return Config{High: 0.9, Low: 0.75, Rise: 2 * second, Fall: 10 * second, Stale: 5 * second}
}

func TestTheLevelIsAlwaysALevel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var w Worker

		now := int64(0)

		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(-2*second, 20*second).Draw(t, "passed") // a clock may step back
			before := w.Level()
			w.Step(now, usual(), rapid.SampledFrom([]float64{math.NaN(), 0, 0.5, 0.75, 0.8, 0.9, 1, 5, math.Inf(1)}).Draw(t, "load"))

			s := w.Level()
			if !(s >= 0 && s <= Classes) {
				t.Fatalf("the level is %v", s)
			}

			if w.Stale() && s != 0 {
				t.Fatalf("something is shed without a load: %v", s)
			}

			if s-before > 5.0/2+1e-9 {
				t.Fatalf("the level rose from %v to %v in one step", before, s)
			}
		}
	})
}

// With a hold shedding begins or ends once in that time at most, whatever the load does.
func TestAHoldIsBetweenTwoChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := usual()
		c.Hold = rapid.Int64Range(1, 50).Draw(t, "hold") * second / 10

		var w Worker

		now, changed, sheds := int64(0), -c.Hold, false

		for range rapid.IntRange(1, 60).Draw(t, "loads") {
			load := rapid.SampledFrom([]float64{0, 0.5, 0.74, 0.8, 0.91, 1}).Draw(t, "load")

			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				now += second / 10
				w.Step(now, c, load)

				if is := w.Level() > 0; is != sheds {
					if now-changed < c.Hold {
						t.Fatalf("shedding changed after %d µs of a hold of %d", now-changed, c.Hold)
					}

					sheds, changed = is, now
				}
			}
		}
	})
}

// A higher class is never dropped more than a lower one, and critical requests never.
func TestClassesAreDroppedInOrder(t *testing.T) {
	t.Parallel()

	for level := 0.0; level <= Classes; level += 0.01 {
		for class := range Classes {
			if Chance(level, class) < Chance(level, class+1) {
				t.Errorf("at %v class %d is dropped less than %d", level, class, class+1)
			}

			if class > 0 && Chance(level, class) > 0 && Chance(level, class-1) < 1 {
				t.Errorf("at %v class %d is dropped before all of class %d are", level, class, class-1)
			}
		}

		if Chance(level, Classes) != 0 {
			t.Errorf("at %v critical requests are dropped", level)
		}
	}
}

// Callers that are hit at a level are hit at every higher one, and the others see nothing of it.
func TestTheSameCallersAreHit(t *testing.T) {
	t.Parallel()

	for i := range 1000 {
		place, hit := Place(fmt.Sprintf("caller-%d", i)), false

		for level := 0.0; level <= 1; level += 0.05 {
			drops := Drops(level, 0, place)
			if hit && !drops {
				t.Fatalf("caller %d is let through when more is shed", i)
			}

			hit = drops
		}
	}
}

func TestPlacesAreEvenAndStable(t *testing.T) {
	t.Parallel()

	// Processes of two releases must hit the same callers.
	if got := Place("acme"); math.Abs(got-0.227137946854476) > 1e-12 {
		t.Errorf("acme has the place %v", got)
	}

	for name, place := range map[string]func(i int) float64{
		"callers": func(i int) float64 { return Place(fmt.Sprintf("key-%d", i)) },
		"unknown": func(i int) float64 { return Spread(uint64(i)) },
	} {
		const n, parts = 100_000, 20

		var counts [parts]int
		for i := range n {
			counts[int(place(i)*parts)]++
		}

		for _, c := range counts {
			if c < n/parts*9/10 || c > n/parts*11/10 {
				t.Errorf("%s: %v", name, counts)

				break
			}
		}
	}
}

// Of ten requests in a row whose callers are unknown, about as many are dropped as the level says.
func TestUnknownCallersAreSpreadEvenly(t *testing.T) {
	t.Parallel()

	for from := range uint64(1000) {
		dropped := 0

		for i := range uint64(10) {
			if Drops(0.5, 0, Spread(from+i)) {
				dropped++
			}
		}

		if dropped < 4 || dropped > 6 {
			t.Fatalf("%d of the 10 from %d on are dropped, want 4 to 6", dropped, from)
		}
	}
}

func TestWaitIsUntilTheRequestPasses(t *testing.T) {
	t.Parallel()

	for want, c := range map[int64]Config{12.5 * second: usual(), 2 * second: held(4 * second)} {
		w := Worker{level: 2.5, began: true}
		wait := Wait(w.Level(), 1, 0.25, c)

		if wait != want {
			t.Fatalf("the wait is %d µs, want %d", wait, want)
		}

		for now := int64(second); now <= wait+second; now += second {
			w.Step(now, c, 0)
		}

		if Drops(w.Level(), 1, 0.25) {
			t.Errorf("it is still dropped at %v after the wait", w.Level())
		}
	}

	if wait := Wait(0, 0, 0, held(second)); wait != 0 {
		t.Errorf("the wait is %d µs while nothing is shed", wait)
	}
}

// The process and its shedder, in a closed loop: what is shed takes load away.
// The load settles between the thresholds, and the level with it; when the
// overload is over, everybody is back.
func TestALoopSettles(t *testing.T) {
	t.Parallel()

	for name, mix := range map[string][Classes + 1]float64{
		"a bit of all": {0.2, 0.4, 0.3, 0.1},
		"reads":        {0, 0.95, 0.05, 0},
		"tests":        {1, 0, 0, 0},
		"writes":       {0, 0.1, 0.9, 0},
		"half of it":   {0.5, 0, 0, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var w Worker

			c := usual()
			low, high := math.Inf(1), math.Inf(-1)

			for i := int64(1); i <= 3000; i++ { // steps of 100 ms, of which 2000 are overloaded
				offered := 1.4
				if i > 2000 {
					offered = 0.5
				}

				load := 0.0
				for class, share := range mix {
					load += offered * share * (1 - Chance(w.Level(), class))
				}

				w.Step(i*second/10, c, min(load, 1))

				if i > 1000 && i <= 2000 {
					low, high = min(low, w.Level()), max(high, w.Level())

					if load > c.High+0.02 || load < c.Low-0.02 {
						t.Fatalf("at step %d the load is %.2f at level %.2f", i, load, w.Level())
					}
				}
			}

			if high-low > 0.01 {
				t.Errorf("the level goes from %.3f to %.3f and back", low, high)
			}

			if w.Level() != 0 {
				t.Errorf("the level is %.2f after the overload", w.Level())
			}
		})
	}
}

func held(hold int64) Config {
	c := usual()
	c.Hold = hold

	return c
}

// swing is how far the level goes up and down once a loop has had time to settle, at worst over mixes of classes that want more
// than the process can do, where the load follows what is admitted after lag, s.
func swing(c Config, lag float64) (worst float64) {
	mixes := [][Classes + 1]float64{{0.2, 0.4, 0.3, 0.1}, {0, 0.95, 0.05, 0}, {1, 0, 0, 0}, {0, 0.1, 0.9, 0}, {0.5, 0, 0, 0.5}}
	for _, mix := range mixes {
		for _, offered := range []float64{1.1, 1.4, 2, 4} {
			if offered*mix[Classes] > 0.7 {
				continue // critical requests alone are too much: there is nothing to settle
			}

			var w Worker

			load, low, high := 0.0, math.Inf(1), math.Inf(-1)

			for i := int64(1); i <= 2000; i++ { // steps of 100 ms
				admitted := 0.0
				for class, share := range mix {
					admitted += offered * share * (1 - Chance(w.Level(), class))
				}

				load += (admitted - load) * (1 - math.Exp(-0.1/lag))
				w.Step(i*second/10, c, min(load, 1))

				if i > 1000 {
					low, high = min(low, w.Level()), max(high, w.Level())
				}
			}

			worst = max(worst, high-low)
		}
	}

	return worst
}

// Requests take their time, so the load follows late what is let in. With the usual times the level swings by a part of a class
// then; to let callers back within a second would have whole classes come and go (docs/decisions/0036).
func TestALoopThatFollowsLateSwingsLittle(t *testing.T) {
	t.Parallel()

	quick := usual()
	quick.Rise, quick.Fall = 3*second/10, 9*second/10

	for lag, most := range map[float64]float64{0.2: 0.2, 1: 0.6} {
		got, than := swing(usual(), lag), swing(quick, lag)
		t.Logf("a load that follows after %v s: %.2f with the usual times, %.2f with quick ones, %.2f with a hold of 2 s, %.2f of 10 s",
			lag, got, than, swing(held(2*second), lag), swing(held(10*second), lag))

		if got > most || than < 2*got {
			t.Errorf("after %v s the level swings by %.2f, want %.2f at most; with quick times by %.2f", lag, got, most, than)
		}
	}
}
