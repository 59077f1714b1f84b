package leaseway_test

import (
	"encoding/json"
	"testing"

	"github.com/leaseway/leaseway"
)

// A reason is written as its word, and read back; each has one of its own.
func TestReasonsAreWordsInText(t *testing.T) {
	t.Parallel()

	seen := map[string]leaseway.Reason{}

	for r := leaseway.ReasonNone; r <= leaseway.ReasonInvalid; r++ {
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}

		var back leaseway.Reason
		if err := json.Unmarshal(text, &back); err != nil || back != r {
			t.Errorf("%s is read as %s: %v", text, back, err)
		}

		if other, ok := seen[r.String()]; ok {
			t.Errorf("%d and %d are both %q", r, other, r)
		}

		seen[r.String()] = r
	}

	var r leaseway.Reason
	if err := r.UnmarshalText([]byte("unknown")); err == nil || (leaseway.ReasonInvalid+1).String() != "unknown" {
		t.Errorf("what is no reason is read as %s", r)
	}
}
