package rule

import (
	"maps"
	"testing"
)

func TestRenamedRules(t *testing.T) {
	t.Parallel()

	before := parsed(t, "rules: [{id: a, limit: 1, window: 1m, description: old}, {id: b, limit: 2, window: 1m}, {id: c, limit: 2, window: 1m}]")

	for _, row := range []struct {
		after string
		want  map[string]string
	}{
		{"{id: a, limit: 1, window: 1m}", nil}, // deleted, the others
		{"{id: x, limit: 1, window: 1m}", map[string]string{"x": "a"}},
		{"{id: x, limit: 9, window: 1m}", nil},                                                        // another one
		{"{id: a, limit: 1, window: 1m}, {id: x, limit: 1, window: 1m}", nil},                         // a copy
		{"{id: x, limit: 1, window: 1m}, {id: y, limit: 1, window: 1m}", map[string]string{"x": "a"}}, // one of them
		{"{id: a, limit: 2, window: 1m}, {id: b, limit: 1, window: 1m}", nil},                         // swapped: changes
		{"{id: x, limit: 2, window: 1m, mode: shadow}, {id: y, limit: 1, window: 60s}", map[string]string{"y": "a"}},
	} {
		if got := parsed(t, "rules: ["+row.after+"]").Renamed(before); !maps.Equal(got, row.want) {
			t.Errorf("%s: renamed %v, want %v", row.after, got, row.want)
		}
	}
}
