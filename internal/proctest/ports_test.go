package proctest

import (
	"slices"
	"testing"
)

// Ports that were found free are found by nobody else before they are used: neither again by this process, nor by another one.
func TestFreePortsAreFoundOnce(t *testing.T) {
	var all []int

	for range 30 {
		ports, err := FreePorts(3)
		if err != nil {
			t.Fatal(err)
		}

		all = append(all, ports...)
	}

	slices.Sort(all)

	if n := len(slices.Compact(all)); n != 90 {
		t.Errorf("%d different ports of 90", n)
	}

	mine, err := ours()
	if err != nil {
		t.Fatal(err)
	}

	theirs, err := claimBlock() // as another process would
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.claim.Close()

	if theirs.first == mine.first {
		t.Errorf("two have the ports from %d", mine.first)
	}
}
