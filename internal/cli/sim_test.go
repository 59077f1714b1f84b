package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/leaseway/leaseway/internal/sim"
)

// A run that misses a bar is a failure, whatever the form: a table or JSON says which, and the exit status that one did.
func TestAMissFails(t *testing.T) {
	t.Parallel()

	fine := &sim.Result{Load: "calm", Algorithm: "token_bucket"}
	bad := &sim.Result{Load: "storm", Algorithm: "fixed_window", Misses: []sim.Miss{{Bar: "overshoot", Got: 7, Limit: 2}}}

	for _, c := range []struct {
		form    simForm
		results []*sim.Result
		text    string
		err     string
	}{
		{simForm{}, []*sim.Result{fine}, "0 of 1 runs miss a bar", ""},
		{simForm{}, []*sim.Result{fine, bad}, "MISS storm, fixed_window: 7 tokens above the limit, at most 2\n", "1 run misses a bar"},
		{simForm{json: true}, []*sim.Result{bad, bad}, `"bar": "overshoot"`, "2 runs miss a bar"},
	} {
		var (
			out    bytes.Buffer
			failed *failure
		)

		err := c.form.write(&out, &sim.Report{Results: c.results})
		if !strings.Contains(out.String(), c.text) {
			t.Errorf("%q is not in\n%s", c.text, &out)
		}

		if c.err == "" && err != nil || c.err != "" && (!errors.As(err, &failed) || err.Error() != c.err) {
			t.Errorf("error %v, want %q", err, c.err)
		}
	}
}
