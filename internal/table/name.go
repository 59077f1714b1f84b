package table

import (
	"encoding/binary"
	"strings"
	"unsafe"
)

// name is a key: the first field of what a table keeps of it, an Entry or a loan.
type name struct {
	text  *byte          // a key that is not short
	short [shortKey]byte // a short key, and at the end its length; or long, and the length at the start
}

// shortKey is one more than the length of keys, in bytes, that need no memory of their own.
const (
	shortKey = 16
	long     = 0xff // in the place of a short key's length: no key has as many bytes, see rule.MaxKey
)

// entry returns the entry whose name n is.
func (n *name) entry() *Entry { return (*Entry)(unsafe.Pointer(n)) } //nolint:gosec // its first field

// loan returns the loan whose name n is.
func (n *name) loan() *loan { return (*loan)(unsafe.Pointer(n)) } //nolint:gosec // its first field

// setKey writes down the key, once.
func (n *name) setKey(key string) {
	if len(key) < shortKey {
		copy(n.short[:], key)
		n.short[shortKey-1] = byte(len(key))

		return
	}

	n.text = unsafe.StringData(strings.Clone(key)) //nolint:gosec // kept with its length
	n.short[shortKey-1] = long
	binary.LittleEndian.PutUint64(n.short[:], uint64(len(key)))
}

// has reports whether the key is key. Short ones are compared word by
// word, which overlap, without a call.
func (n *name) has(key string) bool {
	size := int(n.short[shortKey-1])
	if size != len(key) {
		return size == long && n.key() == key
	}

	b := unsafe.Slice(unsafe.StringData(key), size) //nolint:gosec // it is only read

	switch {
	case size >= 8:
		return binary.LittleEndian.Uint64(b) == binary.LittleEndian.Uint64(n.short[:]) &&
			binary.LittleEndian.Uint64(b[size-8:]) == binary.LittleEndian.Uint64(n.short[size-8:])
	case size >= 4:
		return binary.LittleEndian.Uint32(b) == binary.LittleEndian.Uint32(n.short[:]) &&
			binary.LittleEndian.Uint32(b[size-4:]) == binary.LittleEndian.Uint32(n.short[size-4:])
	default:
		return string(n.short[:size]) == key
	}
}

// key returns the key.
func (n *name) key() string {
	if size := n.short[shortKey-1]; size < shortKey {
		return unsafe.String(&n.short[0], size) //nolint:gosec // it is written once
	}

	return unsafe.String(n.text, binary.LittleEndian.Uint64(n.short[:])) //nolint:gosec // as setKey has it
}
