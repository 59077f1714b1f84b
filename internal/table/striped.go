package table

import (
	"sync/atomic"
	"unsafe"
)

// striped is a count that several processors raise at once, most of the time
// each in a line of a cache of its own, which none has to fetch from another.
type striped [1 << stripeBits]struct {
	n atomic.Int64
	_ [cacheLine - 8]byte
}

const (
	stripeBits = 4
	cacheLine  = 64
	stackBits  = 11                 // of an address: stacks are no smaller
	spread     = 0x9e3779b97f4a7c15 // the golden ratio: multiples of it differ in their first bits
)

// add counts one.
func (s *striped) add() { s[stripe()].n.Add(1) }

// stripe tells processors apart, most of the time, by where the stack of the goroutine is that has each of them.
func stripe() int {
	var here byte

	return stripeAt(uintptr(unsafe.Pointer(&here))) //nolint:gosec // only to tell it from others
}

// stripeAt is stripe for an address on the stack.
func stripeAt(here uintptr) int { return int(uint64(here) >> stackBits * spread >> (64 - stripeBits)) }

// sum returns what was counted.
func (s *striped) sum() (n int64) {
	for i := range s {
		n += s[i].n.Load()
	}

	return n
}
