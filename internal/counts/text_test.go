package counts

import (
	"testing"
)

// The series of a name stand together below its help and type, and what a text has in it breaks no line.
func TestTheTextOfMetrics(t *testing.T) {
	t.Parallel()

	const want = `# HELP leaseway_a_total A help\nin two lines, with \\.
# TYPE leaseway_a_total counter
leaseway_a_total{rule="r\"\n\\"} 1
leaseway_a_total{rule="s",mode="shadow"} 2e+06
# HELP leaseway_b A share.
# TYPE leaseway_b gauge
leaseway_b 0.5
`

	help := "A help\nin two lines, with \\."

	got := string(AppendText(nil, []Sample{
		{Name: "a_total", Help: help, Value: 1, Labels: []Label{{"rule", "r\"\n\\"}}},
		{Gauge: true, Name: "b", Help: "A share.", Value: 0.5},
		{Name: "a_total", Help: help, Value: 2e6, Labels: []Label{{"rule", "s"}, {"mode", "shadow"}}},
	}))
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestHowManyKeysAreAskedFor(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]int{"": 10, "0": 0, "100": 100} {
		if n, err := Top(text); n != want || err != nil {
			t.Errorf("%q is %d, %v", text, n, err)
		}
	}

	for _, text := range []string{"-1", "101", "x", "1.5"} {
		if n, err := Top(text); err == nil {
			t.Errorf("%q is %d", text, n)
		}
	}
}
