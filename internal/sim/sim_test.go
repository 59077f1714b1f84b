package sim

import (
	"encoding/json"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/leaseway/leaseway/rule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every load reaches its bars, but for those on the list of known misses.
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

			found := map[string]bool{}

			for _, m := range r.Misses {
				found[m.Bar] = true

				if m.Known {
					t.Logf("known miss: %v", m)
				} else {
					t.Errorf("%v", m)
				}
			}

			for _, bar := range []string{barOvershoot, barAdmitted, barAsks, barFair} {
				if known(r, bar) && !found[bar] {
					t.Logf("the bar %s is reached now: take it off the list in misses.go", bar)
				}
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
