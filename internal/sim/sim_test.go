package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/internal/rate"
	"github.com/leaseway/leaseway/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every load reaches its bars.
func TestLoadsReachTheirBars(t *testing.T) {
	t.Parallel()

	runs, err := Choose(nil, nil)
	if err != nil {
		t.Fatal(err)
	}

	for _, run := range runs {
		t.Run(fmt.Sprintf("%s/%v", run.Load.Name, rule.Algorithm(run.Algorithm)), func(t *testing.T) {
			t.Parallel()

			r, err := run.Load.Run(t.Context(), run.Algorithm, 1)
			if err != nil {
				t.Fatal(err)
			}

			for _, m := range r.Misses {
				t.Errorf("%v", m)
			}
		})
	}
}

// Of a server that is gone, and of callers that are, a picture shows that nothing came.
func TestAPictureGoesOnToItsEnd(t *testing.T) {
	t.Parallel()

	l := Load{
		Name: "leave", Lasts: 2 * sec, Holders: 4, Rules: []string{"limit: 1000, window: 1s"}, demand: demand{times: 1, on: sec, off: 3 * sec},
		acts: []act{{at: 500 * ms, do: scale(1)}},
	}
	b := &bins{width: 10_000}

	if _, err := l.run(t.Context(), rate.TokenBucket, 1, b); err != nil {
		t.Fatal(err)
	}

	for i, counts := range append([][]int64{b.wanted, b.ideal, b.admitted, b.limits}, b.servers...) {
		if len(counts) != 200 {
			t.Errorf("line %d is drawn in %d of 200 steps", i, len(counts))
		}
	}

	if len(b.servers) != 4 {
		t.Errorf("%d servers are drawn, want 4", len(b.servers))
	}
}

// A result that misses a bar says which, and only that.
func TestMisses(t *testing.T) {
	t.Parallel()

	b := bars{admitted: 0.98, asks: 0.05, fair: 15}

	for _, c := range []struct {
		name   string
		result Result
		want   []Miss
	}{
		{"all reached, to the last bit", Result{Overshoot: 3, Allowed: 3, Admitted: 0.98, Asks: 0.05, Unfair: 15}, nil},
		{"above the limit", Result{Overshoot: 4, Allowed: 3, Admitted: 1}, []Miss{{barOvershoot, 4, 3}}},
		{"too little admitted", Result{Admitted: 0.97}, []Miss{{barAdmitted, 0.97, 0.98}}},
		{"too many asks", Result{Admitted: 1, Asks: 0.06}, []Miss{{barAsks, 0.06, 0.05}}},
		{"the hot server's asks count", Result{Admitted: 1, Asks: 0.06, HotAsks: 0.01}, nil},
		{"unfair", Result{Admitted: 1, Unfair: 16}, []Miss{{barFair, 16, 15}}},
	} {
		if got := b.misses(&c.result); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}

	if got := (&bars{}).misses(&Result{Asks: 1, Unfair: 100}); got != nil {
		t.Errorf("what is not judged is missed: %v", got)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()

	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

// Seeds with which a load once missed a bar, and now does not.
func TestSeedsThatMissed(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		why, load, algorithm string
		seeds                []uint64
	}{
		{"sliding windows turned later when the store's clock had stepped back", "clocks", "sliding_window", []uint64{90, 14, 107}},
		{"an early ask, answered about the old window, ended the new one's lease", "foreign-answers", "fixed_window", []uint64{5}},
		{"servers that had been busy kept what they no longer used", "hot-hops", "fixed_window", []uint64{7, 12, 18, 19, 35}},
		{"what leases left in a window's last moments went to whoever asked first", "wide-200", "sliding_window", []uint64{2}},
	} {
		runs, err := Choose([]string{c.load}, []string{c.algorithm})
		if err != nil || len(runs) != 1 {
			t.Fatal(len(runs), err)
		}

		for _, seed := range c.seeds {
			r, err := runs[0].Load.Run(t.Context(), runs[0].Algorithm, seed)
			if err != nil {
				t.Fatal(err)
			}

			for _, m := range r.Misses {
				t.Errorf("%s, %s, seed %d: %v (%s)", c.load, c.algorithm, seed, m, c.why)
			}
		}
	}
}
