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

// is reports whether the key is key, which is sought.
func (n *name) is(s sought, key string) bool {
	return binary.LittleEndian.Uint64(n.short[:8]) == s.low && binary.LittleEndian.Uint64(n.short[8:]) == s.high &&
		(s.high < long<<56 || n.key() == key)
}

// key returns the key.
func (n *name) key() string {
	if size := n.short[shortKey-1]; size < shortKey {
		return unsafe.String(&n.short[0], size) //nolint:gosec // it is written once
	}

	return unsafe.String(n.text, binary.LittleEndian.Uint64(n.short[:])) //nolint:gosec // as setKey has it
}
