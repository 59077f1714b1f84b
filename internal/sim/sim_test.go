package sim

import (
	"encoding/json"
	"fmt"
	"testing"

	"go.uber.org/goleak"

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

func asJSON(t *testing.T, v any) string {
	t.Helper()

	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

// A step back of the store's clock does not move where its sliding windows turn: with the first of these seeds four tokens passed
// when they turned as much later as the store had not looked at its clock before the step.
func TestAStepBackMovesNoWindow(t *testing.T) {
	t.Parallel()

	runs, err := Choose([]string{"clocks"}, []string{"sliding_window"})
	if err != nil || len(runs) != 1 {
		t.Fatal(len(runs), err)
	}

	for _, seed := range []uint64{90, 14, 107} {
		r, err := runs[0].Load.Run(t.Context(), runs[0].Algorithm, seed)
		if err != nil {
			t.Fatal(err)
		}

		for _, m := range r.Misses {
			t.Errorf("seed %d: %v", seed, m)
		}
	}
}
