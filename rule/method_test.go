package rule

import (
	"strings"
	"testing"
)

// A method has the bit of its place in the list, in whatever case it is written, and the rest share one.
func TestMethodBits(t *testing.T) {
	for i, method := range knownMethods() {
		for _, spelling := range []string{method, strings.ToLower(method), method[:1] + strings.ToLower(method[1:])} {
			if got := methodBit(spelling); got != 1<<i {
				t.Errorf("%s has the bit %#x, want %#x", spelling, got, 1<<i)
			}
		}
	}
	for _, method := range []string{"", "GETT", "PROPFIND", "get "} {
		if got := methodBit(method); got != otherMethod {
			t.Errorf("%q has the bit %#x, want that of all others, %#x", method, got, otherMethod)
		}
	}
}
