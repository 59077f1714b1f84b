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
