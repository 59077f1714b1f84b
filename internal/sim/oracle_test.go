package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/internal/store/memory"
)

const milli = int64(1_000)

func bucketOf(t *testing.T, tokens, window, burst int64) limit {
	t.Helper()

	b, err := rate.NewBucket(tokens, window, burst)
	if err != nil {
		t.Fatal(err)
	}

	return limit{algorithm: rate.TokenBucket, tokens: b.Burst, p: b.P, q: b.Q}
}

func TestTheOracleCountsWhatIsAboveTheLimit(t *testing.T) {
	second := 1000 * milli

	for _, c := range []struct {
		name       string
		limit      limit
		admissions []admission
		want       int64
	}{
		{"a full burst", bucketOf(t, 10, second, 10), []admission{{0, 10}}, 0},
		{"one more", bucketOf(t, 10, second, 10), []admission{{0, 11}}, 1},
		{"one more just before it has refilled", bucketOf(t, 10, second, 10), []admission{{0, 10}, {100*milli - 1, 1}}, 1},
		{"and just then", bucketOf(t, 10, second, 10), []admission{{0, 10}, {100 * milli, 1}}, 0},
		{"told out of order", bucketOf(t, 10, second, 10), []admission{{100 * milli, 1}, {0, 10}}, 0},
		{"a rate that is passed for long", bucketOf(t, 10, second, 10), []admission{{0, 10}, {second, 20}, {2 * second, 20}}, 20},
		{"two fixed windows", limit{algorithm: rate.FixedWindow, tokens: 5, length: second}, []admission{{second - 1, 5}, {second, 5}}, 0},
		{"one of them", limit{algorithm: rate.FixedWindow, tokens: 5, length: second}, []admission{{second, 5}, {2*second - 1, 2}}, 2},
		{"a sliding one", limit{algorithm: rate.SlidingWindow, tokens: 10, length: second},
			[]admission{{0, 10}, {second + second/2, 5}}, 0},
		{"a sliding one, passed", limit{algorithm: rate.SlidingWindow, tokens: 10, length: second},
			[]admission{{0, 10}, {second + second/2 - 1, 5}}, 1},
	} {
		if got := overshoot(c.admissions, []change{{0, c.limit}}); max(0, got) != c.want {
			t.Errorf("%s: %d tokens above the limit, want %d", c.name, got, c.want)
		}
	}
}

// A raised burst of 10 to 20 makes exactly 10 more room; what was admitted stays.
func TestTheOracleFollowsAChange(t *testing.T) {
	second := 1000 * milli
	changes := []change{{0, bucketOf(t, 10, second, 10)}, {1, bucketOf(t, 20, second, 20)}}

	if got := overshoot([]admission{{0, 10}, {1, 10}}, changes); got > 0 {
		t.Errorf("%d above", got)
	}

	if got := overshoot([]admission{{0, 10}, {1, 11}}, changes); got != 1 {
		t.Errorf("%d above, want 1", got)
	}

	// Lowered below what is used, it lets nothing pass until that has drained.
	lower := []change{{0, bucketOf(t, 10, second, 10)}, {1, bucketOf(t, 1, second, 1)}}
	if got := overshoot([]admission{{0, 10}, {2, 3}}, lower); got != 3 {
		t.Errorf("%d above, want 3", got)
	}

	if got := overshoot([]admission{{0, 10}, {10*second + 1, 1}}, lower); got > 0 {
		t.Errorf("%d above, when all but the burst had drained", got)
	}
}

// What the twin admits, the oracle finds to be the limit exactly: never above, and nothing was left that would have fitted.
func TestTheTwinIsTheLimit(t *testing.T) {
	second := 1000 * milli

	for _, l := range []limit{
		bucketOf(t, 7, second, 3), bucketOf(t, 1000, second, 100),
		{algorithm: rate.FixedWindow, tokens: 9, length: second}, {algorithm: rate.SlidingWindow, tokens: 9, length: second},
	} {
		rnd := rand.New(rand.NewPCG(1, 2))
		twin, now := newTwin(l), start

		var admitted []admission

		for range 3000 {
			now += rnd.Int64N(200 * milli)
			n := 1 + rnd.Int64N(3)

			if twin.avail(now) >= n {
				twin.take(now, n)
				admitted = append(admitted, admission{now, n})
			} else if over := overshoot(append(slices.Clip(admitted), admission{now, n}), []change{{start, l}}); over <= 0 {
				t.Fatalf("%+v: the twin refused %d tokens that fit", l, n)
			}
		}

		if over := overshoot(admitted, []change{{start, l}}); over > 0 {
			t.Errorf("%+v: the twin admits %d above the limit", l, over)
		}
	}
}

// Each coordinator with a store of its own is the failure that everything here is
// against: were it not seen, the zeros elsewhere would say nothing.
func TestSplitStoresAreSeen(t *testing.T) {
	l := Load{Name: "split", Lasts: 3 * sec, Holders: 4, Rules: []string{"limit: 1000, window: 1s"}, demand: demand{times: 3}, coordinators: 2}

	for _, a := range leased() {
		f, err := newFleet(t.Context(), &l, a, 1)
		if err != nil {
			t.Fatal(err)
		}

		first := f.replicas[0]

		other, err := memory.New(memory.Config{Clock: f.storeNow})
		if err != nil {
			t.Fatal(err)
		}

		if err := f.before(other); err != nil {
			t.Fatal(err)
		}

		f.replicas[0] = first
		for i, s := range f.servers {
			s.prefer = i
		}

		if err := f.simulate(); err != nil {
			t.Fatal(err)
		}

		if r := f.result("split"); r.Overshoot < 900 {
			t.Errorf("%v: only %d above the limit", a, r.Overshoot)
		}
	}
}

func TestTheSameSeedIsTheSameRun(t *testing.T) {
	// Keys rest meanwhile, and are forgotten.
	l := Load{
		Name: "same", Lasts: 9 * sec, Holders: 5, Rules: []string{"limit: 500, window: 1s"},
		demand: demand{times: 1.5, keys: 3, on: sec, off: 3 * sec},
	}

	results := make([]string, 0, 3)

	for _, seed := range []uint64{1, 1, 2} {
		r, err := l.Run(t.Context(), rate.TokenBucket, seed)
		if err != nil {
			t.Fatal(err)
		}

		r.Millis = 0
		results = append(results, asJSON(t, r))
	}

	if results[0] != results[1] || results[0] == results[2] {
		t.Errorf("seeds 1, 1 and 2 gave\n%s\n%s\n%s", results[0], results[1], results[2])
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	l := Loads()[0]
	if _, err := l.Run(ctx, rate.TokenBucket, 1); err == nil {
		t.Error("no error")
	}
}
