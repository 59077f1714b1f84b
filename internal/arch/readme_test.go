package arch

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The README shows the floors; a package that it does not name on its own is one
// that readers do not find.
func TestReadmeNamesTheFloors(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}

	rows := map[floor]string{}

	for line := range strings.Lines(string(text)) {
		for f := wire; f <= assembly; f++ {
			if strings.HasPrefix(line, "| "+f.String()+" |") {
				rows[f] = line
			}
		}
	}

	for path, p := range floors() {
		// Of tests alone.
		tests := slices.Contains([]string{"internal/arch", "internal/faults", "internal/ledger/ledgertest", "internal/proctest"}, path)
		// Of internal/store and internal/rulestore.
		part := strings.HasPrefix(path, "internal/store/") || strings.HasPrefix(path, "internal/rulestore/")

		if path == root || tests || part {
			continue
		}

		if name := "`" + path + "`"; !strings.Contains(rows[p.floor], name) {
			t.Errorf("README.md does not name %s on the floor %v", path, p.floor)
		}
	}
}
