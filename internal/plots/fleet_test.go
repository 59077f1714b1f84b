package plots

import (
	"encoding/xml"
	"strings"
	"testing"
)

// The picture is XML, has a line for each row, and names what is drawn in tokens a second.
func TestFleetIsDrawn(t *testing.T) {
	t.Parallel()

	f := Fleet{
		Title: "three servers", Bin: 500_000,
		Wanted: []int64{100, 300}, Ideal: []int64{100, 50}, Admitted: []int64{100, 40}, Limit: []int64{100, 100},
		Servers: [][]int64{{50, 10}, {30, 10}, {20, 20}},
	}

	svg := string(f.SVG())
	if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
		t.Fatal(err)
	}

	for _, want := range []string{"asked for 600", "ideal 100", "limit 100", "admitted 80", "three servers"} {
		if !strings.Contains(svg, want) {
			t.Errorf("%q is not in the picture", want)
		}
	}

	if got := strings.Count(svg, "<polyline") - 4; got != 4+3 { // each named line is drawn in its name, too
		t.Errorf("%d lines, want 7", got)
	}

	if empty := (Fleet{Bin: 1}).SVG(); len(empty) == 0 {
		t.Error("nothing is drawn of nothing")
	}
}
