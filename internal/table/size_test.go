package table

import (
	"testing"
	"unsafe"
)

// What decisions read of a key is two lines of a cache, of which requests write the
// second alone: the first stays with every processor for a tick. Both parts of an entry fill a size class of Go's allocator, of
// which the larger one begins at a line.
func TestAnEntryFillsItsLines(t *testing.T) {
	t.Parallel()

	const line = 64

	var e Entry

	if n := unsafe.Sizeof(e); n != 2*line {
		t.Errorf("an entry has %d bytes, not two lines", n)
	}

	if at := unsafe.Offsetof(e.Lease) + unsafe.Sizeof(e.Lease) - 48; at != line {
		t.Errorf("what requests write begins at %d, not with the second line", at)
	}

	if n := unsafe.Sizeof(*e.rest); n > 160 {
		t.Errorf("the rest of an entry has %d bytes: the next larger class of sizes costs 16 more a key", n)
	}
}
